//go:build unix

package main

import (
	"context"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

// newHall is an empty one, with a receiver.
func newHall(t *testing.T) *hall {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	urls, served := make(chan string, 1), make(chan error, 1)
	go func() { served <- receiver.Serve(ctx, func(url string) { urls <- url }) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	cluster := pgtest.Shared(t)
	name := cluster.NewDatabase(t)
	h, err := openHall(t.Context(), task{
		Database: cluster.URL(name), Admin: cluster.AdminURL(name), Receiver: <-urls, Run: "test", Dir: t.TempDir(),
		size: size{Senders: 8, Callers: 4, Held: 500},
	}, "hall")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCopiesOfFutureJobs: they are there, they are not due, and claims of others
// find others only.
func TestCopiesOfFutureJobs(t *testing.T) {
	h := newHall(t)
	must(t, h.future(t.Context(), 1003))
	must(t, h.inState(t.Context(), job.Scheduled, 1003+manyConnections))
	first, err := h.store.List(t.Context(), store.JobQuery{Project: project, Order: store.ByScheduledAsc, Limit: 1})
	must(t, err)
	last, err := h.store.List(t.Context(), store.JobQuery{Project: project, Limit: 1})
	must(t, err)
	if from, to := first.Jobs[0].NextAt, last.Jobs[0].NextAt; time.Until(from) < later/2 || to.Sub(from) < spread/20 {
		t.Errorf("they are due from %v to %v", from, to)
	}
	if none, err := h.store.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: lease, Limit: 10}); err != nil || len(none) > 0 {
		t.Errorf("%d of them were claimed, %v", len(none), err)
	}
	_, err = h.claims(t.Context(), 2)
	must(t, err)
}

// TestCopiesThatAreHeld: they are due, and no claim gets them.
func TestCopiesThatAreHeld(t *testing.T) {
	h := newHall(t)
	must(t, h.held(t.Context(), 500))
	must(t, h.inState(t.Context(), job.Scheduled, 500+2))
	if none, err := h.store.Claim(t.Context(), store.ClaimParams{Worker: "w", Lease: lease, Limit: 10}); err != nil || len(none) > 0 {
		t.Errorf("%d of them were claimed, %v", len(none), err)
	}
	_, err := h.claims(t.Context(), 1)
	must(t, err)
}

// TestCopiesThatEnded: they have attempts and events like the model.
func TestCopiesThatEnded(t *testing.T) {
	h := newHall(t)
	must(t, h.ended(t.Context(), 300))
	s, err := h.store.Stats(t.Context(), store.StatsQuery{Project: project, Window: 2 * spread})
	must(t, err)
	if n := s.Counts[job.Succeeded]; n != 300+manyConnections {
		t.Errorf("%d have succeeded", n)
	}
	page, err := h.store.List(t.Context(), store.JobQuery{Project: project, Order: store.ByScheduledAsc, Limit: 300})
	must(t, err)
	for _, at := range []int{0, 150, 299} {
		j := page.Jobs[at]
		log, err := h.store.Events(t.Context(), store.EventQuery{Project: project, Job: j.ID, Limit: 100})
		must(t, err)
		if len(log.Events) == 0 || int64(len(log.Events)) != j.Version {
			t.Errorf("a copy of version %d has %d events", j.Version, len(log.Events))
		}
		for i, e := range log.Events {
			if e.Sequence != int64(i+1) {
				t.Errorf("event %d is %d", i+1, e.Sequence)
			}
		}
		attempts, err := h.store.Attempts(t.Context(), store.Ref{Project: project, ID: j.ID}, 0, 10)
		if err != nil || len(attempts) != 1 || attempts[0].Result != job.ResultSucceeded {
			t.Errorf("%+v, %v", attempts, err)
		}
	}
	_, err = h.claims(t.Context(), 1)
	must(t, err)
	h.Jobs = 20
	_, err = h.round(t.Context())
	must(t, err)
}
