//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/clone"
)

const (
	// manyConnections is over how many connections jobs are spread.
	manyConnections = 10
	// spread is over how much time future jobs are spread, and ended ones.
	spread = 20 * 24 * time.Hour
	lease  = time.Minute
)

// hall is a database with many jobs, and connections whose jobs are measured.
type hall struct {
	*local
	connections []store.Connection
	copies      int
	drop        func() error
}

// openHall makes another database beside the task's own.
func openHall(ctx context.Context, t task, name string) (*hall, error) {
	base, err := pgx.Connect(ctx, t.Admin)
	if err != nil {
		return nil, err
	}
	defer base.Close(ctx) //nolint:errcheck // what it did was confirmed
	name = base.Config().Database + "_" + name
	if _, err := base.Exec(ctx, "CREATE DATABASE "+name+" OWNER "+pgtest.Role); err != nil {
		return nil, err
	}
	admin := t.Admin
	h := &hall{drop: func() error { return dropDatabase(context.WithoutCancel(ctx), admin, name) }}
	if t.Database, err = beside(t.Database, name); err != nil {
		return nil, err
	}
	if t.Admin, err = beside(t.Admin, name); err != nil {
		return nil, err
	}
	if h.local, err = openLocal(ctx, t); err != nil {
		return nil, errors.Join(err, h.drop())
	}
	for range manyConnections {
		c, err := h.connect(ctx)
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
		h.connections = append(h.connections, c)
	}
	return h, nil
}

func (h *hall) close() error { return errors.Join(h.local.close(), h.drop()) }

// beside is the URL of another database of the same server.
func beside(address, name string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

func dropDatabase(ctx context.Context, admin, name string) error {
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // what it did was confirmed
	_, err = conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	return err
}

// model submits one job, and returns its id.
func (h *hall) model(ctx context.Context, c store.Connection, at time.Time) (job.ID, error) {
	item, err := h.newJob(c, payloadOfNone(), at)
	if err != nil {
		return job.ID{}, err
	}
	out, err := h.store.Create(ctx, []store.NewJob{item})
	if err == nil {
		err = out[0].Err
	}
	return item.Spec.ID, err
}

// fill writes copies of models, as many of each, and brings the database to rest.
func (h *hall) fill(ctx context.Context, models []job.ID, jobs int, o clone.Options) error {
	conn, err := pgx.Connect(ctx, h.Admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // what it did was confirmed
	err = clone.WithoutIndexes(ctx, conn, func() error {
		for i, m := range models {
			n := jobs*(i+1)/len(models) - jobs*i/len(models)
			o.Jobs, o.Offset = n, h.copies
			if err := clone.Fill(ctx, conn, m, o); err != nil {
				return err
			}
			h.copies += n
		}
		return nil
	})
	if err != nil {
		return err
	}
	return settle(ctx, h.Admin)
}

// future adds jobs that are due from an hour from now on.
func (h *hall) future(ctx context.Context, jobs int) error {
	if jobs == 0 {
		return nil
	}
	models := make([]job.ID, len(h.connections))
	for i, c := range h.connections {
		var err error
		if models[i], err = h.model(ctx, c, time.Now().Add(later)); err != nil {
			return err
		}
	}
	return h.fill(ctx, models, jobs, clone.Options{Step: spread / time.Duration(jobs), Only: clone.Due})
}

// held adds due jobs of a connection whose credential was refused.
func (h *hall) held(ctx context.Context, jobs int) error {
	c, err := h.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := h.model(ctx, c, time.Time{}); err != nil {
		return err
	}
	leased, err := h.store.Claim(ctx, store.ClaimParams{Worker: "bench", Lease: lease, Limit: 1})
	if err != nil || len(leased) != 1 || leased[0].Connection.ID != c.ID {
		return fmt.Errorf("not one job of one connection was claimed: %v, %w", leased, err)
	}
	if err := h.end(ctx, leased, job.Deferred{Kind: job.FailAuth, Message: "refused"}); err != nil {
		return err
	}
	m, err := h.model(ctx, c, time.Time{})
	if err != nil {
		return err
	}
	return h.fill(ctx, []job.ID{m}, jobs, clone.Options{})
}

// ended adds jobs that have succeeded in the last weeks.
func (h *hall) ended(ctx context.Context, jobs int) error {
	return h.endedWith(ctx, jobs, -spread/time.Duration(max(1, jobs)), 0)
}

// endedWith adds jobs that have succeeded, one before the other. The models were sent.
func (h *hall) endedWith(ctx context.Context, jobs int, step, shift time.Duration) error {
	models := make([]job.ID, len(h.connections))
	for i, c := range h.connections {
		var err error
		if models[i], err = h.model(ctx, c, time.Time{}); err != nil {
			return err
		}
	}
	stop, err := h.work(ctx)
	if err != nil {
		return err
	}
	err = h.idle(ctx)
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	return h.fill(ctx, models, jobs, clone.Options{Step: step, Shift: shift})
}

// end judges evidence on leased jobs, and so releases their permits.
func (h *hall) end(ctx context.Context, leases []store.Leased, e job.Evidence) error {
	changes := make([]store.Change, len(leases))
	for i, l := range leases {
		d, err := job.Decide(l.View(job.Traits{Class: l.Class}, 0), e)
		if err != nil {
			return err
		}
		changes[i] = store.Change{Job: l.ID, Version: l.Version, Decision: d}
	}
	out, err := h.store.Apply(ctx, changes)
	for _, a := range out {
		err = errors.Join(err, a.Err)
	}
	return err
}
