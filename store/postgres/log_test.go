//go:build unix

package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// held is a transaction that has its id and writes later.
type held struct {
	*tx
	end func(error)
}

// hold begins one on a server and leaves it open.
func (f *fleet) hold(s *Store) held {
	f.Helper()
	begun, end, ended := make(chan *tx), make(chan error), make(chan error)
	go func() {
		_, err := write(context.Background(), s, "held", func(_ context.Context, t *tx) (struct{}, error) {
			begun <- t
			return struct{}{}, <-end
		})
		ended <- err
	}()
	return held{<-begun, func(err error) {
		end <- err
		<-ended
	}}
}

// TestAsOfBehindTheHorizon: an event that may not be counted yet, because a transaction
// with a lower id is open, keeps the counts from being those of now.
func TestAsOfBehindTheHorizon(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	f.submit(1, conn)
	roll := func() store.Rolled {
		t.Helper()
		r, err := f.stores[0].Roll(t.Context(), store.RollParams{Owner: job.ID{1}, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	series := func() store.Series {
		t.Helper()
		s, err := f.stores[0].Series(t.Context(), store.SeriesQuery{Project: "default", Width: store.Day})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	roll()
	if s := series(); !s.AsOf.Equal(s.Now) {
		t.Fatalf("all is counted: as of %v at %v", s.AsOf, s.Now)
	}
	var counted time.Time
	f.sql("SELECT at FROM rollup_place", nil, &counted)
	slow := f.hold(f.stores[1])
	f.submit(1, conn)
	if r := roll(); r.Events != 0 {
		t.Fatalf("%+v while the slow one is open", r)
	}
	if s := series(); !s.AsOf.Equal(counted) {
		t.Errorf("as of %v while the slow one is open, want the last event that is counted, %v", s.AsOf, counted)
	}
	slow.end(nil)
	if r := roll(); r.Events != 1 {
		t.Fatalf("%+v after it", r)
	}
	if s := series(); !s.AsOf.Equal(s.Now) {
		t.Errorf("all is counted again: as of %v at %v", s.AsOf, s.Now)
	}
}

// TestHorizon: a transaction with a lower id commits after others have written and were read.
// No event of it is lost, and none is returned out of order.
func TestHorizon(t *testing.T) {
	f := newFleet(t, 2)
	conn := f.connect()
	first := f.submit(1, conn)[0]
	slow := f.hold(f.stores[1])
	f.submit(2, conn)
	p, err := f.stores[0].Events(t.Context(), store.EventQuery{Project: "default"})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Events) != 1 || p.Next != p.Events[0].Position || p.End != p.Next || p.More {
		t.Fatalf("while the slow one is open: %+v", p)
	}
	one, err := f.stores[0].Events(t.Context(), store.EventQuery{Job: first.ID})
	if err != nil || len(one.Events) != 1 {
		t.Fatalf("a job's own events need no horizon: %+v, %v", one, err)
	}
	j := job.Job{Spec: job.Spec{ID: randomID(), Project: "default", Connection: conn.ID}, Status: job.Status{State: job.Scheduled, Version: 1}}
	if _, err := slow.note(eventOf(&j, job.Event{Cause: job.CauseSubmitted})); err != nil {
		t.Fatal(err)
	}
	position := slow.last()
	slow.end(nil)
	rest, err := f.stores[0].Events(t.Context(), store.EventQuery{Project: "default", After: p.Next})
	if err != nil {
		t.Fatal(err)
	}
	if len(rest.Events) != 3 || rest.Events[0].Position != position || rest.Next != rest.End {
		t.Fatalf("after it: %+v", rest)
	}
	if !slices.IsSortedFunc(rest.Events, func(a, b job.Event) int { return int(a.Position - b.Position) }) {
		t.Errorf("out of order: %+v", rest.Events)
	}
}

// TestEndIsAnEvent: a transaction that ends without a trace advances no reader, because its
// id may be used again.
func TestEndIsAnEvent(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(1, f.connect())
	before, err := f.stores[0].Events(t.Context(), store.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	f.hold(f.stores[0]).end(errors.New("given up"))
	after, err := f.stores[0].Events(t.Context(), store.EventQuery{After: before.Next})
	if err != nil || after.Next != before.Next || after.End != before.End {
		t.Errorf("from %+v to %+v, %v", before, after, err)
	}
}

// TestOvertaken: a transaction that meets a job with a newer event runs again.
func TestOvertaken(t *testing.T) {
	f := newFleet(t, 1)
	runs := 0
	bases, err := write(t.Context(), f.stores[0], "test", func(_ context.Context, x *tx) ([]int64, error) {
		if runs++; runs == 1 {
			return nil, x.inOrder(x.base)
		}
		return []int64{x.base}, x.inOrder(x.base - 1)
	})
	if err != nil || runs != 2 || len(bases) != 1 {
		t.Errorf("%d runs, %v, %v", runs, bases, err)
	}
	runs = 0
	_, err = write(t.Context(), f.stores[0], "test", func(_ context.Context, x *tx) (struct{}, error) {
		runs++
		return struct{}{}, errRestart
	})
	if !errors.Is(err, store.ErrUnavailable) || runs != maxTries {
		t.Errorf("%d runs, %v", runs, err)
	}
}

// TestReadersLoseNothing follows the log while servers write, some transactions
// slowly, and sees every event once and in order.
func TestReadersLoseNothing(t *testing.T) {
	const writers, each = 4, 10
	f := newFleet(t, 3)
	conn := f.connect()
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for range each {
				if _, err := f.stores[i%3].Create(t.Context(), []store.NewJob{newSpec(conn)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	var got []job.Event
	var after int64
	for last := false; ; {
		p, err := f.stores[0].Events(t.Context(), store.EventQuery{After: after, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		got, after = append(got, p.Events...), p.Next
		if last && !p.More {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	seen := make(map[job.ID]bool)
	for i, e := range got {
		if seen[e.Job] || i > 0 && e.Position <= got[i-1].Position {
			t.Fatalf("event %d: %+v", i, e)
		}
		seen[e.Job] = true
	}
	if len(got) != writers*each {
		t.Errorf("%d events, want %d", len(got), writers*each)
	}
}

func TestCursorExpires(t *testing.T) {
	f := newFleet(t, 1)
	f.submit(3, f.connect())
	s := f.stores[0]
	all, err := s.Events(t.Context(), store.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	second := all.Events[1].Position
	f.sql("WITH d AS (DELETE FROM event_pages WHERE position <= $1) UPDATE meta SET events_from = $1 RETURNING 1", []any{second}, new(int))
	for _, after := range []int64{0, second - 1} {
		if _, err := s.Events(t.Context(), store.EventQuery{After: after}); !errors.Is(err, store.ErrCursorExpired) {
			t.Errorf("after %d: %v", after, err)
		}
	}
	p, err := s.Events(t.Context(), store.EventQuery{After: second})
	if err != nil || len(p.Events) != 1 || p.Events[0] != all.Events[2] {
		t.Errorf("after the dropped ones: %+v, %v", p, err)
	}
}

func TestEventLag(t *testing.T) {
	f := newFleet(t, 1)
	s := f.stores[0]
	if lag := metaOf(t, s).EventLag; lag != 0 {
		t.Errorf("lag while nothing is under way: %v", lag)
	}
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var began time.Time
	if err := conn.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&began); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"BEGIN", "SELECT pg_current_xact_id()"} {
		if _, err := conn.Exec(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if lag := metaOf(t, s).EventLag; lag <= 0 || lag > time.Since(began)+time.Second {
		t.Errorf("lag behind an open transaction: %v", lag)
	}
}
