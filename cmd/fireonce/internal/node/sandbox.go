package node

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a server of `fireonce sandbox` keeps every rule of the protocol. Its waits
// are shorter. They are right for fakes, which show a write immediately, and would make duplicates
// on the real platforms, so the server reaches nothing but this machine.

const (
	// sandboxLag bounds the time until a read shows a write, and the time between two looks.
	sandboxLag = time.Second
	// sandboxTimeout is the default timeout of a request, and sandboxBackoff the default wait after
	// the first proven failure. A job's own values override them.
	sandboxTimeout = 3 * time.Second
	sandboxBackoff = time.Second
	// SandboxUploadLife is how long the sandbox's fakes keep an upload that has begun.
	SandboxUploadLife = 10 * time.Second
	// SandboxGrace is the grace of a sandbox's server.
	SandboxGrace = time.Second
)

// checkSandbox refuses a sandbox that could reach a real platform.
func (c *Config) checkSandbox() error {
	if !c.Sandbox {
		return nil
	}
	if !c.Dev || len(c.AllowEgress) > 0 || c.Connectors != "" {
		return errors.New("node: a sandbox is for development, and reaches nothing but loopback addresses")
	}
	for _, name := range movable() {
		u, err := url.Parse(c.PlatformURLs[name])
		if err != nil {
			return err
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err != nil || !addr.IsLoopback() {
			return errors.New("node: a sandbox needs a fake of " + name + " at a loopback address")
		}
	}
	return nil
}

// creator returns the store for submitted jobs.
func (c *Config) creator(s server.Creator) server.Creator {
	if !c.Sandbox {
		return s
	}
	return hurriedJobs{s}
}

// firings returns the store for the jobs of schedules.
func (c *Config) firings(s schedule.Store) schedule.Store {
	if !c.Sandbox {
		return s
	}
	return hurriedFirings{s}
}

// hurriedJobs sets the sandbox's times on jobs that name none, and hurriedFirings on the jobs of
// schedules.
type (
	hurriedJobs    struct{ server.Creator }
	hurriedFirings struct{ schedule.Store }
)

// Create implements server.Creator.
func (h hurriedJobs) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	for i := range items {
		hurry(&items[i])
	}
	return h.Creator.Create(ctx, items)
}

// Fire implements schedule.Store.
func (h hurriedFirings) Fire(ctx context.Context, p store.FireParams) ([]store.Fired, bool, error) {
	decide := p.Decide
	p.Decide = func(due store.DueSchedule) store.FireDecision {
		d := decide(due)
		for _, f := range d.Firings {
			if f.Job != nil {
				hurry(f.Job)
			}
		}
		return d
	}
	return h.Store.Fire(ctx, p)
}

func hurry(n *store.NewJob) {
	retry := &n.Spec.Retry
	retry.AttemptTimeout = cmp.Or(retry.AttemptTimeout, sandboxTimeout)
	retry.MinBackoff = cmp.Or(retry.MinBackoff, sandboxBackoff)
}
