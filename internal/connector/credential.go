package connector

import (
	"sync"

	"github.com/fireonce/fireonce/internal/redact"
)

// Credential is an opened secret: the contract's Credential message, encoded.
// It prints as nothing.
type Credential struct {
	redact.All

	Version int
	Data    []byte
	// opened holds the values that the copies of a shared credential have read from it.
	opened *opened
}

// opened holds the value that a connector has read from a credential.
type opened struct {
	mu    sync.Mutex
	value any
}

// Shared returns the credential in a form whose copies share the value that is read
// from it: for a credential that serves many jobs.
func (c Credential) Shared() Credential {
	c.opened = new(opened)
	return c
}

// Opened reads a credential with open, once for a shared one. The value that open
// returns is shared, too: callers must not change it.
func Opened[T any](c Credential, open func(Credential) (T, error)) (T, error) {
	if c.opened == nil {
		return open(c)
	}
	c.opened.mu.Lock()
	defer c.opened.mu.Unlock()
	if v, ok := c.opened.value.(T); ok {
		return v, nil
	}
	v, err := open(c)
	if err == nil {
		c.opened.value = v
	}
	return v, err
}
