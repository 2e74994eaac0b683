package vault

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Rules of this file: a server that meets a key that it does not have reads its
// keys once more, so that another server may seal with a new key before this one is
// restarted. Keys that come in this way only open. The key that seals stays the
// one of the start: who seals asks for its id in a second step.

// followGap is the shortest time between two readings.
const followGap = time.Second

// late are the keys that came in after the start.
type late struct {
	load func() (*Vault, error)
	now  func() time.Time

	mu     sync.Mutex
	keys   []*keyring
	looked time.Time
}

// Follow makes the vault that load gives, and calls load again, at most once a
// second, when something was sealed with a key that it does not have. An error of
// such a call, and what is missing afterwards, is ErrKeyID to whoever asked.
func Follow(load func() (*Vault, error), now func() time.Time) (*Vault, error) {
	v, err := load()
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return &Vault{keys: v.keys, late: &late{load: load, now: now}}, nil
}

// NextKeyID names the key that the vault will seal with after the next start, if what
// load gives by now begins with another one than at this start. Empty: with the same,
// or nobody can tell.
func (v *Vault) NextKeyID() string {
	if v.late == nil {
		return ""
	}
	now, err := v.late.load()
	if err != nil || now.KeyID() == v.KeyID() {
		return ""
	}
	return now.KeyID()
}

// find gives a key that is not of the start.
func (l *late) find(id string) *keyring {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := func(k *keyring) bool { return k.id == id }
	if at := slices.IndexFunc(l.keys, has); at >= 0 {
		return l.keys[at]
	}
	now := l.now()
	if since := now.Sub(l.looked); since >= 0 && since < followGap {
		return nil
	}
	l.looked = now
	v, err := l.load()
	if err != nil {
		return nil
	}
	at := slices.IndexFunc(v.keys, has)
	if at < 0 {
		return nil
	}
	// The others of the file come in when they are met.
	if len(l.keys) == maxKeys {
		l.keys = l.keys[1:]
	}
	l.keys = append(l.keys, v.keys[at])
	return v.keys[at]
}
