package engine_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// TestScheduleWithAnUnknownOutcome: a schedule fires each hour, and the outcome of its first
// job stays unknown for a day, until a person decides.
func TestScheduleWithAnUnknownOutcome(t *testing.T) {
	const day = 24
	for _, tt := range []struct {
		policy   schedulesv1.OverlapPolicy
		before   store.ScheduleCounts // after a day
		buffered string
		after    store.ScheduleCounts // immediately after the decision
		requests int                  // of the platform, an hour later
		told     int                  // that it waits for a person
	}{
		{schedulesv1.OverlapPolicy_OVERLAP_POLICY_SKIP, store.ScheduleCounts{Fired: 1, SkippedByOverlap: day - 1}, "", store.ScheduleCounts{Fired: 1, SkippedByOverlap: day - 1}, 2, 0},
		{schedulesv1.OverlapPolicy_OVERLAP_POLICY_BUFFER_ONE, store.ScheduleCounts{Fired: 1, SkippedByOverlap: day - 2}, "2000-01-01T02:00:00/1", store.ScheduleCounts{Fired: 2, SkippedByOverlap: day - 2}, 3, 1},
		{schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW, store.ScheduleCounts{Fired: day}, "", store.ScheduleCounts{Fired: day}, day + 1, 0},
	} {
		t.Run(tt.policy.String(), func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.platform.publish = func(n int, c connector.Commit) job.Outcome {
					if n == 1 {
						return job.Outcome{Attempt: c.Attempt, Result: job.ResultUnknown}
					}
					return job.Outcome{Attempt: c.Attempt, Result: job.ResultSucceeded}
				}
				s := w.hourly(&schedulesv1.SchedulePolicies{WhileUnresolved: tt.policy})
				read := func() store.Schedule {
					t.Helper()
					got, err := w.store.Schedule(t.Context(), store.Ref{Project: "default", ID: s})
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				w.start()
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				log := new(bytes.Buffer)
				fires := schedule.New(schedule.Config{
					Store: patientSchedules{w.store}, Connectors: w.config.Connectors, Zones: recur.NewZones(""), NewID: newID,
					Log: slog.New(slog.NewTextHandler(log, nil)),
				})
				go func() { defer close(done); fires.Run(ctx) }()
				defer func() { stop(); <-done }()

				w.pass(day*time.Hour + 5*time.Minute)
				got := read()
				buffered := ""
				if b := got.Buffered; b != nil {
					buffered = b.Name
				}
				if got.Counts != tt.before || buffered != tt.buffered || got.State != store.ScheduleActive {
					t.Fatalf("after a day: %+v, buffered %q, state %d", got.Counts, buffered, got.State)
				}
				open, err := w.store.List(t.Context(), store.JobQuery{Project: "default", Schedule: s, States: []job.State{job.NeedsResolution}})
				if err != nil || len(open.Jobs) != 1 {
					t.Fatalf("jobs that wait for a person: %d, %v", len(open.Jobs), err)
				}
				first := open.Jobs[0]
				d, err := job.Decide(first.View(w.platform.traits(), 0), job.Resolved{Ruling: job.RuleSent, Actor: "ann"})
				if err != nil {
					t.Fatal(err)
				}
				w.apply(first, d)
				w.pass(2 * time.Second)
				if got := read(); got.Counts != tt.after || got.Buffered != nil {
					t.Errorf("after the decision: %+v, buffered %v", got.Counts, got.Buffered)
				}
				w.pass(time.Hour)
				if n := strings.Count(log.String(), "waits until the outcome"); n != tt.told {
					t.Errorf("logged %d times, want %d:\n%s", n, tt.told, log)
				}
				w.platform.mu.Lock()
				defer w.platform.mu.Unlock()
				if n := w.platform.requests; n != tt.requests {
					t.Errorf("%d requests in all, want %d", n, tt.requests)
				}
			}, class(job.Opaque))
		})
	}
}

// hourly stores a schedule that fires each hour from now on.
func (w *world) hourly(policies *schedulesv1.SchedulePolicies) job.ID {
	w.t.Helper()
	id, spec := newID(), &schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"0 * * * *"}}
	template := &schedulesv1.JobTemplate{Content: &schedulesv1.JobTemplate_Payload{Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{
		Webhook: &fireoncev1.Webhook{Url: "https://example.com/", Content: &fireoncev1.Webhook_BodyText{BodyText: "{{nominal_time}}"}},
	}}}}
	var encoded [3][]byte
	for i, m := range []proto.Message{spec, template, policies} {
		var err error
		if encoded[i], err = proto.Marshal(m); err != nil {
			w.t.Fatal(err)
		}
	}
	times, err := schedule.Compile(id, 1, spec, recur.NewZones(""))
	if err != nil {
		w.t.Fatal(err)
	}
	cursor, err := firing.Begin(times, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	_, _, err = w.store.CreateSchedule(w.t.Context(), store.NewSchedule{Schedule: store.Schedule{
		ID: id, Project: "default", Key: id.String(), Connection: w.conn.ID, State: store.ScheduleActive, Cursor: cursor, Next: time.Now(),
		Spec: encoded[0], Template: encoded[1], Policies: encoded[2],
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}
