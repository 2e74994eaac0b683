package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/chaos/platform"

	"github.com/fireonce/fireonce/bench/duplicates/internal/tally"
)

const (
	// glance is how often a trial looks how far its system has come while workers
	// are to be killed, look how often it looks later.
	glance = 10 * time.Millisecond
	look   = time.Second
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
	*house
	entry
	system  system
	log     string // the platform's
	control platform.Control
	worker  *process
	kills   int
}

// run gives a system its jobs, kills its worker as planned, and counts.
func (e entry) run(ctx context.Context, h house) (r result, err error) {
	h.dir = filepath.Join(h.dir, strings.NewReplacer(" ", "-", "+", "with").Replace(e.name))
	r = result{System: e.name, Face: e.face, ours: e.ours}
	defer func() {
		if err != nil && !errors.Is(err, errNoRedis) {
			err = fmt.Errorf("%s: %w", e.name, err)
		}
	}()
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return r, err
	}
	t := &trial{house: &h, entry: e, log: filepath.Join(h.dir, "platform.jsonl")}
	outside, err := t.startPlatform(ctx)
	if err != nil {
		return r, err
	}
	defer outside.kill()
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
	if err := t.settle(ctx, outside); err != nil {
		return r, err
	}
	r.Counts, err = tally.Count(h.subjects, platform.ReadLog(t.log), verdicts)
	r.Kills, r.Duplicates = t.kills, r.DuplicatesPerThousand()
	return r, err
}

// startPlatform runs the outer world in a process of its own.
func (t *trial) startPlatform(ctx context.Context) (*process, error) {
	options, err := json.Marshal(platform.Options{Log: t.log, Seed: t.seed, Faults: t.faults})
	if err != nil {
		return nil, err
	}
	p, line, err := start(ctx, again("platform", string(options)), filepath.Join(t.dir, "platform.log"))
	if err != nil {
		return nil, err
	}
	t.platform = strings.TrimPrefix(line, "ready: ")
	t.control = platform.Control{URL: t.platform}
	return p, nil
}

// work lets workers work, one after the other, until every job is at rest or
// time is up, and gives the system's verdicts.
func (t *trial) work(ctx context.Context) (map[string]tally.Verdict, error) {
	timed, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	err := t.live(timed)
	defer func() {
		if t.worker != nil {
			t.worker.kill()
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
	p, line, err := start(ctx, t.system.command(), filepath.Join(t.dir, "worker.log"))
	if err != nil {
		return err
	}
	t.worker = p
	return t.system.ready(ctx, line)
}

// killAll kills the worker whenever another share of the jobs was asked for at
// the platform, and starts the next one at once.
func (t *trial) killAll(ctx context.Context) error {
	progress, err := tally.Follow(t.log)
	if err != nil {
		return err
	}
	defer progress.Close() //nolint:errcheck // only read
	for t.kills < t.settings.kills {
		started, err := progress.Started()
		if err != nil {
			return err
		}
		if started < killAt(t.kills, t.settings.kills, t.jobs) {
			if err := t.worker.alive(); err != nil {
				return err
			}
			if !nap(ctx, glance) {
				return ctx.Err()
			}
			continue
		}
		t.worker.kill()
		t.kills++
		if err := t.live(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killAt is how many jobs must have been asked for before kill i of all.
func killAt(i, kills, jobs int) int { return jobs * (i + 1) / (kills + 1) }

// await waits until every job is at rest.
func (t *trial) await(ctx context.Context) error {
	for {
		n, err := t.system.atRest(ctx)
		if err != nil {
			return err
		}
		if n >= t.jobs {
			return nil
		}
		if err := t.worker.alive(); err != nil {
			return err
		}
		if !nap(ctx, look) {
			return ctx.Err()
		}
	}
}

// settle waits until the platform has acted on all that it took, and ends it: its
// log is whole then.
func (t *trial) settle(ctx context.Context, outside *process) error {
	ctx, cancel := context.WithTimeout(ctx, settleBy)
	defer cancel()
	if _, err := t.control.Settled(ctx); err != nil {
		return err
	}
	return outside.stop()
}
