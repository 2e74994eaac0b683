package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// newZone is a zone, an hour ahead of UTC, that only newer zone data has.
const newZone = "Test/New"

// newer returns zone data that has newZone.
func newer(t *testing.T) *recur.Zones {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "Test"), 0o700); err != nil {
		t.Fatal(err)
	}
	// One type of local time, as RFC 9636 has it: no transitions, 3,600 s, "TST".
	data := "TZif" + strings.Repeat("\x00", 16) + strings.Repeat("\x00", 16) + "\x00\x00\x00\x01" + "\x00\x00\x00\x04" + "\x00\x00\x0e\x10\x00\x00" + "TST\x00"
	if err := os.WriteFile(filepath.Join(dir, newZone), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tzdata.zi"), []byte("Z "+newZone+" 1 - TST\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return recur.NewZones(dir)
}

// server returns a scheduler with zone data and a log of its own.
func (w *world) server(s schedule.Store, z *recur.Zones) (*schedule.Scheduler, *bytes.Buffer) {
	w.Helper()
	registry, err := connector.NewRegistry(w.plug)
	w.ok(err)
	log := new(bytes.Buffer)
	return schedule.New(schedule.Config{
		Store: s, Connectors: registry, Zones: z, Namespace: "n", NewID: newID, Log: slog.New(slog.NewTextHandler(log, nil)),
	}), log
}

// inNewZone stores a schedule in the new zone that fires each minute.
func (w *world) inNewZone(z *recur.Zones) store.Schedule {
	w.Helper()
	spec, policies := minutely()
	return w.schedule(spec, policies, func(s *store.Schedule) {
		spec = &schedulesv1.ScheduleSpec{TimeZone: newZone, CronExpressions: spec.CronExpressions}
		times, err := schedule.Compile(s.ID, 1, spec, z)
		w.ok(err)
		s.Cursor, err = firing.Begin(times, w.clock.now())
		w.ok(err)
		s.Spec = encoded(w.T, spec)
	})
}

// TestLeavesAZoneItLacks checks two servers on one database: the server with older zone data leaves
// a schedule to the other one, fires the rest, and logs that once.
func TestLeavesAZoneItLacks(t *testing.T) {
	onBoth(t, func(w *world) {
		z := newer(w.T)
		theirs, ours := w.inNewZone(z), w.schedule(minutely())
		older, log := w.server(w.store, zones)
		with, _ := w.server(w.store, z)
		before := w.read(theirs)
		for range 3 {
			w.clock.advance(time.Minute)
			n, more, err := older.Once(w.ctx)
			w.ok(err)
			is(w, n, 1, "firings of the older server")
			is(w, more, false, "more")
			next, err := older.Next(w.ctx, 5*time.Second)
			w.ok(err)
			is(w, next, 5*time.Second, "next look of the older server")
		}
		is(w, len(w.ledger(ours)), 3, "firings in a zone that it has")
		if after := w.read(theirs); !reflect.DeepEqual(after, before) {
			w.Errorf("the other one is %+v, and was %+v", after, before)
		}
		if left := older.Left(); !reflect.DeepEqual(left, schedule.Left{Schedules: 1, Zones: []string{newZone}}) {
			w.Errorf("left: %+v", left)
		}
		if n := strings.Count(log.String(), "lacks the data of a time zone"); n != 1 {
			w.Errorf("logged %d times:\n%s", n, log)
		}
		_, _, err := with.Once(w.ctx)
		w.ok(err)
		is(w, w.read(theirs).State, store.ScheduleActive, "state")
		is(w, len(w.ledger(theirs)), 3, "firings by the server with newer data")
		is(w, with.Left().Schedules, 0, "left by the server with newer data")
	})
}

// TestLeavesAConnectorItLacks checks that a server without a schedule's connector leaves the
// schedule to others, and does not pause it.
func TestLeavesAConnectorItLacks(t *testing.T) {
	onBoth(t, func(w *world) {
		other := w.connect("other")
		spec, policies := minutely()
		theirs := w.schedule(spec, policies, func(s *store.Schedule) { s.Connection = other.ID })
		ours := w.schedule(minutely())
		server, log := w.server(w.store, zones)
		before := w.read(theirs)
		for range 2 {
			w.clock.advance(time.Minute)
			n, more, err := server.Once(w.ctx)
			w.ok(err)
			is(w, n, 1, "firings")
			is(w, more, false, "more")
		}
		is(w, w.outcomes(ours), "FIRED 09:01, FIRED 09:02", "firings of a connector that it has")
		if after := w.read(theirs); !reflect.DeepEqual(after, before) {
			w.Errorf("the other one is %+v, and was %+v", after, before)
		}
		if left := server.Left(); left.Schedules != 1 || !slices.Equal(left.Connectors, []string{"other"}) || len(left.Zones) != 0 {
			w.Errorf("left: %+v", left)
		}
		if n := strings.Count(log.String(), "does not have a connector"); n != 1 {
			w.Errorf("logged %d times:\n%s", n, log)
		}
		_, _, err := server.Trigger(w.ctx, ref(theirs), "k", true)
		if lacks := new(schedule.NoConnectorError); !errors.As(err, &lacks) || lacks.Connector != "other" {
			w.Errorf("trigger: %v", err)
		}
	})
}

// counting counts a scheduler's reads of due schedules.
type counting struct {
	store.Store
	fires atomic.Int64
}

func (c *counting) Fire(ctx context.Context, p store.FireParams) ([]store.Fired, bool, error) {
	c.fires.Add(1)
	return c.Store.Fire(ctx, p)
}

// TestDoesNotSpinForAZone checks that a server that lacks the only schedule's zone reads no more
// often than an idle one, and fires once the schedule has a zone that it has.
func TestDoesNotSpinForAZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inBubble(t)
		s := w.inNewZone(newer(t))
		looks := &counting{Store: w.store}
		older, _ := w.server(looks, zones)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			older.Run(ctx)
		}()
		time.Sleep(10 * time.Minute)
		if n := looks.fires.Load(); n < 20 || n > 200 {
			t.Errorf("%d reads in 10 minutes", n)
		}
		is(w, w.read(s).State, store.ScheduleActive, "state")
		w.change(s, func(to *store.Schedule) {
			spec, _ := minutely()
			to.Spec, to.Generation, to.Next = encoded(t, spec), 2, time.Now()
			times, err := schedule.Compile(to.ID, 2, spec, zones)
			w.ok(err)
			to.Cursor, err = firing.Begin(times, time.Now())
			w.ok(err)
		})
		time.Sleep(2 * time.Minute)
		if n := len(w.ledger(s)); n < 1 {
			t.Error("nothing was fired with a zone that is known")
		}
		stop()
		<-done
	})
}

// TestLeavesManySchedules checks that the number of schedules that a server passes over is bounded.
// Schedules beyond the bound are delayed for all servers, and those behind them fire.
func TestLeavesManySchedules(t *testing.T) {
	c := &clock{at: begin}
	w := newWorld(t, c, memory.Open(memory.Options{Now: c.now}))
	z := newer(t)
	var ids []job.ID
	for range store.MaxExcept + 10 {
		ids = append(ids, w.inNewZone(z).ID)
	}
	c.advance(time.Second)
	ours := w.schedule(minutely())
	c.advance(time.Minute)
	older, _ := w.server(w.store, zones)
	for range 20 {
		_, more, err := older.Once(w.ctx)
		w.ok(err)
		if !more {
			break
		}
	}
	is(w, len(w.ledger(ours)), 1, "firings behind the schedules that are left")
	is(w, older.Left().Schedules, store.MaxExcept, "passed over")
	off := 0
	for _, id := range ids {
		s, err := w.store.Schedule(w.ctx, store.Ref{Project: project, ID: id})
		w.ok(err)
		is(w, s.State, store.ScheduleActive, "state")
		if s.PostponedUntil.After(c.now()) {
			off++
		}
	}
	is(w, off, 10, "put off for all servers")
}
