package connector

import (
	"strings"
	"sync"
)

// mostRemembered bounds how many texts a Memo remembers.
const mostRemembered = 512

// Memo remembers what was read out of texts that come with every job: URLs, and a
// connection's settings. It holds nothing that is secret, and of a bad text nothing. Its
// zero value is empty; it is safe for concurrent use. The caller bounds the texts.
type Memo[T any] struct {
	mu sync.RWMutex
	by map[string]T
}

// Get returns what was read out of a text. It is shared: nobody may change what it points to.
func (m *Memo[T]) Get(text string) (T, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.by[text]
	return v, ok
}

// GetBytes is Get for a text in bytes.
func (m *Memo[T]) GetBytes(text []byte) (T, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	v, ok := m.by[string(text)] // compiled without a copy of the text
	return v, ok
}

// Put remembers what was read out of a text. When there are too many, all are forgotten.
func (m *Memo[T]) Put(text string, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil || len(m.by) >= mostRemembered {
		m.by = make(map[string]T)
	}
	m.by[strings.Clone(text)] = v
}
