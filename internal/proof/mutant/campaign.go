package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// campaign runs the true code and then the mutants.
type campaign struct {
	options
	root    string // of the module
	harness harness
	// catalogue has the mutants that are not run, too.
	catalogue []mutant
	known     map[string]world
	out       io.Writer
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
	source, err := writeSwitched(c.root, c.harness.dir, mutants)
	if err != nil {
		return err
	}
	for _, m := range mutants {
		if why := source.alone[m.name]; why != nil {
			fmt.Fprintf(c.out, "%s is built alone: %v\n", m.name, why)
		}
	}
	compiled, err := source.compile(ctx, simulator)
	if err != nil {
		return err
	}
	worlds, err := c.trueCode(ctx, compiled.true)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "the true code passes %d worlds (%v)\n\n", worlds, time.Since(begun).Round(time.Second))
	results := c.all(ctx, compiled, mutants)
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.worlds != "" {
		if err := writeWorlds(c.worlds, c.catalogue, results); err != nil {
			return err
		}
	}
	return report(c.out, results, worlds, time.Since(begun))
}

// trueCode runs the source with no mutant chosen on every world that a mutant may be run on.
// What it fails says nothing about mutants.
func (c campaign) trueCode(ctx context.Context, p program) (worlds uint64, err error) {
	var wait sync.WaitGroup
	tests := []string{safety, liveness, schedules, breakers}
	errs := make([]error, len(tests))
	for i, test := range tests {
		n := c.seeds
		if test == schedules || test == breakers {
			n = c.recurring()
		}
		worlds += n
		wait.Go(func() {
			f, err := c.harness.run(ctx, p, test, c.first, n)
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

// recurring is how many worlds with schedules, or with breakers, are tried: each takes as long as
// several others.
func (c campaign) recurring() uint64 { return max(1, c.seeds/recurringShare) }

// tests are those that a mutant is tried on, and how many worlds of each.
func (c campaign) tests(m mutant) (tests []string, seeds uint64) {
	if m.schedules {
		return []string{schedules}, c.recurring()
	}
	if m.breakers {
		return []string{breakers}, c.recurring()
	}
	return []string{safety, liveness}, c.seeds
}

// all runs the mutants, some concurrently, and prints each as it ends.
func (c campaign) all(ctx context.Context, tests *compiled, mutants []mutant) []result {
	results := make([]result, len(mutants))
	free := make(chan struct{}, c.parallel)
	var wait sync.WaitGroup
	var lines sync.Mutex
	for i, m := range mutants {
		free <- struct{}{}
		wait.Go(func() {
			defer func() { <-free }()
			results[i] = c.runMutant(ctx, tests, m)
			lines.Lock()
			defer lines.Unlock()
			fmt.Fprintln(c.out, results[i])
		})
	}
	wait.Wait()
	return results
}

// runMutant runs a mutant.
func (c campaign) runMutant(ctx context.Context, tests *compiled, m mutant) (r result) {
	r.mutant = m
	p, err := tests.with(ctx, m)
	if err != nil {
		r.err = err
		return r
	}
	names, seeds := c.tests(m)
	r.found, r.worlds, r.err = c.harness.search(ctx, p, names, c.knownWorld(m, names, seeds), c.first, seeds)
	return r
}

// knownWorld is the world that noticed a mutant last. It is none that the true code was not
// run on.
func (c campaign) knownWorld(m mutant, tests []string, seeds uint64) *world {
	w, ok := c.known[m.name]
	if !ok || !slices.Contains(tests, w.test) || w.seed < c.first || w.seed-c.first >= seeds {
		return nil
	}
	return &w
}

// expected reports whether the mutant said by which violation it would end.
func (r result) expected() bool { return slices.Contains(r.mutant.expect, r.found.invariant) }
