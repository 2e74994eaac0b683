package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// campaign runs the true code and then the mutants.
type campaign struct {
	options
	harness harness
	out     io.Writer
}

// result is what became of one mutant: found, survived, or failed by err.
type result struct {
	mutant mutant
	found  *finding
	worlds uint64
	err    error
}

func (c campaign) run(ctx context.Context, mutants []mutant) error {
	begun := time.Now()
	worlds, err := c.trueCode(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "the true code passes %d worlds (%v)\n\n", worlds, time.Since(begun).Round(time.Second))
	results := c.all(ctx, mutants)
	if err := ctx.Err(); err != nil {
		return err
	}
	return report(c.out, results, worlds, time.Since(begun))
}

// trueCode runs the source as it is on every world that a mutant may be run on.
// What it fails says nothing about mutants.
func (c campaign) trueCode(ctx context.Context) (worlds uint64, err error) {
	overlay, err := mutant{}.writeOverlay(c.harness.root, c.harness.dir)
	if err != nil {
		return 0, fmt.Errorf("the true code: %w", err)
	}
	binary, err := c.harness.build(ctx, "true", overlay)
	if err != nil {
		return 0, fmt.Errorf("the true code: %w", err)
	}
	var wait sync.WaitGroup
	tests := []string{safety, liveness, schedules}
	errs := make([]error, len(tests))
	for i, test := range tests {
		n := c.seeds
		if test == schedules {
			n = c.recurring()
		}
		worlds += n
		wait.Go(func() {
			f, err := c.harness.run(ctx, binary, test, c.first, n)
			if f != nil {
				err = fmt.Errorf("%s at seed %d of %s: look at that first", f.invariant, f.seed, f.test)
			}
			errs[i] = err
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, fmt.Errorf("the true code: %w", err)
	}
	return worlds, nil
}

// recurring is how many worlds with schedules are tried: each takes as long as several others.
func (c campaign) recurring() uint64 { return max(1, c.seeds/recurringShare) }

// tests are those that a mutant is tried on, and how many worlds of each.
func (c campaign) tests(m mutant) (tests []string, seeds uint64) {
	if m.schedules {
		return []string{schedules}, c.recurring()
	}
	return []string{safety, liveness}, c.seeds
}

// all runs the mutants, some concurrently, and prints each as it ends.
func (c campaign) all(ctx context.Context, mutants []mutant) []result {
	results := make([]result, len(mutants))
	free := make(chan struct{}, c.parallel)
	var wait sync.WaitGroup
	var lines sync.Mutex
	for i, m := range mutants {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			results[i] = c.one(ctx, m)
			lines.Lock()
			defer lines.Unlock()
			fmt.Fprintln(c.out, results[i])
		})
	}
	wait.Wait()
	return results
}

// one builds a mutant and runs it.
func (c campaign) one(ctx context.Context, m mutant) (r result) {
	r.mutant = m
	dir := filepath.Join(c.harness.dir, m.name)
	if r.err = os.MkdirAll(dir, 0o750); r.err != nil {
		return r
	}
	overlay, err := m.writeOverlay(c.harness.root, dir)
	if err != nil {
		r.err = err
		return r
	}
	binary, err := c.harness.build(ctx, m.name, overlay)
	if err != nil {
		r.err = err
		return r
	}
	if c.keep == "" {
		defer func() { _ = os.Remove(binary) }()
	}
	tests, seeds := c.tests(m)
	r.found, r.worlds, r.err = c.harness.search(ctx, binary, tests, c.first, seeds)
	return r
}

// expected reports whether the mutant said by which violation it would end.
func (r result) expected() bool { return slices.Contains(r.mutant.expect, r.found.invariant) }
