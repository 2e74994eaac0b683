//go:build unix

package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestFleetCreatesOnce: a thousand callers on three servers submit one request.
func TestFleetCreatesOnce(t *testing.T) {
	const callers = 1000
	f := newFleet(t, 3)
	conn := f.connect()
	n := newSpec(conn)
	var created atomic.Int32
	var mu sync.Mutex
	bound := make(map[job.ID]bool)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			mine := n
			mine.Spec.ID = randomID()
			out, err := f.stores[i%3].Create(context.Background(), []store.NewJob{mine})
			if err != nil || out[0].Err != nil {
				t.Error(err, out)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			bound[out[0].Snapshot.ID] = true
			if out[0].Created {
				created.Add(1)
			}
		})
	}
	wg.Wait()
	if created.Load() != 1 || len(bound) != 1 {
		t.Errorf("%d created, %d jobs in the answers", created.Load(), len(bound))
	}
	f.unpack()
	for _, table := range []string{"jobs", "job_state", "job_keys", "events"} {
		if rows := f.count("SELECT count(*) FROM " + table); rows != 1 {
			t.Errorf("%d rows in %s", rows, table)
		}
	}
}

// TestFleetCreatesBatches: batches with the same keys in opposite orders.
func TestFleetCreatesBatches(t *testing.T) {
	const size, each = 30, 4
	f := newFleet(t, 2)
	conn := f.connect()
	items := make([]store.NewJob, size)
	for i := range items {
		items[i] = newSpec(conn)
	}
	var created atomic.Int32
	var wg sync.WaitGroup
	for i := range 2 * each {
		wg.Go(func() {
			mine := make([]store.NewJob, size)
			for k := range mine {
				mine[k] = items[k]
				if i%2 == 1 {
					mine[k] = items[size-1-k]
				}
				mine[k].Spec.ID = randomID()
			}
			out, err := f.stores[i%2].createAll(context.Background(), mine)
			if err != nil {
				t.Error(err)
			}
			for k, c := range out {
				if c.Err != nil || c.Snapshot.Key != mine[k].Spec.Key {
					t.Errorf("item %d: %+v", k, c)
				}
				if c.Created {
					created.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if created.Load() != size {
		t.Errorf("%d created, want %d", created.Load(), size)
	}
}

// TestCreateIsolates: an item that the database cannot store fails alone, its key stays free,
// and no part of it is left.
func TestCreateIsolates(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	bad := []func(*job.Spec){
		func(s *job.Spec) { s.Key += "\x00" },
		func(s *job.Spec) { s.HoldKey = "a\x00b" },
		func(s *job.Spec) { s.TimeZone = "\xff" },
		func(s *job.Spec) { s.Labels = map[string]string{"a": "b\x00"} },
		func(s *job.Spec) { s.Key = "" },
		func(s *job.Spec) {
			for range 500 { // too long for an index, also when it is compressed
				s.Key += randomID().String()
			}
		},
		func(s *job.Spec) { s.Delivery = 9 },
	}
	var items []store.NewJob
	for _, edit := range bad {
		items = append(items, newSpec(conn), newSpec(conn, edit))
	}
	out, err := f.stores[0].Create(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range out {
		if i%2 == 0 && (c.Err != nil || !c.Created) {
			t.Errorf("good item %d: %v", i, c.Err)
		}
		if i%2 == 1 && !errors.Is(c.Err, store.ErrIllegal) {
			t.Errorf("bad item %d: %v", i, c.Err)
		}
	}
	f.unpack()
	for _, table := range []string{"jobs", "job_state", "job_keys", "events"} {
		if rows := f.count("SELECT count(*) FROM " + table); rows != len(bad) {
			t.Errorf("%d rows in %s, want %d", rows, table, len(bad))
		}
	}
}

// TestReplyWithinBatch: a job may answer one that is submitted just before it.
func TestReplyWithinBatch(t *testing.T) {
	f := newFleet(t, 1)
	conn := f.connect()
	first := newSpec(conn)
	second := newSpec(conn, func(s *job.Spec) { s.ReplyTo = first.Spec.ID })
	out, err := f.stores[0].Create(t.Context(), []store.NewJob{second, first, second})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(out[0].Err, store.ErrReplyTo) || !out[1].Created || !out[2].Created || out[2].Snapshot.WaitsFor != first.Spec.ID {
		t.Errorf("verdicts: %+v", out)
	}
}
