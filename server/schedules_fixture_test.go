package server_test

import (
	"context"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

type (
	createScheduleRequest = schedulesv1.CreateScheduleRequest
	updateScheduleRequest = schedulesv1.UpdateScheduleRequest
)

// everyHour fires at each full hour. The fixture's clock begins at 14:00 in Vienna.
func everyHour() *schedulesv1.ScheduleSpec {
	return &schedulesv1.ScheduleSpec{TimeZone: "Europe/Vienna", CronExpressions: []string{"0 * * * *"}}
}

// daily fires once a day, in summer at 7:30 UTC.
func daily() *schedulesv1.ScheduleSpec {
	return &schedulesv1.ScheduleSpec{TimeZone: "Europe/Vienna", CronExpressions: []string{"30 9 * * *"}}
}

func templateOn(conn string) *schedulesv1.JobTemplate {
	return &schedulesv1.JobTemplate{
		Connection: &schedulesv1.JobTemplate_ConnectionId{ConnectionId: conn},
		Content:    contentOf(custom("good/v1", "run {{run}} of {{nominal_time}}")),
	}
}

func contentOf(p *fireoncev1.Payload) *schedulesv1.JobTemplate_Payload {
	return &schedulesv1.JobTemplate_Payload{Payload: p}
}

func anySchedule() *schedulesv1.ScheduleFilter {
	return &schedulesv1.ScheduleFilter{States: []schedulesv1.ScheduleState{
		schedulesv1.ScheduleState_SCHEDULE_STATE_ACTIVE, schedulesv1.ScheduleState_SCHEDULE_STATE_PAUSED,
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
func (f *fixture) recurring(ctx context.Context, c client, r *createScheduleRequest) *schedulesv1.Schedule {
	f.tb.Helper()
	res, err := askWith[schedulesv1.CreateScheduleResponse](ctx, c, schedsPath+"CreateSchedule", r)
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

func (f *fixture) getSchedule(c client, id string) *schedulesv1.GetScheduleResponse {
	f.tb.Helper()
	res, err := ask[schedulesv1.GetScheduleResponse](f.tb, c, schedsPath+"GetSchedule", &schedulesv1.GetScheduleRequest{
		Schedule: &schedulesv1.GetScheduleRequest_ScheduleId{ScheduleId: id},
	})
	f.must(err)
	return res
}

func (f *fixture) updateSchedule(c client, of *schedulesv1.Schedule, edit func(*updateScheduleRequest), paths ...string) (*schedulesv1.UpdateScheduleResponse, error) {
	r := &updateScheduleRequest{
		Schedule: &schedulesv1.UpdateScheduleRequest_ScheduleId{ScheduleId: of.GetScheduleId()}, Etag: of.GetEtag(), UpdateMask: mask(paths...),
	}
	edit(r)
	return ask[schedulesv1.UpdateScheduleResponse](f.tb, c, schedsPath+"UpdateSchedule", r)
}

func (f *fixture) pauseSchedule(c client, id, etag, note string) (*schedulesv1.Schedule, error) {
	res, err := ask[schedulesv1.PauseScheduleResponse](f.tb, c, schedsPath+"PauseSchedule", &schedulesv1.PauseScheduleRequest{
		Schedule: &schedulesv1.PauseScheduleRequest_ScheduleId{ScheduleId: id}, Etag: etag, Note: note,
	})
	return res.GetSchedule(), err
}

func (f *fixture) resumeSchedule(c client, id, etag, note string) (*schedulesv1.Schedule, error) {
	res, err := ask[schedulesv1.ResumeScheduleResponse](f.tb, c, schedsPath+"ResumeSchedule", &schedulesv1.ResumeScheduleRequest{
		Schedule: &schedulesv1.ResumeScheduleRequest_ScheduleId{ScheduleId: id}, Etag: etag, Note: note,
	})
	return res.GetSchedule(), err
}

func (f *fixture) deleteSchedule(c client, id, etag string) (*schedulesv1.Schedule, error) {
	res, err := ask[schedulesv1.DeleteScheduleResponse](f.tb, c, schedsPath+"DeleteSchedule", &schedulesv1.DeleteScheduleRequest{
		Schedule: &schedulesv1.DeleteScheduleRequest_ScheduleId{ScheduleId: id}, Etag: etag,
	})
	return res.GetSchedule(), err
}

func (f *fixture) listFirings(c client, id string, outcomes ...fireoncev1.FiringOutcome) []*fireoncev1.Firing {
	f.tb.Helper()
	res, err := ask[schedulesv1.ListFiringsResponse](f.tb, c, schedsPath+"ListFirings", &schedulesv1.ListFiringsRequest{
		Schedule: &schedulesv1.ListFiringsRequest_ScheduleId{ScheduleId: id}, Outcomes: outcomes,
	})
	f.must(err)
	return res.GetFirings()
}

func (f *fixture) trigger(c client, id, key string, allowOverlap bool) (*schedulesv1.TriggerScheduleResponse, error) {
	return ask[schedulesv1.TriggerScheduleResponse](f.tb, c, schedsPath+"TriggerSchedule", &schedulesv1.TriggerScheduleRequest{
		Schedule: &schedulesv1.TriggerScheduleRequest_ScheduleId{ScheduleId: id}, TriggerKey: key, AllowOverlap: allowOverlap,
	})
}

// every is a spec of an interval.
func every(d time.Duration) *schedulesv1.ScheduleSpec {
	return &schedulesv1.ScheduleSpec{TimeZone: "UTC", Intervals: []*schedulesv1.ScheduleInterval{{Every: durationpb.New(d)}}}
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

func (f *fixture) skipFiring(c client, id, name string, undo bool) (*schedulesv1.SkipFiringResponse, error) {
	return ask[schedulesv1.SkipFiringResponse](f.tb, c, schedsPath+"SkipFiring", &schedulesv1.SkipFiringRequest{
		Schedule: &schedulesv1.SkipFiringRequest_ScheduleId{ScheduleId: id}, Name: name, Undo: undo,
	})
}

func (f *fixture) backfill(c client, id string, from, until time.Time, edit ...func(*schedulesv1.BackfillScheduleRequest)) (*schedulesv1.BackfillScheduleResponse, error) {
	r := &schedulesv1.BackfillScheduleRequest{
		Schedule:  &schedulesv1.BackfillScheduleRequest_ScheduleId{ScheduleId: id},
		StartTime: timestamppb.New(from), EndTime: timestamppb.New(until),
	}
	for _, e := range edit {
		e(r)
	}
	return ask[schedulesv1.BackfillScheduleResponse](f.tb, c, schedsPath+"BackfillSchedule", r)
}
