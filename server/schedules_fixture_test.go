package server_test

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

type (
	createScheduleRequest = fireoncev1.CreateScheduleRequest
	updateScheduleRequest = fireoncev1.UpdateScheduleRequest
)

// everyHour fires at each full hour. The fixture's clock begins at 14:00 in Vienna.
func everyHour() *fireoncev1.ScheduleSpec {
	return &fireoncev1.ScheduleSpec{TimeZone: "Europe/Vienna", CronExpressions: []string{"0 * * * *"}}
}

// daily fires once a day, in summer at 7:30 UTC.
func daily() *fireoncev1.ScheduleSpec {
	return &fireoncev1.ScheduleSpec{TimeZone: "Europe/Vienna", CronExpressions: []string{"30 9 * * *"}}
}

func templateOn(conn string) *fireoncev1.JobTemplate {
	return &fireoncev1.JobTemplate{
		Connection: &fireoncev1.JobTemplate_ConnectionId{ConnectionId: conn},
		Content:    contentOf(custom("good/v1", "run {{run}} of {{nominal_time}}")),
	}
}

func contentOf(p *fireoncev1.Payload) *fireoncev1.JobTemplate_Payload {
	return &fireoncev1.JobTemplate_Payload{Payload: p}
}

func anySchedule() *fireoncev1.ScheduleFilter {
	return &fireoncev1.ScheduleFilter{States: []fireoncev1.ScheduleState{
		fireoncev1.ScheduleState_SCHEDULE_STATE_ACTIVE, fireoncev1.ScheduleState_SCHEDULE_STATE_PAUSED,
	}}
}

// newSchedule is a valid CreateScheduleRequest, for each full hour.
func (f *fixture) newSchedule(key string, edit ...func(*createScheduleRequest)) *createScheduleRequest {
	r := &createScheduleRequest{IdempotencyKey: key, Spec: everyHour(), JobTemplate: templateOn(f.conn)}
	for _, e := range edit {
		e(r)
	}
	return r
}

// labelled has a canary in each text of a schedule.
func labelled(canary string) func(*createScheduleRequest) {
	return func(r *createScheduleRequest) {
		r.DisplayName, r.Labels, r.Note = canary, map[string]string{"label": canary}, canary
		r.JobTemplate.Content, r.JobTemplate.Labels = contentOf(custom("good/v1", canary)), map[string]string{"label": canary}
	}
}

// recurring stores a schedule over a client.
func (f *fixture) recurring(ctx context.Context, c client, r *createScheduleRequest) *fireoncev1.Schedule {
	f.tb.Helper()
	res, err := askWith[fireoncev1.CreateScheduleResponse](ctx, c, schedsPath+"CreateSchedule", r)
	f.must(err)
	return res.GetSchedule()
}

// satSchedule is a schedule as it is stored.
func (f *fixture) satSchedule(id string) store.Schedule {
	f.tb.Helper()
	s, err := f.store.Schedule(f.tb.Context(), store.Ref{ID: f.id(id)})
	f.must(err)
	return s
}

// firing keeps the scheduler of a server, which fires when a test says so.
func firing(to **schedule.Scheduler) func(*server.Config) {
	return func(c *server.Config) {
		*to = schedule.New(schedule.Config{
			Store: c.Store, Connectors: c.Connectors, Zones: recur.NewZones(""), Namespace: c.Namespace,
			NewID: func() job.ID { return job.ID(uuid.Must(uuid.NewV7())) },
		})
		c.Scheduler = *to
	}
}

// firesAfter lets time pass, and everything fire that is due then.
func (f *fixture) firesAfter(s *schedule.Scheduler, d time.Duration) {
	f.tb.Helper()
	f.clock.advance(d)
	for more := true; more; {
		var err error
		_, more, err = s.Once(f.tb.Context())
		f.must(err)
	}
}

// openJob is the one job of a schedule that has not ended.
func (f *fixture) openJob(id string) job.Snapshot {
	f.tb.Helper()
	page, err := f.store.List(f.tb.Context(), store.JobQuery{Project: server.DefaultProject, Schedule: f.id(id), Limit: store.MaxBatch})
	f.must(err)
	var open []job.Snapshot
	for _, j := range page.Jobs {
		if !j.State.Terminal() {
			open = append(open, j)
		}
	}
	if len(open) != 1 {
		f.tb.Fatalf("%d open jobs of the schedule, want 1", len(open))
	}
	return f.snapshot(open[0].ID.String())
}

func (f *fixture) getSchedule(c client, id string) *fireoncev1.GetScheduleResponse {
	f.tb.Helper()
	res, err := ask[fireoncev1.GetScheduleResponse](f.tb, c, schedsPath+"GetSchedule", &fireoncev1.GetScheduleRequest{
		Schedule: &fireoncev1.GetScheduleRequest_ScheduleId{ScheduleId: id},
	})
	f.must(err)
	return res
}

func (f *fixture) updateSchedule(c client, of *fireoncev1.Schedule, edit func(*updateScheduleRequest), paths ...string) (*fireoncev1.UpdateScheduleResponse, error) {
	r := &updateScheduleRequest{
		Schedule: &fireoncev1.UpdateScheduleRequest_ScheduleId{ScheduleId: of.GetScheduleId()}, Etag: of.GetEtag(), UpdateMask: mask(paths...),
	}
	edit(r)
	return ask[fireoncev1.UpdateScheduleResponse](f.tb, c, schedsPath+"UpdateSchedule", r)
}

func (f *fixture) pauseSchedule(c client, id, etag, note string) (*fireoncev1.Schedule, error) {
	res, err := ask[fireoncev1.PauseScheduleResponse](f.tb, c, schedsPath+"PauseSchedule", &fireoncev1.PauseScheduleRequest{
		Schedule: &fireoncev1.PauseScheduleRequest_ScheduleId{ScheduleId: id}, Etag: etag, Note: note,
	})
	return res.GetSchedule(), err
}

func (f *fixture) resumeSchedule(c client, id, etag, note string) (*fireoncev1.Schedule, error) {
	res, err := ask[fireoncev1.ResumeScheduleResponse](f.tb, c, schedsPath+"ResumeSchedule", &fireoncev1.ResumeScheduleRequest{
		Schedule: &fireoncev1.ResumeScheduleRequest_ScheduleId{ScheduleId: id}, Etag: etag, Note: note,
	})
	return res.GetSchedule(), err
}

func (f *fixture) deleteSchedule(c client, id, etag string) (*fireoncev1.Schedule, error) {
	res, err := ask[fireoncev1.DeleteScheduleResponse](f.tb, c, schedsPath+"DeleteSchedule", &fireoncev1.DeleteScheduleRequest{
		Schedule: &fireoncev1.DeleteScheduleRequest_ScheduleId{ScheduleId: id}, Etag: etag,
	})
	return res.GetSchedule(), err
}

func (f *fixture) listFirings(c client, id string, outcomes ...fireoncev1.FiringOutcome) []*fireoncev1.Firing {
	f.tb.Helper()
	res, err := ask[fireoncev1.ListFiringsResponse](f.tb, c, schedsPath+"ListFirings", &fireoncev1.ListFiringsRequest{
		Schedule: &fireoncev1.ListFiringsRequest_ScheduleId{ScheduleId: id}, Outcomes: outcomes,
	})
	f.must(err)
	return res.GetFirings()
}

func (f *fixture) trigger(c client, id, key string, allowOverlap bool) (*fireoncev1.TriggerScheduleResponse, error) {
	return ask[fireoncev1.TriggerScheduleResponse](f.tb, c, schedsPath+"TriggerSchedule", &fireoncev1.TriggerScheduleRequest{
		Schedule: &fireoncev1.TriggerScheduleRequest_ScheduleId{ScheduleId: id}, TriggerKey: key, AllowOverlap: allowOverlap,
	})
}

// every is a spec of an interval.
func every(d time.Duration) *fireoncev1.ScheduleSpec {
	return &fireoncev1.ScheduleSpec{TimeZone: "UTC", Intervals: []*fireoncev1.ScheduleInterval{{Every: durationpb.New(d)}}}
}

func namesOf[T interface{ GetName() string }](list []T) []string {
	out := make([]string, len(list))
	for i, one := range list {
		out[i] = one.GetName()
	}
	return out
}

// letter is a payload that the stub does not send.
func letter() *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{Sender: "a@example.org", To: []string{"b@example.org"}}}}
}

func (f *fixture) skipFiring(c client, id, name string, undo bool) (*fireoncev1.SkipFiringResponse, error) {
	return ask[fireoncev1.SkipFiringResponse](f.tb, c, schedsPath+"SkipFiring", &fireoncev1.SkipFiringRequest{
		Schedule: &fireoncev1.SkipFiringRequest_ScheduleId{ScheduleId: id}, Name: name, Undo: undo,
	})
}

func (f *fixture) backfill(c client, id string, from, until time.Time, edit ...func(*fireoncev1.BackfillScheduleRequest)) (*fireoncev1.BackfillScheduleResponse, error) {
	r := &fireoncev1.BackfillScheduleRequest{
		Schedule:  &fireoncev1.BackfillScheduleRequest_ScheduleId{ScheduleId: id},
		StartTime: timestamppb.New(from), EndTime: timestamppb.New(until),
	}
	for _, e := range edit {
		e(r)
	}
	return ask[fireoncev1.BackfillScheduleResponse](f.tb, c, schedsPath+"BackfillSchedule", r)
}
