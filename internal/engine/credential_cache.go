package engine

import (
	"time"

	"github.com/fireonce/fireonce/internal/cache"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the cache holds a connection's opened credential and what the
// connector reported of it and of the settings. An entry is for exactly the version, and
// everything that the credential is sealed for, as a claim names them, and does not last
// long. A version is written once: another credential has another one. What changes
// without a version (holds, limits) is not cached.

const (
	// maxCached bounds the connections in the cache.
	maxCached = 1024
	// maxCacheAge is how long an entry is used, so that a credential of a database that
	// was restored is read again soon. An expired one leaves memory when another is stored.
	maxCacheAge = 30 * time.Second
)

// credentialCache caches opened credentials with what their connectors reported of them.
type credentialCache struct {
	opened *cache.TTL[job.ID, cachedCredential]
}

func newCredentialCache(c Clock) credentialCache {
	return credentialCache{cache.New[job.ID, cachedCredential](cache.Options{
		Max: maxCached, Age: maxCacheAge, Now: func() time.Time { return c.Read().Time },
	})}
}

type cachedCredential struct {
	// sealedFor is what the credential was opened for.
	sealedFor  store.SealedFor
	version    int
	credential connector.Credential
	capability connector.Capability
}

func (k cachedCredential) fits(c *store.Connection) bool {
	return k.version == c.CredentialVersion && k.sealedFor.Equal(c.SealedFor())
}

// get returns what is cached of the connection as a claim has it.
func (k credentialCache) get(c *store.Connection) (connector.Credential, connector.Capability, bool) {
	known, ok := k.opened.Get(c.ID)
	if !ok || !known.fits(c) {
		return connector.Credential{}, connector.Capability{}, false
	}
	return known.credential, known.capability, true
}

// put caches a connection whose credential is the one that the claim names: one that was
// replaced meanwhile has another version.
func (k credentialCache) put(c *store.Connection, cred connector.Credential, capability connector.Capability) {
	if cred.Version != c.CredentialVersion {
		return
	}
	k.opened.Put(c.ID, cachedCredential{
		sealedFor: c.SealedFor(), version: c.CredentialVersion, credential: cred, capability: capability,
	})
}
