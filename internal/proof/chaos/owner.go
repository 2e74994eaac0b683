package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

const (
	// revokedEach is how often some credential is revoked, and mended how soon the owner of
	// the accounts looks whether one of their connections wants another one. After known the
	// owner has found out without the service.
	revokedEach = 5 * time.Second
	mended      = time.Second
	known       = 6 * time.Second
)

// owner owns the accounts: now and then one of their credentials is revoked, and when
// the service reports that a connection was refused, the owner submits the new one. The
// service reports nothing for a connection that it sends nothing to; the owner submits
// the new one then, too.
type owner struct {
	campaign *campaign
	seed     uint64

	mu      sync.Mutex
	valid   map[string]platform.Credential // by site
	since   map[string]time.Time           // by site: when the valid one was made
	handed  map[string]platform.Credential // by connection: what the service has, if it is not the first
	revoked map[string]int                 // by site
	told    map[string]int                 // by connection: submitted when the service had reported it
	unasked map[string]int                 // by connection: submitted without a report
	again   int                            // tries that the service did not take
}

func newOwner(c *campaign, places map[string]platform.Place) *owner {
	o := &owner{
		campaign: c, seed: c.seed, valid: make(map[string]platform.Credential), revoked: make(map[string]int),
		since: make(map[string]time.Time), handed: make(map[string]platform.Credential), told: make(map[string]int), unasked: make(map[string]int),
	}
	for name, place := range places {
		o.valid[name] = place.Credential
	}
	return o
}

// revokes revokes credentials until ctx ends.
func (o *owner) revokes(ctx context.Context) error {
	random := rand.New(rand.NewPCG(o.seed, 0x6f776e6572)) //nolint:gosec // repeatable is what it must be
	names := make([]string, 0, len(o.valid))
	for name := range o.valid {
		names = append(names, name)
	}
	slices.Sort(names)
	tick := time.NewTicker(revokedEach)
	defer tick.Stop()
	for n := 0; len(names) > 0; n++ {
		if n%len(names) == 0 {
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		name := names[n%len(names)]
		next, err := o.campaign.platform.Revoke(context.WithoutCancel(ctx), name)
		if err != nil {
			return fmt.Errorf("revoke the credential of %s: %w", name, err)
		}
		o.mu.Lock()
		o.valid[name], o.since[name] = next, time.Now()
		o.revoked[name]++
		o.mu.Unlock()
	}
	return nil
}

// mends hands in new credentials where the service says that one was refused, until
// ctx ends. The service asks the platform whose account it is, through the same faults:
// what is not taken now is handed in again.
func (o *owner) mends(ctx context.Context) {
	tick := time.NewTicker(mended)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for conn, id := range o.campaign.to.sites {
			o.mend(ctx, conn, id)
		}
	}
}

func (o *owner) mend(ctx context.Context, conn, id string) {
	asking, cancel := context.WithTimeout(ctx, askBy)
	defer cancel()
	var now *connectionsv1.Connection
	err := o.campaign.fleet.Call(asking, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Connections.GetConnection(ctx, &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: id}})
		now = resp.GetConnection()
		return err
	})
	o.mu.Lock()
	held, site := now.GetAuthHoldTime() != nil, siteOf(conn)
	next, since := o.valid[site], o.since[site]
	late := !since.IsZero() && o.handed[conn] != next && time.Since(since) > known
	o.mu.Unlock()
	if err != nil || !held && !late {
		return
	}
	err = o.campaign.fleet.Call(asking, 0, func(ctx context.Context, api *fleet.API) error {
		_, err := api.Connections.RotateCredential(ctx, &connectionsv1.RotateCredentialRequest{Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: id}, Credential: credentialOf(next)})
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil:
		o.again++
		return
	case held:
		o.told[conn]++
	default:
		o.unasked[conn]++
	}
	o.handed[conn] = next
}

// said returns what became of the credentials.
func (o *owner) said() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("credentials revoked: %s; handed in after the service had said that one was refused: %s; unasked: %s; not taken: %d",
		counts(o.revoked), counts(o.told), counts(o.unasked), o.again)
}

// bites returns why the revoking proves nothing; empty: it does.
func (o *owner) bites() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if sum(o.revoked) > 0 && sum(o.told) == 0 {
		return "credentials were revoked, and the service has never said so"
	}
	return ""
}
