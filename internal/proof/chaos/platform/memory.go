package platform

import "sync"

// remembered is what a key was used for.
type remembered struct {
	id     string
	ticket uint64 // of the effect's record
}

// memory is a receiver's memory of keys: the last so many. The caller holds mu
// from find to add, so that of two requests with one key only one acts.
type memory struct {
	mu   sync.Mutex
	made map[string]remembered
	ring []string // the keys, the oldest at next once it is full
	next int
	size int
}

func newMemory(size int) *memory { return &memory{made: make(map[string]remembered), size: size} }

func (m *memory) find(key string) (remembered, bool) {
	r, ok := m.made[key]
	return r, ok
}

// add remembers a new key, and reports whether another was forgotten for it.
func (m *memory) add(key string, r remembered) (forgot bool) {
	m.made[key] = r
	if len(m.ring) < m.size {
		m.ring = append(m.ring, key)
		return false
	}
	delete(m.made, m.ring[m.next])
	m.ring[m.next] = key
	m.next = (m.next + 1) % m.size
	return true
}
