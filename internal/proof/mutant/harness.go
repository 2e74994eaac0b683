package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

const (
	// simulator is the simulator's package: all of it is tests.
	simulator = "internal/proof/sim"
	safety    = "TestSimSafety"
	liveness  = "TestSimLiveness"
	schedules = "TestSimSchedules"
	breakers  = "TestSimBreakers"
	// firstChunk is how many worlds one process tries at first; each next one
	// tries twice as many.
	firstChunk = 8
)

// violation is how the simulator says that an invariant is broken.
var violation = regexp.MustCompile(`SIM VIOLATION (\w+): seed (\d+)`)

// harness runs the simulator's tests.
type harness struct {
	dir string // for what they write
	// chunkTime bounds one process; over it, nothing is caught.
	chunkTime time.Duration
	extra     []string // more flags for the simulator
}

// finding is the first violation that was seen.
type finding struct {
	invariant string
	test      string
	seed      uint64
	// worlds is how many were tried, that one included.
	worlds uint64
	took   time.Duration
}

// errBroken means that a run failed without a violation: a panic, a timeout.
var errBroken = errors.New("it failed without a violation")

// run tries the seeds on one test. It returns nil when all worlds pass.
func (h harness) run(ctx context.Context, p program, test string, first, n uint64) (*finding, error) {
	ctx, cancel := context.WithTimeout(ctx, h.chunkTime+10*time.Second)
	defer cancel()
	args := append([]string{
		"-test.run", "^" + test + "$",
		"-test.timeout", h.chunkTime.String(),
		"-sim.first", strconv.FormatUint(first, 10),
		"-sim.seeds", strconv.FormatUint(n, 10),
	}, h.extra...)
	cmd := p.command(ctx, args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+h.dir)
	out, err := cmd.CombinedOutput()
	if m := violation.FindSubmatch(out); m != nil {
		at, parseErr := strconv.ParseUint(string(m[2]), 10, 64)
		if parseErr != nil || at < first || at-first >= n {
			return nil, fmt.Errorf("%w: a violation at seed %s, which was not asked for", errBroken, m[2])
		}
		return &finding{invariant: string(m[1]), test: test, seed: at, worlds: at - first + 1}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w\n%s", errBroken, test, err, reason(out))
	}
	if !bytes.Contains(out, []byte("PASS")) || bytes.Contains(out, []byte("no tests to run")) {
		return nil, fmt.Errorf("%w: %s did not run\n%s", errBroken, test, reason(out))
	}
	return nil, nil
}

// search tries the known world, then seeds of the tests by turns, in growing chunks, until
// one finds something.
func (h harness) search(ctx context.Context, p program, tests []string, known *world, first, seeds uint64) (f *finding, worlds uint64, err error) {
	begun := time.Now()
	try := func(test string, from, n uint64) bool {
		if f, err = h.run(ctx, p, test, from, n); f != nil {
			f.worlds += worlds
			f.took = time.Since(begun)
			return true
		}
		worlds += n
		return err != nil
	}
	if known != nil {
		if try(known.test, known.seed, 1) {
			return f, worlds, err
		}
		worlds = 0 // it is tried again in its turn
	}
	for done, chunk := uint64(0), uint64(firstChunk); done < seeds; chunk *= 2 {
		n := min(chunk, seeds-done)
		for _, test := range tests {
			if try(test, first+done, n) {
				return f, worlds, err
			}
		}
		done += n
	}
	return nil, worlds, nil
}

// reason is where an output states why it failed: from a panic on, or its end.
func reason(out []byte) []byte {
	const most = 8000 // a dump of goroutines names the one that ran only after some others
	if i := bytes.Index(out, []byte("panic: ")); i >= 0 {
		return out[i:min(len(out), i+most)]
	}
	return out[max(0, len(out)-most):]
}
