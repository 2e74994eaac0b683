package engine

import (
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the cache holds a connection's opened credential and what the
// connector says of it and of the settings. An entry is for exactly the version, and
// everything that the credential is sealed for, as a claim names them, and does not last
// long. A version is written once: another credential has another one. What changes
// without a version (holds, limits) is not cached.

const (
	// maxCached bounds the connections in the cache.
	maxCached = 1024
	// maxCacheAge is how long an entry lasts: secrets do not stay in memory, and a
	// database that was restored counts soon.
	maxCacheAge = 30 * time.Second
)

// credentialCache caches opened credentials with what their connectors say of them.
type credentialCache struct {
	mu   sync.Mutex
	open map[job.ID]cachedCredential
}

type cachedCredential struct {
	// sealedFor is what the credential was opened for.
	sealedFor  store.SealedFor
	version    int
	until      time.Time
	credential connector.Credential
	capability connector.Capability
}

func (k cachedCredential) fits(c *store.Connection) bool {
	return k.version == c.CredentialVersion && k.sealedFor.Equal(c.SealedFor())
}

// find returns what is cached of the connection as a claim has it.
func (k *credentialCache) find(c *store.Connection, now time.Time) (connector.Credential, connector.Capability, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known, ok := k.open[c.ID]
	if !ok || !known.fits(c) || !now.Before(known.until) {
		return connector.Credential{}, connector.Capability{}, false
	}
	return known.credential, known.capability, true
}

// keep caches a connection whose credential is the one that the claim names: one that was
// replaced meanwhile has another version.
func (k *credentialCache) keep(c *store.Connection, cred connector.Credential, capability connector.Capability, now time.Time) {
	if cred.Version != c.CredentialVersion {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open == nil || len(k.open) >= maxCached {
		k.open = make(map[job.ID]cachedCredential)
	}
	k.open[c.ID] = cachedCredential{
		sealedFor: c.SealedFor(), version: c.CredentialVersion, until: now.Add(maxCacheAge),
		credential: cred, capability: capability,
	}
}
