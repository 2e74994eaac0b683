//go:build unix

package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store"
)

// fleet is several servers on one database, with one clock that the test moves.
type fleet struct {
	testing.TB
	url    string
	stores []*Store
	now    atomic.Int64
}

var fleetStart = time.Date(2030, 1, 2, 3, 4, 5, 678_901_000, time.UTC)

func newFleet(tb testing.TB, n int, edit ...func(*Options)) *fleet {
	tb.Helper()
	return newFleetOn(tb, pgtest.Reused(tb, Migrate), n, edit...)
}

// newFleetApart is newFleet for a test that changes more than rows: the schema, statistics or
// rights.
func newFleetApart(tb testing.TB, n int, edit ...func(*Options)) *fleet {
	tb.Helper()
	return newFleetOn(tb, pgtest.NewFrom(tb, Migrate), n, edit...)
}

func newFleetOn(tb testing.TB, url string, n int, edit ...func(*Options)) *fleet {
	tb.Helper()
	f := &fleet{TB: tb, url: url}
	f.now.Store(fleetStart.UnixMicro())
	for range n {
		f.join(f.url, edit...)
	}
	return f
}

// join opens one more server.
func (f *fleet) join(url string, edit ...func(*Options)) *Store {
	f.Helper()
	opts := Options{URL: url, Migrate: true, MaxInFlight: 100, Now: func() time.Time { return time.UnixMicro(f.now.Load()) }}
	for _, e := range edit {
		e(&opts)
	}
	s, err := Open(f.Context(), opts)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	f.stores = append(f.stores, s)
	return s
}

func (f *fleet) advance(d time.Duration) { f.now.Add(d.Microseconds()) }

// any returns one of the servers.
func (f *fleet) any() *Store { return f.stores[rand.IntN(len(f.stores))] }

// sql runs the test's own query and scans its only row.
func (f *fleet) sql(text string, args []any, into ...any) {
	f.Helper()
	conn, err := pgx.Connect(context.Background(), f.url)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(context.Background(), text, args...).Scan(into...); err != nil {
		f.Fatalf("%s: %v", text, err)
	}
}

// count runs the test's own query for a number.
func (f *fleet) count(text string, args ...any) int {
	f.Helper()
	var n int
	f.sql(text, args, &n)
	return n
}

func (f *fleet) connect(edit ...func(*store.Connection)) store.Connection {
	f.Helper()
	c := store.Connection{ID: randomID(), Project: "default", Connector: "fake", Class: job.Keyed, KeyWindow: 24 * time.Hour}
	for _, e := range edit {
		e(&c)
	}
	out, _, err := f.stores[0].CreateConnection(f.Context(), store.NewConnection{Connection: c})
	if err != nil {
		f.Fatal(err)
	}
	return out
}

func newSpec(conn store.Connection, edit ...func(*job.Spec)) store.NewJob {
	id := randomID()
	n := store.NewJob{Spec: job.Spec{
		ID: id, Project: "default", Key: id.String(), Connection: conn.ID, HoldKey: "account",
		PayloadKind: "webhook", Payload: []byte(`{"text":"hello"}`), Delivery: job.OnceOrAsk,
	}}
	for _, e := range edit {
		e(&n.Spec)
	}
	return n
}

// submit stores n jobs on one server.
func (f *fleet) submit(n int, conn store.Connection, edit ...func(*job.Spec)) []job.Snapshot {
	f.Helper()
	items := make([]store.NewJob, n)
	for i := range items {
		items[i] = newSpec(conn, edit...)
	}
	out, err := f.stores[0].Create(f.Context(), items)
	if err != nil {
		f.Fatal(err)
	}
	jobs := make([]job.Snapshot, n)
	for i, c := range out {
		if c.Err != nil {
			f.Fatal(c.Err)
		}
		jobs[i] = c.Snapshot
	}
	return jobs
}

func claimOf(s *Store, n int) ([]store.Leased, error) {
	return s.Claim(context.Background(), store.ClaimParams{Worker: "w", Lease: time.Minute, Limit: n})
}

// claim claims n jobs, which must be there.
func (f *fleet) claim(n int) []store.Leased {
	f.Helper()
	out, err := claimOf(f.stores[0], n)
	if err != nil {
		f.Fatal(err)
	}
	if len(out) != n {
		f.Fatalf("claimed %d jobs, want %d", len(out), n)
	}
	return out
}

func intentOf(l store.Leased, edit ...func(*store.Arm)) store.Arm {
	a := store.Arm{
		Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: randomID(), Worker: "w", Class: l.Class,
		Rearm: l.State == job.Ambiguous, EffectKey: l.EffectKey(""), Digest: []byte("digest"),
		SendBy: 10 * time.Second, AnswerBy: 30 * time.Second, Fence: time.Minute,
	}
	for _, e := range edit {
		e(&a)
	}
	return a
}

func armOne(s *Store, a store.Arm) (store.Armed, error) {
	out, err := s.Arm(context.Background(), []store.Arm{a})
	if err != nil {
		return store.Armed{}, err
	}
	return out[0], out[0].Err
}

// apply judges evidence on a snapshot and writes the decision.
func apply(s *Store, snap job.Snapshot, e job.Evidence) (store.Applied, error) {
	d, err := job.Decide(snap.View(job.Traits{Class: snap.Class, KeyWindow: 24 * time.Hour}, 0), e)
	if err != nil || d.Action != job.ActWrite {
		return store.Applied{}, err
	}
	out, err := s.Apply(context.Background(), []store.Change{{Job: snap.ID, Version: snap.Version, Decision: d}})
	if err != nil {
		return store.Applied{}, err
	}
	return out[0], out[0].Err
}

func answerOf(s job.Snapshot, r job.Result) job.Outcome {
	return job.Outcome{Attempt: s.Attempt, Result: r, Kind: job.FailTransient}
}

// sending returns n jobs in mid-send, on one connection.
func (f *fleet) sending(n int, conn store.Connection) []job.Snapshot {
	f.Helper()
	f.submit(n, conn)
	var out []job.Snapshot
	for _, l := range f.claim(n) {
		a, err := armOne(f.stores[0], intentOf(l))
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, a.Snapshot)
	}
	return out
}

// each runs fn for every item concurrently, on the servers in turn.
func each[T any](f *fleet, items []T, fn func(*Store, T)) {
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() { fn(f.stores[i%len(f.stores)], item) })
	}
	wg.Wait()
}

// isOneOf reports whether an error is among those that a race may have.
func isOneOf(err error, these ...error) bool {
	for _, e := range these {
		if errors.Is(err, e) {
			return true
		}
	}
	return err == nil
}

// consistent checks what must hold whenever no transaction is under way.
func (f *fleet) consistent() {
	f.Helper()
	f.unpack()
	for what, text := range map[string]string{
		"events out of order, or with gaps": `SELECT count(*) FROM (
			SELECT sequence, row_number() OVER (PARTITION BY job_id ORDER BY position) AS n FROM events) AS e WHERE sequence <> n`,
		"jobs whose version is not their number of events": `SELECT count(*) FROM job_state AS s
			WHERE (s.version, s.position) IS DISTINCT FROM (SELECT (count(*), max(e.position)) FROM events AS e WHERE e.job_id = s.job_id)`,
		"runnable jobs that no runnable row tells of": `SELECT count(*) FROM job_state AS s
			LEFT JOIN connection_ready AS r ON r.connection_id = s.connection_id AND r.hold_key = s.hold_key
			WHERE s.state IN (1, 6) AND s.waits_for IS NULL AND (r.next_at IS NULL OR r.next_at > s.next_at)`,
		"rows that are set aside although there is room": `SELECT count(*) FROM connection_ready AS r JOIN connections AS c ON c.id = r.connection_id
			WHERE r.saturated AND coalesce(nullif(c.max_in_flight, 0), 100) >
				(SELECT count(*) FROM job_state AS s WHERE s.connection_id = c.id AND s.state IN (2, 3))`,
		// Jobs that are under way when a bound is lowered continue.
		"connections with more under way than they may have": `SELECT count(*) FROM connections AS c WHERE c.version = 1 AND coalesce(nullif(c.max_in_flight, 0), 100) <
			(SELECT count(*) FROM job_state AS s WHERE s.connection_id = c.id AND s.state IN (2, 3) AND NOT EXISTS
				(SELECT 1 FROM events AS e WHERE e.job_id = s.job_id AND e.attempt = s.attempt AND e.from_state = 5 AND e.to_state = 3))`, // a repeat checks no bound
		"attempts without the event of their arm": `SELECT count(*) FROM every_attempt AS a WHERE 1 <>
			(SELECT count(*) FROM events AS e WHERE e.job_id = a.job_id AND e.to_state = 3 AND e.attempt = a.number AND e.cause = 3)`,
		"gates of jobs that keep none": `SELECT count(*) FROM open_intents AS o JOIN job_state AS s ON s.job_id = o.job_id
			WHERE s.state NOT IN (3, 4, 5)`,
		"open attempts of jobs that say there is none": `SELECT count(*) FROM job_state AS s JOIN every_attempt AS a ON a.job_id = s.job_id
			WHERE a.result IN (0, 4) AND s.state IN (1, 2, 6, 9, 10, 11)`,
		"jobs whose attempts are not as many as they say": `SELECT count(*) FROM job_state AS s
			WHERE s.attempt <> (SELECT count(*) FROM every_attempt AS a WHERE a.job_id = s.job_id)`,
		"jobs that have succeeded, and have not one effect": `SELECT count(*) FROM job_state AS s WHERE s.state = 8
			AND (s.effect_at IS NOT NULL)::integer + (SELECT count(*) FROM effects AS e WHERE e.job_id = s.job_id) <> 1`,
		"replies that do not know how their predecessor ended": `SELECT count(*) FROM job_state AS s
			JOIN job_state AS o ON o.job_id = s.waits_for
			WHERE s.predecessor_end <> CASE WHEN o.state > 8 THEN o.state ELSE 0 END`,
		"jobs that wait for one that has succeeded": `SELECT count(*) FROM job_state AS s JOIN job_state AS o ON o.job_id = s.waits_for
			WHERE o.state = 8`,
	} {
		if n := f.count(text); n != 0 {
			f.Errorf("%d %s", n, what)
		}
	}
}
