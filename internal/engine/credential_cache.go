package engine

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: what is remembered of a connection is what its credential
// and settings come to, for exactly the version and everything that the credential is
// sealed for, as a claim names them, and not for long. A version is written once:
// another credential has another one. Nothing that changes otherwise (holds, limits) is remembered.

const (
	// mostDoors bounds the connections that are remembered.
	mostDoors = 1024
	// doorAge is how long one is remembered: secrets do not stay for ever, and a
	// database that was put back is believed soon.
	doorAge = 30 * time.Second
)

// doors remembers opened credentials with what their connectors said of them.
type doors struct {
	mu   sync.Mutex
	open map[job.ID]door
}

type door struct {
	// sealedFor is what the credential was opened for.
	sealedFor  store.SealedFor
	version    int
	until      time.Time
	credential connector.Credential
	capability connector.Capability
}

func (d door) fits(c *store.Connection) bool {
	return d.version == c.CredentialVersion && d.sealedFor.Equal(c.SealedFor())
}

// find gives what is remembered of the connection as the claim has it.
func (d *doors) find(c *store.Connection, now time.Time) (connector.Credential, connector.Capability, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.open[c.ID]
	if !ok || !known.fits(c) || !now.Before(known.until) {
		return connector.Credential{}, connector.Capability{}, false
	}
	return known.credential, known.capability, true
}

// keep remembers a connection whose credential is the one that the claim names:
// one that was replaced meanwhile is another version.
func (d *doors) keep(c *store.Connection, cred connector.Credential, capability connector.Capability, now time.Time) {
	if cred.Version != c.CredentialVersion {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil || len(d.open) >= mostDoors {
		d.open = make(map[job.ID]door)
	}
	d.open[c.ID] = door{
		sealedFor: c.SealedFor(), version: c.CredentialVersion, until: now.Add(doorAge),
		credential: cred, capability: capability,
	}
}
