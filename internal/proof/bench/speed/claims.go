//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
)

const (
	// claimed is how many jobs one claim takes, claimsEach how many claims a
	// repetition measures in each database.
	claimed    = 100
	claimsEach = 15
)

// fireonceClaims measures claims of due jobs in databases that differ by what
// else is there. They take turns.
func fireonceClaims(ctx context.Context, t task, give func(sample)) (err error) {
	kinds := []struct {
		metric string
		fill   func(h *hall) error
	}{
		{"few_ms", func(h *hall) error { return h.future(ctx, t.Few) }},
		{"many_ms", func(h *hall) error { return h.future(ctx, t.Many) }},
		{"most_ms", func(h *hall) error { return h.future(ctx, t.Most) }},
		{"held_ms", func(h *hall) error { return errors.Join(h.future(ctx, t.Few), h.held(ctx, t.Held)) }},
	}
	halls := make([]*hall, 0, len(kinds))
	defer func() {
		for _, h := range halls {
			err = errors.Join(err, h.close())
		}
	}()
	for i, k := range kinds {
		h, err := openHall(ctx, t, fmt.Sprint("claims_", i))
		if err != nil {
			return err
		}
		halls = append(halls, h)
		if err := k.fill(h); err != nil {
			return err
		}
	}
	for _, h := range halls { // plans and caches
		if _, err := h.claims(ctx, claimsEach); err != nil {
			return err
		}
	}
	for rep := range t.Repetitions {
		s := make(sample)
		for i := range halls {
			at := (i + rep) % len(halls)
			took, err := halls[at].claims(ctx, claimsEach)
			if err != nil {
				return err
			}
			s[kinds[at].metric] = took
		}
		give(s)
	}
	return nil
}

// claims returns the median of some claims in milliseconds.
func (h *hall) claims(ctx context.Context, times int) (float64, error) {
	took := make([]float64, times)
	for i := range took {
		items := make([]store.NewJob, claimed)
		for n := range items {
			var err error
			if items[n], err = h.newJob(h.connections[n%len(h.connections)], payloadOfNone(), time.Time{}); err != nil {
				return 0, err
			}
		}
		if _, err := h.store.Create(ctx, items); err != nil {
			return 0, err
		}
		begin := time.Now()
		leased, err := h.store.Claim(ctx, store.ClaimParams{Worker: "bench", Lease: lease, Limit: claimed})
		took[i] = milliseconds(time.Since(begin))
		if err != nil || len(leased) != claimed {
			return 0, fmt.Errorf("%d jobs were claimed, not %d: %w", len(leased), claimed, err)
		}
		if err := h.end(ctx, leased, job.CancelAsked{}); err != nil {
			return 0, err
		}
	}
	return median(took), nil
}

// payloadOfNone is a request that is never sent, or does not count.
func payloadOfNone() []byte { return receiver.Payload(-1, time.Now()) }
