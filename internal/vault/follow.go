package vault

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Rules of this file: a server that encounters a key that it does not have reads its
// keys again, so that another server may seal with a new key before this one is
// restarted. Keys that are read in this way only open. The key that seals stays the
// one of the start, because callers ask for its id in a step after Seal.

// followGap is the shortest time between two readings.
const followGap = time.Second

// late holds the keys that were read after the start.
type late struct {
	load func() (*Vault, error)
	now  func() time.Time

	mu     sync.Mutex
	keys   []*keyring
	looked time.Time
}

// Follow returns a vault of the keys that load returns. The vault calls load again, at
// most once a second, when it has to open a secret that was sealed with a key that it
// does not have. If that call fails, or the key is still missing, opening fails with
// ErrKeyID.
func Follow(load func() (*Vault, error), now func() time.Time) (*Vault, error) {
	v, err := load()
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return &Vault{keys: v.keys, late: &late{load: load, now: now}}, nil
}

// NextKeyID returns the key with which the vault will seal after the next start, if load's
// first key is now another one than at this start. Empty: it is the same, or load fails.
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

// find returns a key that is not of the start.
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
	// The other keys of the file are added when they are needed.
	if len(l.keys) == maxKeys {
		l.keys = l.keys[1:]
	}
	l.keys = append(l.keys, v.keys[at])
	return v.keys[at]
}
