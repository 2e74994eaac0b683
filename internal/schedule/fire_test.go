package schedule_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// TestFires checks that a schedule fires at its time, and that the job follows its template.
func TestFires(t *testing.T) {
	onBoth(t, func(w *world) {
		s := w.schedule(minutely())
		is(w, w.once(), 0, "fired before its time")
		is(w, w.read(s).Next, begin.Add(time.Minute), "next")
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
		is(w, w.once(), 0, "fired again")
		w.clock.advance(61 * time.Second)
		is(w, w.once(), 1, "fired")
		is(w, w.outcomes(s), "FIRED 09:01, FIRED 09:02", "ledger")

		jobs := w.jobs(s)
		is(w, len(jobs), 2, "jobs")
		first, ledger := jobs[1], w.ledger(s)
		is(w, first.ID, ledger[0].Job, "job of the firing")
		is(w, first.Key, store.FiringKey(s.ID, "2026-11-02T09:01:00/1"), "key")
		is(w, first.HoldKey, "account", "hold key")
		is(w, first.Connection, w.conn.ID, "connection")
		is(w, first.Class, job.Keyed, "class")
		is(w, first.TimeZone, "Europe/Vienna", "zone")
		is(w, first.Labels["from"], "template", "label")
		is(w, first.StartWindow, time.Hour, "start window")
		is(w, first.ScheduleTime, begin.Add(time.Minute), "due")
		whole, err := w.store.Job(w.ctx, store.Ref{Project: project, ID: first.ID})
		w.ok(err)
		var p fireoncev1.Payload
		w.ok(proto.Unmarshal(whole.Payload, &p))
		is(w, p.GetWebhook().GetBodyText(), "at 2026-11-02T09:01:00, run 1", "body")

		w.plug.mu.Lock()
		defer w.plug.mu.Unlock()
		for _, r := range w.plug.prepared {
			if !r.Offline {
				w.Error("a connector may ask another program while schedules are locked")
			}
		}
		is(w, w.plug.prepared[0].EffectKey, job.EffectKey("n", project, first.Key, 1), "effect key")
	})
}

// TestPlanFollowsVersions checks that a cached plan is used only for its version of the schedule.
func TestPlanFollowsVersions(t *testing.T) {
	in(t, func(w *world) {
		s := w.schedule(minutely())
		before, err := w.s.Plan(s)
		w.ok(err)
		again, err := w.s.Plan(s)
		w.ok(err)
		is(w, again, before, "plan of the same version")
		fired := s
		fired.Revision, fired.Run = 9, 4
		again, err = w.s.Plan(fired)
		w.ok(err)
		is(w, again, before, "plan after a firing")

		s = w.change(s, func(s *store.Schedule) { s.Template = encoded(t, template("changed")) })
		after, err := w.s.Plan(s)
		w.ok(err)
		is(w, after.Template.GetPayload().GetWebhook().GetBodyText(), "changed", "template of the new version")
		listed := s
		listed.Template = nil
		bare, err := w.s.Plan(listed)
		w.ok(err)
		is(w, bare.Template == nil, true, "template of a listed one")
		restored := s
		restored.Updated, restored.Spec = s.Updated.Add(time.Second), encoded(t, &schedulesv1.ScheduleSpec{
			TimeZone: "UTC", CronExpressions: []string{"@daily"},
		})
		other, err := w.s.Plan(restored)
		w.ok(err)
		is(w, other.Spec.GetTimeZone(), "UTC", "spec of the same version in a restored database")
		full, err := w.s.Plan(s)
		w.ok(err)
		is(w, full.Template != nil, true, "template after a list")
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
	})
}

// TestUnreadableSchedulePauses checks that a schedule that cannot be evaluated pauses itself, and
// does not stop others.
func TestUnreadableSchedulePauses(t *testing.T) {
	for name, edit := range map[string]func(*store.Schedule){
		"spec":     func(s *store.Schedule) { s.Spec = []byte{0xff} },
		"policies": func(s *store.Schedule) { s.Policies = []byte{0xff} },
		"template": func(s *store.Schedule) { s.Template = []byte{0xff} },
		"times": func(s *store.Schedule) {
			s.Spec = encoded(t, &schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"* * * *"}})
		},
		"cursor": func(s *store.Schedule) { s.Cursor = "{}" },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				var log *bytes.Buffer
				w.s, log = w.server(w.store, zones)
				broken := w.schedule(&schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"* * * * *"}}, nil, edit)
				sound := w.schedule(minutely())
				w.clock.advance(time.Minute)
				is(w, w.once(), 1, "fired")
				got := w.read(broken)
				is(w, got.State, store.SchedulePaused, "state")
				is(w, got.PauseCause, store.PausedByRefusal, "cause")
				if !strings.Contains(got.Note, "ResumeSchedule") {
					t.Errorf("note %q", got.Note)
				}
				if !strings.Contains(log.String(), "paused itself") || !strings.Contains(log.String(), broken.ID.String()) {
					t.Errorf("log %q", log)
				}
				is(w, w.outcomes(sound), "FIRED 09:01", "the other one's ledger")
			})
		})
	}
}

// TestRefusals checks that a job that cannot be made is refused, and that its schedule pauses.
func TestRefusals(t *testing.T) {
	big := strings.Repeat("x", job.MaxPayload-50)
	for name, tt := range map[string]struct {
		edit func(w *world, s *store.Schedule)
		fail error
		want string
	}{
		"no template":   {func(_ *world, s *store.Schedule) { s.Template = nil }, nil, "no template"},
		"no connection": {func(_ *world, s *store.Schedule) { s.Connection = newID() }, nil, "connection"},
		"the connector": {nil, &connector.InputError{Msg: "the text is too long"}, "the text is too long"},
		"filled in": {func(w *world, s *store.Schedule) {
			s.Template = encoded(w.T, template(big+"{{schedule_id}}{{schedule_id}}"))
		}, nil, "too long with its placeholders"},
		"held, no key":   {nil, &connector.Refusal{Kind: job.FailHeld, Msg: "away"}, "away"},
		"another reason": {nil, &connector.Refusal{Kind: job.FailAuth, Msg: "who"}, "who"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				spec, policies := minutely()
				s := w.schedule(spec, policies, func(s *store.Schedule) {
					if tt.edit != nil {
						tt.edit(w, s)
					}
				})
				if w.plug.fail = tt.fail; name == "held, no key" {
					w.plug.hold = ""
				}
				w.clock.advance(time.Minute)
				is(w, w.once(), 0, "fired")
				got := w.read(s)
				is(w, got.State, store.SchedulePaused, "state")
				is(w, got.Counts, store.ScheduleCounts{Refused: 1}, "counts")
				is(w, len(w.jobs(s)), 0, "jobs")
				if f := w.ledger(s); len(f) != 1 || f[0].Outcome != store.FiringRefused || !strings.Contains(f[0].Reason, tt.want) {
					t.Errorf("ledger %+v, want a reason with %q", f, tt.want)
				}
				// A client's firing is refused too, and is not stored.
				_, _, err := w.s.Trigger(w.ctx, ref(s), "k", true)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("trigger: %v, want %q", err, tt.want)
				}
				_, err = w.s.Backfill(w.ctx, ref(s), begin, begin.Add(time.Minute+1), admitted)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("backfill: %v, want %q", err, tt.want)
				}
				is(w, len(w.ledger(s)), 1, "firings after refused requests")
				is(w, w.read(s).Counts, store.ScheduleCounts{Refused: 1}, "counts after refused requests")
			})
		})
	}
}

// TestHeldConnectorFires checks that jobs are made even while a connector's program is unreachable.
func TestHeldConnectorFires(t *testing.T) {
	in(t, func(w *world) {
		s := w.schedule(minutely())
		w.plug.fail = &connector.Refusal{Kind: job.FailHeld, Msg: "away"}
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
		is(w, w.jobs(s)[0].HoldKey, "account", "hold key")
	})
}

func (w *world) connect(name string) store.Connection {
	w.Helper()
	c, _, err := w.store.CreateConnection(w.ctx, store.NewConnection{Key: name, Connection: store.Connection{
		ID: newID(), Project: project, Connector: name, Class: job.Keyed, KeyWindow: time.Hour,
	}})
	w.ok(err)
	return c
}

// TestTwoSchedulers checks that the schedulers of several servers together make one job for each
// time.
func TestTwoSchedulers(t *testing.T) {
	w := onPostgres(t)
	const schedules, minutes = 7, 12
	var all []store.Schedule
	for range schedules {
		all = append(all, w.schedule(minutely()))
	}
	schedulers := []*schedule.Scheduler{w.s, w.scheduler(w.again()), w.scheduler(w.again())}
	for range minutes {
		w.clock.advance(time.Minute)
		var wait sync.WaitGroup
		for _, s := range schedulers {
			wait.Go(func() {
				for more := true; more; {
					var err error
					if _, more, err = s.Once(w.ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
	}
	for _, s := range all {
		var want []string
		for i := range minutes {
			want = append(want, fmt.Sprintf("FIRED 09:%02d", i+1))
		}
		is(w, w.outcomes(s), strings.Join(want, ", "), "ledger")
		is(w, len(w.jobs(s)), minutes, "jobs")
		got := w.read(s)
		is(w, got.Counts, store.ScheduleCounts{Fired: minutes}, "counts")
		is(w, got.Run, minutes, "runs")
	}
}

// closedStore is a store whose calls of Fire fail.
type closedStore struct {
	store.Store
	mu    sync.Mutex
	calls []time.Time
	fail  func(call int) error
}

func (c *closedStore) Fire(ctx context.Context, p store.FireParams) ([]store.Fired, bool, error) {
	c.mu.Lock()
	c.calls = append(c.calls, time.Now())
	err := c.fail(len(c.calls))
	c.mu.Unlock()
	if err != nil {
		return nil, false, err
	}
	return c.Store.Fire(ctx, p)
}

// TestRun checks that Run fires schedules at their times, notices new schedules, and continues after
// the store has failed.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := inBubble(t)
		store1 := &closedStore{Store: w.store, fail: func(call int) error {
			if call == 1 {
				return store.ErrQuarantined
			}
			return nil
		}}
		s := w.scheduler(store1)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		start := time.Now()
		time.Sleep(2500 * time.Millisecond)
		made := w.schedule(&schedulesv1.ScheduleSpec{TimeZone: "UTC", Intervals: []*schedulesv1.ScheduleInterval{{Every: durationpb.New(10 * time.Second)}}},
			&schedulesv1.SchedulePolicies{Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW})
		time.Sleep(30 * time.Second)
		stop()
		<-done
		jobs := w.jobs(made)
		is(w, len(jobs), 3, "jobs")
		for _, f := range w.ledger(made) {
			if late := f.Decided.Sub(f.Nominal); late < 0 || late > time.Millisecond {
				t.Errorf("%s fired after %s", f.Name, late)
			}
		}
		if c := store1.calls; len(c) < 2 || c[1].Sub(start) != time.Second {
			t.Errorf("after a refusal it looks again at %v", c)
		}
		if n := len(store1.calls); n > 20 {
			t.Errorf("%d looks in half a minute", n)
		}
	})
}

func TestTrigger(t *testing.T) {
	onBoth(t, func(w *world) {
		spec, _ := minutely()
		spec.MaxFirings = 4
		s := w.schedule(spec, &schedulesv1.SchedulePolicies{Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_SKIP})
		w.clock.advance(30*time.Second + time.Millisecond)
		now := w.clock.now()
		f, created, err := w.s.Trigger(w.ctx, ref(s), "k", false)
		w.ok(err)
		is(w, created, true, "created")
		is(w, f.Origin, store.FiredByTrigger, "origin")
		is(w, f.Nominal, now, "nominal time")
		is(w, f.LocalTime, "2026-11-02T09:00:30+01:00", "local time")
		is(w, f.Run, 1, "run")
		is(w, w.jobs(s)[0].ID, f.Job, "job")
		is(w, w.read(s).Next, s.Next, "next")

		// Its own job blocks other triggers, but not its repeats.
		w.clock.advance(time.Second)
		again, created, err := w.s.Trigger(w.ctx, ref(s), "k", false)
		w.ok(err)
		is(w, created, false, "created by a repeat")
		is(w, again, f, "repeat")
		_, _, err = w.s.Trigger(w.ctx, ref(s), "k2", false)
		if blocked, ok := errors.AsType[*firingBlocked](err); !ok || blocked.Job != f.Job {
			w.Errorf("blocked: %v", err)
		}
		second, created, err := w.s.Trigger(w.ctx, ref(s), "k2", true)
		w.ok(err)
		is(w, created, true, "created in spite of another job")

		// A paused schedule accepts triggers too, and the last one ends it.
		s = w.change(s, func(s *store.Schedule) {
			s.State, s.PauseCause, s.Next, s.Note = store.SchedulePaused, store.PausedByPerson, time.Time{}, "why"
		})
		_, created, err = w.s.Trigger(w.ctx, ref(s), "k3", true)
		w.ok(err)
		is(w, created, true, "created for a paused one")
		is(w, w.read(s).State, store.SchedulePaused, "state")
		_, created, err = w.s.Trigger(w.ctx, ref(s), "k4", true)
		w.ok(err)
		is(w, created, true, "created as the last one")
		got := w.read(s)
		is(w, got.State, store.ScheduleEnded, "state at the end")
		is(w, got.Counts, store.ScheduleCounts{Fired: 4}, "counts")
		_, _, err = w.s.Trigger(w.ctx, ref(s), "k5", true)
		w.fails(err, firingEnded)
		again, _, err = w.s.Trigger(w.ctx, ref(s), "k2", false)
		w.ok(err)
		is(w, again, second, "a repeat after the end")
		is(w, len(w.ledger(s)), 4, "firings")
		is(w, len(w.jobs(s)), 4, "jobs")

		w.change(s, func(s *store.Schedule) { s.State = store.ScheduleDeleted })
		_, _, err = w.s.Trigger(w.ctx, ref(s), "k6", true)
		w.fails(err, schedule.ErrDeleted)
		again, _, err = w.s.Trigger(w.ctx, ref(s), "k", true)
		w.ok(err)
		is(w, again, f, "a repeat after the schedule was deleted")
		_, _, err = w.s.Trigger(w.ctx, store.Ref{Project: "other", ID: s.ID}, "k", true)
		w.fails(err, store.ErrNotFound)
	})
}

// TestTriggerEndsActive checks that the last job that a schedule may make ends it, even if a client
// triggers that job while another firing is buffered.
func TestTriggerEndsActive(t *testing.T) {
	onBoth(t, func(w *world) {
		spec, _ := minutely()
		spec.MaxFirings = 2
		s := w.schedule(spec, nil)
		_, _, err := w.s.Trigger(w.ctx, ref(s), "k", false)
		w.ok(err)
		w.clock.advance(time.Minute)
		is(w, w.once(), 0, "fired")
		is(w, w.read(s).Buffered.Name, "2026-11-02T09:01:00/1", "buffered")
		_, _, err = w.s.Trigger(w.ctx, ref(s), "k2", true)
		w.ok(err)
		got := w.read(s)
		is(w, got.State, store.ScheduleEnded, "state")
		is(w, got.Counts, store.ScheduleCounts{Fired: 2, Missed: 1}, "counts")
		is(w, w.outcomes(s), "FIRED 09:00, FIRED 09:01, MISSED 09:01", "ledger")
	})
}

// TestConcurrentTriggers checks that concurrent triggers under one key make one job, on any server.
func TestConcurrentTriggers(t *testing.T) {
	w := onPostgres(t)
	s := w.schedule(&schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"@yearly"}}, nil)
	schedulers := []*schedule.Scheduler{w.s, w.scheduler(w.again())}
	var mu sync.Mutex
	jobs, made := make(map[job.ID]bool), 0
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			f, created, err := schedulers[i%2].Trigger(w.ctx, ref(s), "k", false)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if jobs[f.Job] = true; created {
				made++
			}
		})
	}
	wait.Wait()
	is(w, len(jobs), 1, "jobs that were named")
	is(w, made, 1, "jobs that were made")
	is(w, len(w.jobs(s)), 1, "jobs")
}

func TestBackfill(t *testing.T) {
	onBoth(t, func(w *world) {
		s := w.schedule(minutely())
		until := begin.Add(10 * time.Minute)
		w.clock.advance(10*time.Minute + 30*time.Second)
		_, err := w.s.Backfill(w.ctx, ref(s), begin, until, admitted)
		w.fails(err, schedule.ErrUndecided)
		w.once() // no server fired for a while: the last firing is in time
		is(w, strings.Count(w.outcomes(s), "FIRED"), 1, "fired")
		missed := 10 - 1

		planned, err := w.s.Backfill(w.ctx, ref(s), begin.Add(time.Second), until.Add(time.Second), nil)
		w.ok(err)
		is(w, len(planned.Firings), missed, "planned")
		is(w, planned.Present, 1, "present")
		is(w, len(w.jobs(s)), 1, "jobs of a dry run")
		made, err := w.s.Backfill(w.ctx, ref(s), begin.Add(time.Second), until.Add(time.Second), admitted)
		w.ok(err)
		is(w, len(made.Firings), missed, "made")
		is(w, made.Next, time.Time{}, "next")
		for i, f := range made.Firings {
			is(w, f.Name, planned.Firings[i].Name, "name")
			is(w, f.Nominal, planned.Firings[i].Nominal, "nominal time")
			is(w, f.LocalTime, planned.Firings[i].LocalTime, "local time")
			is(w, f.Origin, store.FiredByBackfill, "origin")
			is(w, f.Job.IsZero(), false, "without a job")
		}
		again, err := w.s.Backfill(w.ctx, ref(s), begin.Add(time.Second), until.Add(time.Second), admitted)
		w.ok(err)
		is(w, len(again.Firings), 0, "made by a repeat")
		is(w, again.Present, 10, "present to a repeat")
		is(w, len(w.jobs(s)), 10, "jobs")
		jobs := w.jobs(s)
		var p fireoncev1.Payload
		whole, err := w.store.Job(w.ctx, store.Ref{Project: project, ID: made.Firings[0].Job})
		w.ok(err)
		w.ok(proto.Unmarshal(whole.Payload, &p))
		is(w, p.GetWebhook().GetBodyText(), "at 2026-11-02T09:01:00, run 2", "body")
		for i := 1; i < len(made.Firings); i++ {
			a, b := at(jobs, made.Firings[i-1].Job), at(jobs, made.Firings[i].Job)
			is(w, b.Sub(a), time.Second, "pace")
		}
		if _, err := w.s.Backfill(w.ctx, store.Ref{Project: "other", ID: s.ID}, begin, until, nil); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("of another project: %v", err)
		}
	})
}

func at(jobs []job.Snapshot, id job.ID) time.Time {
	for _, j := range jobs {
		if j.ID == id {
			return j.ScheduleTime
		}
	}
	return time.Time{}
}

// TestBackfillPages checks that a range with more times than one call makes takes several calls, and
// that each time gets one job.
func TestBackfillPages(t *testing.T) {
	in(t, func(w *world) {
		spec, policies := minutely()
		policies.CatchUp = schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_NONE
		s := w.schedule(spec, policies)
		w.clock.advance(11*time.Hour + 30*time.Second)
		for range 3 { // the ledger has more than one page of firings
			w.once()
			w.clock.advance(9 * time.Hour)
		}
		w.clock.advance(-9 * time.Hour)
		until := w.clock.now()
		total, calls := 0, 0
		for from := begin.Add(time.Second); !from.IsZero(); {
			b, err := w.s.Backfill(w.ctx, ref(s), from, until, admitted)
			w.ok(err)
			if len(b.Firings) > schedule.MaxBackfill {
				t.Fatalf("%d firings in one call", len(b.Firings))
			}
			total, from = total+len(b.Firings)+b.Present, b.Next
			if calls++; calls > 100 {
				t.Fatal("the range has no end")
			}
		}
		minutes := int(until.Sub(begin) / time.Minute)
		is(w, total, minutes, "firings")
		is(w, len(w.allJobs(s)), minutes, "jobs")
		b, err := w.s.Backfill(w.ctx, ref(s), begin.Add(time.Second), until, nil)
		w.ok(err)
		is(w, b.Present, schedule.MaxBackfill, "present")
	})
}

func (w *world) allJobs(s store.Schedule) map[job.ID]bool {
	out := make(map[job.ID]bool)
	for _, f := range w.ledger(s) {
		if !f.Job.IsZero() {
			out[f.Job] = true
		}
	}
	return out
}

// TestBackfillAcrossAChange checks that a time that has a job, or a buffered firing, gets no second
// job under another generation of the spec.
func TestBackfillAcrossAChange(t *testing.T) {
	onBoth(t, func(w *world) {
		s := w.schedule(minutely())
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
		spec, _ := minutely()
		spec.CronExpressions = []string{"*/1 * * * *"}
		s = w.change(s, func(s *store.Schedule) {
			s.Spec, s.Generation, s.Policies = encoded(w.T, spec), 2, nil
			times, err := schedule.Compile(s.ID, 2, spec, zones)
			w.ok(err)
			s.Cursor, err = begins(times, w.clock.now())
			w.ok(err)
		})
		w.clock.advance(time.Minute)
		is(w, w.once(), 0, "fired while another job is open")
		is(w, w.read(s).Buffered.Name, "g2:2026-11-02T09:02:00/1", "buffered")
		b, err := w.s.Backfill(w.ctx, ref(s), begin, begin.Add(2*time.Minute+1), admitted)
		w.ok(err)
		is(w, b.Present, 2, "present")
		is(w, told(b.Firings), "FIRED 09:00", "made")
		is(w, b.Firings[0].Name, "b:g2:2026-11-02T09:00:00/1", "name")
		is(w, len(w.jobs(s)), 2, "jobs")
	})
}

// TestBackfillWithOtherZoneData checks that a time that has a job gets no second job from a server
// whose zone data has the time at another instant, even if the range begins between the two.
func TestBackfillWithOtherZoneData(t *testing.T) {
	onBoth(t, func(w *world) {
		registry, err := connector.NewRegistry(w.plug)
		w.ok(err)
		// In it, Pacific/Fiji is an hour east of UTC: its mornings are eleven hours later.
		other := schedule.New(schedule.Config{
			Store: w.store, Connectors: registry, Zones: recur.NewZones(fixedZone(w.T, "Pacific/Fiji")), Namespace: "n", NewID: newID,
		})
		spec, policies := minutely()
		spec.TimeZone, spec.CronExpressions = "Pacific/Fiji", []string{"0 9 * * *"}
		s := w.schedule(spec, policies)
		w.clock.advance(13 * time.Hour) // 9:00 in Fiji is 21:00 UTC
		is(w, w.once(), 1, "fired")
		w.clock.advance(24*time.Hour - time.Minute)
		w.once()
		is(w, w.outcomes(s), "FIRED 09:00", "ledger")

		// By the other data that 9:00 was at 8:00 UTC of the next day.
		at := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
		b, err := other.Backfill(w.ctx, ref(s), at, at.Add(time.Second), nil)
		w.ok(err)
		is(w, len(b.Firings), 0, "planned")
		is(w, b.Present, 1, "present")
		b, err = other.Backfill(w.ctx, ref(s), at, at.Add(time.Second), admitted)
		w.ok(err)
		is(w, len(b.Firings), 0, "made")
		is(w, len(w.jobs(s)), 1, "jobs")
	})
}

// TestBackfillEnds checks that a backfill that would exceed max_firings makes no jobs, and that one
// that reaches it ends the schedule.
func TestBackfillEnds(t *testing.T) {
	in(t, func(w *world) {
		spec, policies := minutely()
		spec.MaxFirings = 3
		policies.CatchUp = schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_NONE
		s := w.schedule(spec, policies)
		w.clock.advance(5*time.Minute - time.Second)
		w.once()
		_, err := w.s.Backfill(w.ctx, ref(s), begin, w.clock.now(), admitted)
		w.fails(err, firingEnded)
		is(w, len(w.jobs(s)), 1, "jobs")
		b, err := w.s.Backfill(w.ctx, ref(s), begin.Add(time.Second), begin.Add(2*time.Minute+1), admitted)
		w.ok(err)
		is(w, len(b.Firings), 2, "made")
		is(w, w.read(s).State, store.ScheduleEnded, "state")
		is(w, w.read(s).Next, time.Time{}, "next")
		w.change(s, func(s *store.Schedule) { s.State = store.ScheduleDeleted })
		_, err = w.s.Backfill(w.ctx, ref(s), begin, begin.Add(time.Minute), nil)
		w.fails(err, schedule.ErrDeleted)
	})
}

// TestUpcoming checks that Upcoming returns the next firings, and marks the skipped ones.
func TestUpcoming(t *testing.T) {
	in(t, func(w *world) {
		spec, policies := minutely()
		spec.MaxFirings = 3
		s := w.schedule(spec, policies)
		w.clock.advance(time.Minute)
		is(w, w.once(), 1, "fired")
		s = w.change(s, func(s *store.Schedule) { s.Skips = []string{"2026-11-02T09:03:00/1"} })
		got, err := w.s.Upcoming(context.Background(), s, w.clock.now(), 10)
		w.ok(err)
		is(w, len(got), 2, "firings to come")
		is(w, got[0].Name, "2026-11-02T09:02:00/1", "first")
		is(w, got[0].Skipped, false, "the first is skipped")
		is(w, got[1].Skipped, true, "the second is skipped")
		s = w.change(s, func(s *store.Schedule) {
			s.State, s.PauseCause, s.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
		})
		got, err = w.s.Upcoming(context.Background(), s, begin.Add(time.Hour), 1)
		w.ok(err)
		is(w, got[0].Name, "2026-11-02T10:01:00/1", "first, if it were resumed")
		s = w.change(s, func(s *store.Schedule) { s.State, s.PauseCause = store.ScheduleDeleted, 0 })
		got, err = w.s.Upcoming(context.Background(), s, w.clock.now(), 10)
		w.ok(err)
		is(w, len(got), 0, "firings of a deleted one")
	})
}
