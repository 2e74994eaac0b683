//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/store"
)

// eventPage is how many events a stream reads in one call.
const eventPage = 100

// fireonceTerminal measures the same work in an empty database and in one that
// has everything of many jobs that ended. They take turns.
func fireonceTerminal(ctx context.Context, t task, give func(sample)) (err error) {
	names := []string{"empty", "full"}
	halls := make([]*hall, 0, len(names))
	defer func() {
		for _, h := range halls {
			err = errors.Join(err, h.close())
		}
	}()
	for i, name := range names {
		h, err := openHall(ctx, t, name)
		if err != nil {
			return err
		}
		halls = append(halls, h)
		if err := h.ended(ctx, i*t.Ended); err != nil {
			return err
		}
	}
	for _, h := range halls { // plans and caches
		if _, err := h.round(ctx); err != nil {
			return err
		}
	}
	for rep := range t.Repetitions {
		s := make(sample)
		for i := range halls {
			at := (i + rep) % len(halls)
			values, err := halls[at].round(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", names[at], err)
			}
			for metric, v := range values {
				s[names[at]+"_"+metric] = v
			}
		}
		give(s)
	}
	return nil
}

// round submits, claims, and reads the events of what was submitted.
func (h *hall) round(ctx context.Context) (sample, error) {
	log, err := h.store.Events(ctx, store.EventQuery{Project: project, After: 0, Limit: 1})
	if err != nil {
		return nil, err
	}
	at := time.Now().Add(later)
	s, err := h.rate(ctx, 0, func(ctx context.Context, i int) error {
		return h.create(ctx, h.connections[i%len(h.connections)], at, i, i+1)
	})
	if err != nil {
		return nil, err
	}
	out := sample{"submit_per_s": s["per_s"]}
	if out["events_ms"], err = h.pages(ctx, log.End, h.Jobs); err != nil {
		return nil, err
	}
	out["claim_ms"], err = h.claims(ctx, claimsEach)
	return out, err
}

// pages reads the events after a position as a stream does, and returns the median
// time for a page.
func (h *hall) pages(ctx context.Context, after int64, want int) (float64, error) {
	var took []float64
	got := 0
	for got < want {
		begin := time.Now()
		page, err := h.store.Events(ctx, store.EventQuery{Project: project, After: after, Limit: eventPage})
		if err != nil {
			return 0, err
		}
		took = append(took, milliseconds(time.Since(begin)))
		if len(page.Events) == 0 && !page.More {
			return 0, fmt.Errorf("%d events were read, not %d", got, want)
		}
		got += len(page.Events)
		after = page.Next
	}
	return median(took), nil
}
