package listen

import (
	"crypto/sha256"
	"sync"
)

// maxKeys is how many keys are remembered. Only their digests are kept: a key may be as long
// as a header.
const maxKeys = 10_000

// memory records the outcomes of the requests with each key. The oldest keys are forgotten.
type memory struct {
	mu   sync.Mutex
	of   map[[sha256.Size]byte]*past
	ring [][sha256.Size]byte
	next int
}

// past is the outcome of the requests with one key.
type past struct{ failed, acted bool }

func newMemory(size int) *memory {
	return &memory{of: make(map[[sha256.Size]byte]*past), ring: make([][sha256.Size]byte, 0, size)}
}

// with calls do with the past of a key. An empty key has no past.
func (m *memory) with(key string, do func(*past)) {
	if key == "" {
		do(new(past))
		return
	}
	digest := sha256.Sum256([]byte(key))
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.of[digest]
	if p == nil {
		p = new(past)
		m.remember(digest, p)
	}
	do(p)
}

func (m *memory) remember(digest [sha256.Size]byte, p *past) {
	m.of[digest] = p
	if len(m.ring) < cap(m.ring) {
		m.ring = append(m.ring, digest)
		return
	}
	delete(m.of, m.ring[m.next])
	m.ring[m.next] = digest
	m.next = (m.next + 1) % len(m.ring)
}
