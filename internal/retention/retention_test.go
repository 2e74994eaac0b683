package retention

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// scripted is a store whose steps take time and return scripted answers.
type scripted struct {
	takes   time.Duration
	answers []answer
	calls   []call
}

type answer struct {
	out store.Retained
	err error
}

type call struct {
	at time.Time
	p  store.RetainParams
}

func (s *scripted) Retain(_ context.Context, p store.RetainParams) (store.Retained, error) {
	s.calls = append(s.calls, call{time.Now(), p})
	time.Sleep(s.takes)
	if len(s.answers) == 0 {
		return store.Retained{Done: true}, nil
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a.out, a.err
}

// runFor runs the loop for a time of the bubble's clock and returns its log.
func runFor(t *testing.T, s store.Retention, keep store.Keep, d time.Duration) string {
	t.Helper()
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	Run(ctx, Config{Store: s, Keep: keep, Owner: job.ID{1}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	return log.String()
}

var keeping = store.Keep{Jobs: 24 * time.Hour, Events: 24 * time.Hour, Keys: 24 * time.Hour}

func TestStepsWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{takes: 100 * time.Millisecond, answers: []answer{
			{out: store.Retained{Jobs: 2, Next: "a"}}, {out: store.Retained{Jobs: 3, Events: 1, Next: "b"}},
			{out: store.Retained{Keys: 1, Done: true}},
		}}
		log := runFor(t, s, keeping, every+time.Second)
		if len(s.calls) != 3 {
			t.Fatalf("%d steps", len(s.calls))
		}
		for i, after := range []string{"", "a", "b"} {
			c := s.calls[i]
			if c.p.After != after || !reflect.DeepEqual(c.p.Keep, keeping) || c.p.Owner != (job.ID{1}) || c.p.Lease != lease || c.p.Limit != batch {
				t.Errorf("step %d: %+v", i, c.p)
			}
			if i > 0 && c.at.Sub(s.calls[i-1].at) != (1+rest)*s.takes {
				t.Errorf("step %d came %v after the one before", i, c.at.Sub(s.calls[i-1].at))
			}
		}
		if !strings.Contains(log, "jobs=5 events=1 keys=1") || strings.Count(log, "\n") != 1 {
			t.Errorf("log: %s", log)
		}
	})
}

// TestShortStepsPauseToo checks that the loop pauses even after a step that took no time, so
// that work queued behind it runs first.
func TestShortStepsPauseToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []answer{{out: store.Retained{Next: "a"}}}}
		if log := runFor(t, s, keeping, every+time.Second); log != "" {
			t.Errorf("a pass that removed nothing logged %s", log)
		}
		if len(s.calls) != 2 || s.calls[1].at.Sub(s.calls[0].at) != leastPause {
			t.Errorf("steps: %+v", s.calls)
		}
	})
}

// TestPassesEnd checks that a busy store, a quarantine and a failure end a pass, and that the
// next pass starts at the beginning.
func TestPassesEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		end  answer
		logs int
	}{
		"busy":       {answer{out: store.Retained{Busy: true}}, 0},
		"quarantine": {answer{err: store.ErrQuarantined}, 0},
		"failure":    {answer{err: errors.New("disk full")}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{answers: []answer{{out: store.Retained{Next: "a"}}, tt.end}}
				log := runFor(t, s, keeping, 2*every+time.Second)
				if len(s.calls) != 3 || s.calls[2].p.After != "" || s.calls[2].at.Sub(s.calls[1].at) < every {
					t.Errorf("steps: %+v", s.calls)
				}
				if strings.Count(log, "\n") != tt.logs {
					t.Errorf("log: %s", log)
				}
			})
		})
	}
}

// TestForever checks that if jobs and events are kept forever, the key of an erased job still
// becomes free after its time, and other jobs stay.
func TestForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(memory.Options{})
		erased, kept := canceledJob(t, s, 2), canceledJob(t, s, 3)
		keep := store.Keep{Keys: 24 * time.Hour}
		runFor(t, s, keep, store.LeastKept)
		snap, err := s.Job(t.Context(), store.Ref{ID: erased})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.EraseJob(t.Context(), store.EraseParams{Project: snap.Project, Job: erased, Version: snap.Version, Keep: keep, Actor: "a"}); err != nil {
			t.Fatal(err)
		}
		bound := func() bool {
			_, err := s.Job(t.Context(), store.Ref{Project: snap.Project, Key: snap.Key})
			var removed *store.RemovedError
			return errors.As(err, &removed)
		}
		runFor(t, s, keep, keep.Keys-time.Second)
		if !bound() {
			t.Error("the key is free before its time")
		}
		runFor(t, s, keep, 2*every)
		if bound() {
			t.Error("the key is bound after its time")
		}
		if _, err := s.Job(t.Context(), store.Ref{ID: kept}); err != nil {
			t.Errorf("a job that is kept forever: %v", err)
		}
	})
}

// canceledJob stores a job that has ended.
func canceledJob(t *testing.T, s *memory.Store, n byte) job.ID {
	t.Helper()
	conn, _, err := s.CreateConnection(t.Context(), store.NewConnection{
		Connection: store.Connection{ID: job.ID{1, n}, Project: "default", Connector: "fake", Class: job.Keyed},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Create(t.Context(), []store.NewJob{{Spec: job.Spec{
		ID: job.ID{2, n}, Project: "default", Key: string('a' + rune(n)), Connection: conn.ID, Delivery: job.OnceOrAsk, StartWindow: time.Minute,
	}}})
	if err != nil || out[0].Err != nil {
		t.Fatal(err, out)
	}
	snap := out[0].Snapshot
	d, err := job.Decide(snap.View(job.Traits{}, 0), job.CancelAsked{})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := s.Apply(t.Context(), []store.Change{{Job: snap.ID, Version: snap.Version, Decision: d}}); err != nil || a[0].Err != nil {
		t.Fatal(err, a)
	}
	return snap.ID
}

// TestOnAStore checks that one pass removes everything whose time is over.
func TestOnAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.Open(memory.Options{})
		id := canceledJob(t, s, 2)
		runFor(t, s, keeping, keeping.Jobs-time.Second)
		if _, err := s.Job(t.Context(), store.Ref{ID: id}); err != nil {
			t.Errorf("before its time: %v", err)
		}
		runFor(t, s, keeping, 2*every)
		if _, err := s.Job(t.Context(), store.Ref{ID: id}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after its time: %v", err)
		}
	})
}
