//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/internal/proof/bench/internal/program"
	"github.com/fireonce/fireonce/internal/proof/bench/internal/redis"
	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/proc"
)

// settings are PostgreSQL's for every system alike, beside its defaults: what an
// operator returns a server of this size. What is durable stays so.
var settings = map[string]string{
	"shared_buffers": "1GB", "max_wal_size": "4GB", "min_wal_size": "80MB", "wal_keep_size": "0", "max_connections": "200",
	"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
}

// environment is what the measurements find in place.
type environment struct {
	options
	folder   string
	cluster  *pgtest.Cluster
	receiver string
	redis    string
	node     *node
	names    int  // of runs
	built    bool // the program under test was built here
}

// result is what came of a benchmark.
type result struct {
	benchmark
	// samples are by system, then by repetition; nil: it failed.
	samples map[string][]sample
	// skipped and failed are words by system.
	skipped map[string]string
	failed  []string
	fsync   []float64 // in milliseconds, by repetition
}

func compare(ctx context.Context, o options) (err error) {
	benchmarks, err := o.chosen()
	if err != nil {
		return err
	}
	if o.dir, err = onDisk(o.dir); err != nil {
		return err
	}
	// The cluster, Redis and SQLite are there, too.
	if err := os.Setenv("TMPDIR", o.dir); err != nil {
		return err
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o750); err != nil {
			return err
		}
	}
	folder, err := os.MkdirTemp(o.dir, "fireonce-speed-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	h := &environment{options: o, folder: folder, redis: redis.Program()}
	if h.binary == "" {
		h.binary = filepath.Join(folder, "fireonce")
		if err := program.Build(ctx, h.binary, h.tags()...); err != nil {
			return err
		}
		h.built = true
	}
	if h.node, err = findNode(ctx); err != nil {
		return err
	}
	receiving, url, err := proc.Serve(ctx, proc.Again("receive"), filepath.Join(folder, "receiver.log"))
	if err != nil {
		return err
	}
	defer receiving.Kill()
	h.receiver = url
	if h.cluster, err = pgtest.Open(pgtest.Options{Settings: settings}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.cluster.Close()) }()
	results := make([]result, 0, len(benchmarks))
	for _, each := range benchmarks {
		r, err := h.run(ctx, each)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if err := report(os.Stdout, o, results); err != nil {
		return err
	}
	return verdict(results, o.bars)
}

// run measures a benchmark: all systems once in each repetition, each time another
// one first.
func (h *environment) run(ctx context.Context, of benchmark) (result, error) {
	r := result{benchmark: of, samples: make(map[string][]sample), skipped: make(map[string]string)}
	var able []system
	for _, c := range of.systems {
		if why := h.lacks(c); why != "" {
			r.skipped[c.name] = why
			continue
		}
		able = append(able, c)
	}
	repetitions := h.repetitions
	if of.alone {
		repetitions = 1
	}
	for rep := range repetitions {
		fsync, err := probe(h.folder)
		if err != nil {
			return r, err
		}
		r.fsync = append(r.fsync, milliseconds(fsync))
		for i := range able {
			c := able[(i+rep)%len(able)]
			begin := time.Now()
			samples, err := h.measure(ctx, of, c)
			if ctx.Err() != nil {
				return r, ctx.Err()
			}
			if err != nil {
				r.failed = append(r.failed, fmt.Sprintf("%s, %s, repetition %d: %v", of.name, c.name, rep+1, err))
				samples = []sample{nil}
			}
			r.samples[c.name] = append(r.samples[c.name], samples...)
			fmt.Fprintf(os.Stderr, "%-9s %d/%d  %-18s %6.1f s  %s\n", of.name, rep+1, repetitions, c.name,
				time.Since(begin).Seconds(), brief(of, samples, err))
		}
	}
	return r, nil
}

// lacks returns what a system needs and is not there.
func (h *environment) lacks(c system) string {
	switch {
	case c.needs == needRedis && h.redis == "":
		return redis.ErrNone.Error()
	case c.needs == needNode && h.node.missing != "":
		return h.node.missing
	default:
		return ""
	}
}

// measure runs one measurement, and asks the receiver what came of it.
func (h *environment) measure(ctx context.Context, of benchmark, c system) (_ []sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, h.limit)
	defer cancel()
	h.names++
	t := task{
		Measure: c.measure, Engine: c.engine, Native: c.native, Receiver: h.receiver, Run: fmt.Sprintf("%s-%d", of.name, h.names),
		Fireonce: h.binary, Redis: h.redis, Jobs: of.jobs, size: h.plan.size, Repetitions: h.repetitions,
	}
	h.profiled(&t, c)
	t.Dir = filepath.Join(h.folder, t.Run)
	if err := os.Mkdir(t.Dir, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.Dir)) }()
	name, err := h.cluster.CreateDatabase(ctx)
	if err != nil {
		return nil, err
	}
	t.Database, t.Admin = h.cluster.URL(name), h.cluster.AdminURL(name)
	defer func() {
		err = errors.Join(err, dropDatabase(context.WithoutCancel(ctx), h.cluster.AdminURL("postgres"), name))
	}()
	samples, err := h.measuring(ctx, c, t)
	if err != nil {
		return nil, err
	}
	if !of.effects {
		return samples, nil
	}
	tally, err := t.run().End(ctx)
	if err != nil {
		return nil, err
	}
	if err := tally.Check(of.jobs); err != nil {
		return nil, err
	}
	lags(samples[0], tally)
	return samples, nil
}

// lags adds what the receiver saw.
func lags(s sample, t receiver.Tally) {
	s["p50_ms"], s["p99_ms"], s["max_ms"] = milliseconds(t.P50), milliseconds(t.P99), milliseconds(t.Max)
}

// measuring is a measuring process's life.
func (h *environment) measuring(ctx context.Context, c system, t task) ([]sample, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, proc.Self, "measure", string(text)) //nolint:gosec // this program
	if c.needs == needNode {
		if cmd, err = h.node.command(ctx, t); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(t.Dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, log, proc.Attributes()
	cmd.WaitDelay = time.Minute
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(log.Name()))
	}
	return readSamples(out.Bytes())
}

// readSamples reads a measuring process's output.
func readSamples(out []byte) ([]sample, error) {
	var all []sample
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return nil, fmt.Errorf("not a sample: %q", lines.Text())
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, errors.New("it gave no sample")
	}
	return all, lines.Err()
}

// tail is the end of a log.
func tail(path string) string {
	const most = 2000
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// values are a metric of a system, by repetition; NaN: it failed.
func (r result) values(of cell) []float64 {
	out := make([]float64, len(r.samples[of.system]))
	for i, s := range r.samples[of.system] {
		v, ok := s[of.key]
		if !ok {
			v = math.NaN()
		}
		out[i] = v
	}
	return out
}
