//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/usage"
)

// task is the input of a measuring process. A measurement is a process of its
// own, so that none inherits another's heap.
type task struct {
	// Measure names the measurement, Engine Fireonce's store.
	Measure string `json:"measure"`
	Engine  string `json:"engine"`
	// Native has a server called at gRPC's own listener.
	Native bool `json:"native,omitempty"`
	// Database is an empty database's URL, as its owner; Admin the same as the
	// superuser.
	Database string `json:"database"`
	Admin    string `json:"admin"`
	// Receiver takes the requests, as Run.
	Receiver string `json:"receiver"`
	Run      string `json:"run"`
	// Fireonce and Redis are programs; Dir is a folder of the measurement's own.
	Fireonce string `json:"fireonce"`
	Redis    string `json:"redis"`
	Dir      string `json:"dir"`
	// Profile, when set, is a file for the measuring process's processor profile.
	Profile string `json:"profile,omitempty"`
	// ServerProfile, when set, is one for that of the server that is measured.
	ServerProfile string `json:"server_profile,omitempty"`
	// Jobs that are measured.
	Jobs int `json:"jobs"`
	size
	// Repetitions, of measurements that fill large tables once.
	Repetitions int `json:"repetitions"`
}

// size is what all systems are given alike.
type size struct {
	// Callers submit one job at a time; Loaders a Batch of them.
	Callers int `json:"callers"`
	Loaders int `json:"loaders"`
	Batch   int `json:"batch"`
	// Senders is how many requests are in flight.
	Senders int `json:"senders"`
	// RiverWorkers is how many jobs River works on concurrently.
	RiverWorkers int `json:"river_workers"`
	// Gap is between two jobs of an idle system.
	Gap time.Duration `json:"gap"`
	// Ahead is how long before they are due the jobs of a herd are submitted.
	Ahead time.Duration `json:"ahead"`
	// Few, Many and Most are future jobs beside those that are claimed.
	Few  int `json:"few"`
	Many int `json:"many"`
	Most int `json:"most"`
	// Held are due jobs of a connection that is held.
	Held int `json:"held"`
	// Ended are terminal jobs.
	Ended int `json:"ended"`
	// Pending are jobs in a server whose memory is measured.
	Pending int `json:"pending"`
	// Streams are subscribers, Events what they get, PerSecond how fast.
	Streams   int `json:"streams"`
	Events    int `json:"events"`
	PerSecond int `json:"per_second"`
	// Slow are subscribers that stop reading, while so many events come: Burst.
	Slow  int `json:"slow"`
	Burst int `json:"burst"`
	// Soak is how long a steady load lasts, Pace its jobs a second.
	Soak time.Duration `json:"soak"`
	Pace int           `json:"pace"`
}

// sample is what came of a measurement, by metric. The common ones: "per_s";
// "p50_ms", "p99_ms" and "max_ms", as the receiver saw them; "own_us",
// "server_us" and "pg_us" are processor time per job of the measuring process,
// the server that it calls, and PostgreSQL; "wal_b" are the bytes of PostgreSQL's
// write-ahead log per job, and "disk_b" those of the whole database.
type sample map[string]float64

// measures are what a measuring process can do. Each returns a sample for each
// repetition, which is one unless the task says otherwise.
var measures = map[string]func(ctx context.Context, t task, give func(sample)) error{
	"bare/work":         once(bareWork),
	"river/submit":      once(riverSubmit),
	"river/batch":       once(riverBatch),
	"river/work":        once(riverWork),
	"river/now":         once(riverNow),
	"river/herd":        once(riverHerd),
	"asynq/submit":      once(asynqSubmit),
	"asynq/work":        once(asynqWork),
	"asynq/now":         once(asynqNow),
	"fireonce/submit":   once(fireonceSubmit),
	"fireonce/work":     once(fireonceWork),
	"fireonce/claims":   fireonceClaims,
	"fireonce/terminal": fireonceTerminal,
	"network/submit":    once(networkSubmit),
	"network/batch":     once(networkBatch),
	"network/now":       once(networkNow),
	"network/herd":      once(networkHerd),
	"network/burst":     once(networkBurst(1)),
	"network/burst2":    once(networkBurst(2)),
	"network/memory":    once(networkMemory),
	"network/stream":    once(networkStream),
	"network/soak":      networkSoak,
}

// heapFloor is what the collector takes to live beside the rest in every measuring process, as
// `fireonce serve` has it: a service with a heap of a few megabytes would collect twenty times a
// second. It is never touched, and so no resident memory.
const heapFloor = 32 << 20

func once(f func(context.Context, task) (sample, error)) func(context.Context, task, func(sample)) error {
	return func(ctx context.Context, t task, give func(sample)) error {
		s, err := f(ctx, t)
		if err == nil {
			give(s)
		}
		return err
	}
}

// runMeasure is a measuring process: its samples are lines of its output.
func runMeasure(ctx context.Context, args []string, out io.Writer) error {
	var t task
	if len(args) != 1 {
		return fmt.Errorf("not one task: %q", args)
	}
	if err := json.Unmarshal([]byte(args[0]), &t); err != nil {
		return err
	}
	f, known := measures[t.Measure]
	if !known {
		return fmt.Errorf("no measurement is named %q", t.Measure)
	}
	stop, err := profile(t.Profile)
	if err != nil {
		return err
	}
	defer stop()
	heap := make([]byte, heapFloor)
	defer runtime.KeepAlive(heap)
	lines := json.NewEncoder(out)
	var failed error
	err = f(ctx, t, func(s sample) {
		if err := lines.Encode(s); err != nil {
			failed = err
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", t.Measure, err)
	}
	return failed
}

func (t task) run() receiver.Run { return receiver.At(t.Receiver, t.Run) }

// data is where PostgreSQL has its files: beside its socket.
func (t task) data() string {
	u, err := url.Parse(t.Admin)
	if err != nil {
		return ""
	}
	return filepath.Join(u.Query().Get("host"), "data")
}

// meter measures a section of a measurement.
type meter struct {
	task    task
	server  int // a process, or 0
	begun   time.Time
	own, pg time.Duration
	serving time.Duration
	before  written
}

func (t task) start(ctx context.Context, server int) *meter {
	m := &meter{task: t, server: server, before: t.written(ctx)}
	m.own, m.pg = usage.Self(), usage.Postgres(t.data())
	if server != 0 {
		t.toggleServerProfile(server)
		m.serving = usage.Process(server)
	}
	m.begun = time.Now()
	return m
}

// stop returns a rate and the processor time of each of so many jobs.
func (m *meter) stop(ctx context.Context, jobs int) sample {
	took := time.Since(m.begun)
	each := func(used time.Duration) float64 { return float64(used.Microseconds()) / float64(jobs) }
	s := sample{
		"per_s": float64(jobs) / took.Seconds(), "own_us": each(usage.Self() - m.own),
		"pg_us": each(usage.Postgres(m.task.data()) - m.pg), "server_us": 0,
	}
	if m.server != 0 {
		s["server_us"] = each(usage.Process(m.server) - m.serving)
		m.task.endServerProfile(m.server)
	}
	s["cpu_us"] = s["own_us"] + s["pg_us"] + s["server_us"]
	after := m.task.written(ctx)
	s["wal_b"], s["disk_b"] = float64(after.wal-m.before.wal)/float64(jobs), float64(after.disk)/float64(jobs)
	return s
}

// settle brings a database to rest before it is measured: what filling it left
// behind is cleaned up and written.
func (t task) settle(ctx context.Context) error { return settle(ctx, t.Admin) }

func settle(ctx context.Context, admin string) error {
	if admin == "" {
		return nil
	}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // what it did was confirmed
	for _, sql := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// probe measures what one fdatasync takes, with pauses as an idle system has
// them: the disk's mood.
func probe(dir string) (p50 time.Duration, err error) {
	const times, gap = 40, 5 * time.Millisecond
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // its folder is removed, too
	defer f.Close()           //nolint:errcheck // nothing was written
	block := make([]byte, 8<<10)
	took := make([]float64, 0, times)
	for i := range int64(times) {
		time.Sleep(gap)
		begin := time.Now()
		if _, err := f.WriteAt(block, i*int64(len(block))); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin).Seconds())
	}
	return time.Duration(median(took) * float64(time.Second)), nil
}

// milliseconds is how a metric has a duration.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d.Microseconds())) / 1000
}
