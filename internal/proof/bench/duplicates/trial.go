package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
	"github.com/fireonce/fireonce/internal/proof/bench/internal/redis"
	"github.com/fireonce/fireonce/internal/proof/proc"
)

const (
	// glance is how often a trial looks how far its system has come.
	glance = 100 * time.Millisecond
	// settleBy bounds the wait for requests that the platform has taken and not
	// acted on yet.
	settleBy = 30 * time.Second
)

// result is what came of an entry.
type result struct {
	System  string `json:"system"`
	Face    string `json:"face"`
	Skipped string `json:"skipped,omitempty"`
	tally.Counts
	Kills      int     `json:"kills"`
	Duplicates float64 `json:"duplicates_per_1000"`
	Seconds    float64 `json:"seconds"`
	ours       bool
}

// trial is one system with a platform of its own.
type trial struct {
	*environment
	entry
	system  system
	outside *platform.Process
	worker  *proc.Process
	kills   int
}

// run returns a system its jobs, kills its worker as planned, and counts.
func (e entry) run(ctx context.Context, h environment) (r result, err error) {
	h.dir = filepath.Join(h.dir, strings.NewReplacer(" ", "-", "+", "with").Replace(e.name))
	r = result{System: e.name, Face: e.face, ours: e.ours}
	defer func() {
		if err != nil && !errors.Is(err, redis.ErrNone) {
			err = fmt.Errorf("%s: %w", e.name, err)
		}
	}()
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return r, err
	}
	t := &trial{environment: &h, entry: e}
	t.outside, err = platform.Spawn(ctx, []string{proc.Self, "platform"}, platform.Options{
		Log: filepath.Join(h.dir, "platform.jsonl"), Seed: h.seed, Faults: h.faults,
	})
	if err != nil {
		return r, err
	}
	defer t.outside.Stop() //nolint:errcheck // settle has asked whether its log is whole
	h.platform = t.outside.URL
	t.system = e.make(&h, e.face)
	defer func() { err = errors.Join(err, t.system.close()) }()
	if err := t.system.prepare(ctx); err != nil {
		return r, err
	}
	begin := time.Now()
	verdicts, err := t.work(ctx)
	if err != nil {
		return r, err
	}
	r.Seconds = time.Since(begin).Round(time.Second / 10).Seconds()
	if err := t.settle(ctx); err != nil {
		return r, err
	}
	r.Counts, err = tally.Count(h.subjects, platform.ReadLog(t.outside.Log), verdicts)
	r.Kills, r.Duplicates = t.kills, r.DuplicatesPerThousand()
	return r, err
}

// work lets workers work, one after the other, until every job is at rest or
// time is up, and returns the system's verdicts.
func (t *trial) work(ctx context.Context) (map[string]tally.Verdict, error) {
	timed, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	err := t.live(timed)
	defer func() {
		if t.worker != nil {
			t.worker.Kill()
		}
	}()
	if err == nil {
		err = t.killAll(timed)
	}
	if err == nil {
		err = t.await(timed)
	}
	if err != nil && (ctx.Err() != nil || timed.Err() == nil) {
		return nil, err // time that is up is no error
	}
	return t.system.verdicts(ctx)
}

// live starts a worker.
func (t *trial) live(ctx context.Context) error {
	p, line, err := proc.Serve(ctx, t.system.command(), filepath.Join(t.dir, "worker.log"))
	if err != nil {
		return err
	}
	t.worker = p
	return t.system.ready(ctx, line)
}

// killAll kills the worker whenever the jobs have come another step further, and
// starts the next one immediately.
func (t *trial) killAll(ctx context.Context) error {
	log, err := tally.Follow(t.outside.Log)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // only read
	for t.kills < t.settings.kills {
		started, err := log.Started()
		if err != nil {
			return err
		}
		atRest, err := t.look(ctx)
		if err != nil {
			return err
		}
		if started+atRest < killAt(t.kills, t.settings.kills, t.jobs) {
			if !nap(ctx, glance) {
				return ctx.Err()
			}
			continue
		}
		t.worker.Kill()
		t.kills++
		if err := t.live(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killAt is how far the jobs must have come before kill i of all: a job has come
// one step when the platform was asked for it, and another when it is at rest.
// So most kills fall into first tries, and some into what comes afterwards.
func killAt(i, kills, jobs int) int { return 2 * jobs * (i + 1) / (kills + 1) }

// look counts the jobs at rest.
func (t *trial) look(ctx context.Context) (int, error) {
	if err := t.worker.Alive(); err != nil {
		return 0, err
	}
	return t.system.atRest(ctx)
}

// await waits until every job is at rest.
func (t *trial) await(ctx context.Context) error {
	for {
		n, err := t.look(ctx)
		if err != nil || n >= t.jobs {
			return err
		}
		if !nap(ctx, glance) {
			return ctx.Err()
		}
	}
}

// settle waits until the platform has acted on all that it took, and ends it: its
// log is whole then.
func (t *trial) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleBy)
	defer cancel()
	if _, err := t.outside.Settled(ctx); err != nil {
		return err
	}
	return t.outside.Stop()
}
