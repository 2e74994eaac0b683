//go:build unix

package main

import (
	"fmt"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/stats"
)

// system is one of the systems of a benchmark.
type system struct {
	name, measure string
	engine        string // Fireonce's, when it is not PostgreSQL
	native        bool   // Fireonce is called at the port for gRPC alone, not at that for all protocols
	needs         need
}

// need is a program that not every machine has.
type need int

const (
	needNothing need = iota
	needRedis
	needNode
)

// metric is a measured number.
type metric struct {
	key, unit string
}

// benchmark is what is measured of several systems in turn, in each repetition.
type benchmark struct {
	name, what string
	systems    []system
	metrics    []metric
	jobs       int
	// effects: each job's request must arrive at the receiver, once.
	effects bool
	// alone: one process measures all repetitions, because it fills large tables.
	alone bool
	// named: a run has it only when it is named.
	named bool
	// long: its samples are of one time after the other.
	long bool
	// quick: a short run has it, too.
	quick bool
}

const (
	nameRiver    = "River"
	nameFireonce = "Fireonce"
	nameSQLite   = "Fireonce, SQLite"
	nameNetwork  = "Fireonce, network"
	nameGRPC     = "Fireonce, gRPC port"
	nameTwo      = "Fireonce, two servers"
	nameBare     = "net/http alone"
	nameGraphile = "graphile-worker"
	nameBoss     = "pg-boss"
	nameAsynq    = "asynq (Redis)"
)

// benchmarks are all that can be run.
func (p plan) benchmarks() []benchmark {
	rate := []metric{{"per_s", "jobs/s"}, {"cpu_us", "µs CPU/job"}, {"pg_us", "of it PostgreSQL"}}
	sizes := append(rate[:3:3], metric{"own_us", "of it its own"}, metric{"wal_b", "B of WAL/job"}, metric{"disk_b", "B on disk/job"})
	lags := []metric{{"p50_ms", "ms p50"}, {"p99_ms", "ms p99"}}
	return []benchmark{
		{
			name: "submit", what: fmt.Sprintf("%d jobs, one a call, from %d callers at once; each answer means durable", p.submit, p.Callers),
			jobs: p.submit, metrics: rate, quick: true, systems: []system{
				{name: nameRiver, measure: "river/submit"}, {name: nameFireonce, measure: "fireonce/submit"},
				{name: nameSQLite, measure: "fireonce/submit", engine: sqliteEngine}, {name: nameNetwork, measure: "network/submit"},
				{name: nameGRPC, measure: "network/submit", native: true},
				{name: nameBoss, measure: "pgboss/submit", needs: needNode}, {name: nameGraphile, measure: "graphile/submit", needs: needNode},
				{name: nameAsynq, measure: "asynq/submit", needs: needRedis},
			},
		},
		{
			name: "batch", what: fmt.Sprintf("%d jobs, %d a call, from %d callers", p.batch, p.Batch, p.Loaders),
			jobs: p.batch, metrics: rate, quick: true, systems: []system{
				{name: nameRiver, measure: "river/batch"}, {name: nameNetwork, measure: "network/batch"},
				{name: nameGRPC, measure: "network/batch", native: true},
				{name: nameBoss, measure: "pgboss/batch", needs: needNode}, {name: nameGraphile, measure: "graphile/batch", needs: needNode},
			},
		},
		{
			name: "work", what: fmt.Sprintf("a backlog of %d jobs, one HTTP POST each, %d at once", p.work, p.Senders),
			jobs: p.work, metrics: sizes, quick: true, effects: true, systems: []system{
				{name: nameRiver, measure: "river/work"}, {name: nameFireonce, measure: "fireonce/work"},
				{name: nameSQLite, measure: "fireonce/work", engine: sqliteEngine}, {name: nameBare, measure: "bare/work"},
				{name: nameGraphile, measure: "graphile/work", needs: needNode}, {name: nameBoss, measure: "pgboss/work", needs: needNode},
				{name: nameAsynq, measure: "asynq/work", needs: needRedis},
			},
		},
		{
			name: "now", what: fmt.Sprintf("%d jobs due at once, one every %v, in an idle system: call to arrival", p.now, p.Gap),
			jobs: p.now, metrics: append(lags[:2:2], metric{"call_p50_ms", "ms p50 of the call"}), quick: true, effects: true, systems: []system{
				{name: nameRiver, measure: "river/now"}, {name: nameNetwork, measure: "network/now"},
				{name: nameBoss, measure: "pgboss/now", needs: needNode}, {name: nameGraphile, measure: "graphile/now", needs: needNode},
				{name: nameAsynq, measure: "asynq/now", needs: needRedis},
			},
		},
		{
			name: "herd", what: fmt.Sprintf("%d jobs, all due at one instant: how long after it they arrive", p.herd),
			jobs: p.herd, metrics: append(lags[:2:2], metric{"max_ms", "ms at most"}), quick: true, effects: true, systems: []system{
				{name: nameRiver, measure: "river/herd"}, {name: nameNetwork, measure: "network/herd"},
			},
		},
		{
			name: "claims", what: fmt.Sprintf("a claim of %d due jobs, with %d, %d and %d future jobs, and beside %d due ones that are held", claimed, p.Few, p.Many, p.Most, p.Held),
			alone: true, metrics: []metric{{"few_ms", "ms, few"}, {"many_ms", "ms, many"}, {"most_ms", "ms, most"}, {"held_ms", "ms, held"}},
			systems: []system{{name: nameFireonce, measure: "fireonce/claims"}},
		},
		{
			name: "stream", what: fmt.Sprintf("%d subscribers, %d events at %d a second: the event's time to its delivery", p.Streams, p.Events, p.PerSecond),
			jobs: p.Events, metrics: append(lags[:2:2], metric{"server_us", "µs CPU/delivery of the server"}, metric{"cut", "slow readers cut, and resumed"}),
			systems: []system{{name: nameNetwork, measure: "network/stream"}},
		},
		{
			name: "memory", what: fmt.Sprintf("resident memory of `serve` with %d pending jobs, then with %d more submitted and worked", p.Pending, p.load),
			jobs: p.load, effects: true, metrics: []metric{{"idle_mb", "MB idle"}, {"load_mb", "MB under load"}},
			systems: []system{{name: nameNetwork, measure: "network/memory"}},
		},
		{
			name: "terminal", what: fmt.Sprintf("an empty database and one with %d jobs that ended, and their events", p.Ended),
			jobs: p.ended, alone: true, metrics: []metric{
				{"empty_submit_per_s", "jobs/s, empty"}, {"full_submit_per_s", "jobs/s, full"}, {"empty_claim_ms", "ms a claim, empty"},
				{"full_claim_ms", "ms a claim, full"}, {"empty_events_ms", "ms a page of events, empty"}, {"full_events_ms", "ms a page of events, full"},
			},
			systems: []system{{name: nameFireonce, measure: "fireonce/terminal"}},
		},
		{
			name: "burst", what: fmt.Sprintf("%d jobs due at one instant, submitted before: until the last one arrives, by one server and by two", p.burst),
			jobs: p.burst, effects: true, named: true, metrics: append(lags[:2:2], metric{"max_ms", "ms to drain"}, metric{"server_mb", "MB of the servers at most"},
				metric{"server_us", "µs CPU/job of the servers"}, metric{"pg_us", "of PostgreSQL"}),
			systems: []system{{name: nameNetwork, measure: "network/burst"}, {name: nameTwo, measure: "network/burst2"}},
		},
		{
			name: "soak", what: fmt.Sprintf("%d jobs a second for %v, with as many that are no longer kept", p.Pace, p.Soak),
			alone: true, named: true, long: true, metrics: []metric{
				{"p50_ms", "ms p50"}, {"p99_ms", "ms p99"}, {"max_ms", "ms at most"}, {"per_s", "jobs/s"},
				{"server_us", "µs CPU/job of the server"}, {"pg_us", "of PostgreSQL"}, {"server_mb", "MB of the server"},
			},
			systems: []system{{name: nameNetwork, measure: "network/soak"}},
		},
	}
}

// bar is a line of the last table: a metric of a system, in proportion to
// another's in the same repetition.
type bar struct {
	title, benchmark string
	of               cell
	// to is what it is divided by; without a name the number stands for itself.
	to cell
	stats.Bar
}

type cell struct{ system, key string }

func bars() []bar {
	most, least := func(v float64) stats.Bar { return stats.Bar{Most: v} }, func(v float64) stats.Bar { return stats.Bar{Least: v} }
	rate := func(name string) cell { return cell{name, "per_s"} }
	fireonce := func(key string) cell { return cell{nameFireonce, key} }
	network := func(key string) cell { return cell{nameNetwork, key} }
	return []bar{
		{"submit in process / River's Insert", "submit", rate(nameFireonce), rate(nameRiver), least(4)},
		{"ScheduleJob at the gRPC port / River's Insert in process", "submit", rate(nameGRPC), rate(nameRiver), least(2)},
		{"ScheduleJob at the port for all protocols / River's Insert", "submit", rate(nameNetwork), rate(nameRiver), stats.Bar{}},
		{"BatchScheduleJobs at the gRPC port / River's InsertMany in process", "batch", rate(nameGRPC), rate(nameRiver), least(1)},
		{"worked / River", "work", rate(nameFireonce), rate(nameRiver), least(1.3)},
		{"worked in SQLite / River", "work", rate(nameSQLite), rate(nameRiver), least(1)},
		{"worked: PostgreSQL's CPU, µs", "work", fireonce("pg_us"), cell{}, most(50)},
		{"worked: own CPU, µs", "work", fireonce("own_us"), cell{}, most(65)},
		{"worked / graphile-worker", "work", rate(nameFireonce), rate(nameGraphile), least(1.2)},
		{"worked / pg-boss", "work", rate(nameFireonce), rate(nameBoss), least(1.2)},
		{"worked / net/http alone", "work", rate(nameFireonce), rate(nameBare), least(0.6)},
		{"Post Now, p50 / River's", "now", network("p50_ms"), cell{nameRiver, "p50_ms"}, most(0.9)},
		{"Post Now, p99 / River's", "now", network("p99_ms"), cell{nameRiver, "p99_ms"}, most(0.9)},
		{"claim with many future jobs / with few", "claims", fireonce("many_ms"), fireonce("few_ms"), most(1.3)},
		{"claim with most future jobs / with few", "claims", fireonce("most_ms"), fireonce("few_ms"), most(1.3)},
		{"claim beside held jobs / without", "claims", fireonce("held_ms"), fireonce("few_ms"), most(1.5)},
		{"SQLite / PostgreSQL: submit", "submit", rate(nameSQLite), rate(nameFireonce), least(1)},
		{"SQLite / PostgreSQL: worked", "work", rate(nameSQLite), rate(nameFireonce), least(1)},
		{"herd, lag p50 / River's", "herd", network("p50_ms"), cell{nameRiver, "p50_ms"}, most(1)},
		{"herd, lag p99 / River's", "herd", network("p99_ms"), cell{nameRiver, "p99_ms"}, most(1)},
		{"stream, event to delivery p99, ms", "stream", network("p99_ms"), cell{}, stats.Bar{}},
		{"memory idle, MB", "memory", network("idle_mb"), cell{}, most(150)},
		{"memory under load, MB", "memory", network("load_mb"), cell{}, most(150)},
		{"submit, full / empty", "terminal", fireonce("full_submit_per_s"), fireonce("empty_submit_per_s"), least(1 / 1.3)},
		{"claim, full / empty", "terminal", fireonce("full_claim_ms"), fireonce("empty_claim_ms"), most(1.3)},
		{"page of events, full / empty", "terminal", fireonce("full_events_ms"), fireonce("empty_events_ms"), most(1.3)},
	}
}
