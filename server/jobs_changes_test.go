package server_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

func newPayload(p *fireoncev1.Payload) func(*fireoncev1.UpdateJobRequest) {
	return func(r *fireoncev1.UpdateJobRequest) { r.Payload, r.UpdateMask = p, mask("payload") }
}

func (f *fixture) update(c client, j *fireoncev1.Job, edit ...func(*fireoncev1.UpdateJobRequest)) (*fireoncev1.Job, error) {
	req := &fireoncev1.UpdateJobRequest{Job: &fireoncev1.UpdateJobRequest_JobId{JobId: j.GetJobId()}, Etag: j.GetEtag()}
	for _, e := range edit {
		e(req)
	}
	res, err := ask[fireoncev1.UpdateJobResponse](f.tb, c, jobsPath+"UpdateJob", req)
	return res.GetJob(), err
}

func (f *fixture) reschedule(c client, req *fireoncev1.RescheduleJobRequest) (*fireoncev1.Job, error) {
	res, err := ask[fireoncev1.RescheduleJobResponse](f.tb, c, jobsPath+"RescheduleJob", req)
	return res.GetJob(), err
}

func (f *fixture) runNow(c client, req *fireoncev1.RunJobNowRequest) (*fireoncev1.Job, error) {
	res, err := ask[fireoncev1.RunJobNowResponse](f.tb, c, jobsPath+"RunJobNow", req)
	return res.GetJob(), err
}

func (f *fixture) retry(c client, req *fireoncev1.RetryJobRequest) (*fireoncev1.Job, error) {
	res, err := ask[fireoncev1.RetryJobResponse](f.tb, c, jobsPath+"RetryJob", req)
	return res.GetJob(), err
}

// read reads a job over the API.
func (f *fixture) read(c client, id string) *fireoncev1.Job {
	f.tb.Helper()
	res, err := ask[fireoncev1.GetJobResponse](f.tb, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
	f.must(err)
	return res.GetJob()
}

// lastEvent is the newest event of a job.
func (f *fixture) lastEvent(id string) job.Event {
	f.tb.Helper()
	events := f.history(id)
	return events[len(events)-1]
}

// TestEveryReasonOfAWish provokes each reason of the calls that change one job,
// in every protocol, and makes sure that nothing was written.
func TestEveryReasonOfAWish(t *testing.T) {
	const (
		notFound = fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND
		state    = fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE
		stale    = fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH
		past     = fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST
		far      = fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR
		unfit    = fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID
		header   = fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED
		large    = fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE
	)
	overEach(t, func(t *testing.T, f *fixture, c client) {
		failedID := f.schedule(f.request("failed")).GetJobId()
		f.fail()
		failed := f.read(c, failedID)
		waits := f.schedule(f.request("waits", at(f.clock.Now().Add(time.Hour))))
		soon := timestamppb.New(f.clock.Now().Add(2 * time.Hour))
		update := func(j *fireoncev1.Job, etag string, p *fireoncev1.Payload) proto.Message {
			return &fireoncev1.UpdateJobRequest{Job: &fireoncev1.UpdateJobRequest_JobId{JobId: j.GetJobId()}, Etag: etag, UpdateMask: mask("payload"), Payload: p}
		}
		move := func(id, etag string, t *timestamppb.Timestamp) proto.Message {
			return &fireoncev1.RescheduleJobRequest{Job: &fireoncev1.RescheduleJobRequest_JobId{JobId: id}, Etag: etag, ScheduleTime: t}
		}
		again := func(id, etag string, t *timestamppb.Timestamp) proto.Message {
			return &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: id}, Etag: etag, NextAttemptTime: t}
		}
		good := custom("good/v1", "new")
		before, end := f.stored()
		for i, tt := range []struct {
			procedure string
			req       proto.Message
			want      fireoncev1.ErrorReason
		}{
			{"UpdateJob", update(&fireoncev1.Job{JobId: absent}, "v1", good), notFound},
			{"UpdateJob", update(failed, failed.GetEtag(), good), state},
			{"UpdateJob", update(waits, "v0", good), stale},
			{"UpdateJob", update(failed, "v0", good), stale}, // it was judged by another state
			{"UpdateJob", update(waits, waits.GetEtag(), custom("bad/v1", "")), unfit},
			{"UpdateJob", update(waits, waits.GetEtag(), custom("header/v1", "")), header},
			{"UpdateJob", update(waits, waits.GetEtag(), custom("good/v1", strings.Repeat("x", 256<<10))), large},
			{"UpdateJob", update(waits, waits.GetEtag(), &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{
				Email: &fireoncev1.Email{Sender: "a@example.org", To: []string{"b@example.org"}},
			}}), unfit}, // of another kind
			{"RescheduleJob", move(absent, "", soon), notFound},
			{"RescheduleJob", move(failedID, "", soon), state},
			{"RescheduleJob", move(waits.GetJobId(), "v0", soon), stale},
			{"RescheduleJob", move(waits.GetJobId(), "", timestamppb.New(time.Unix(1, 0))), past},
			{"RescheduleJob", move(waits.GetJobId(), "", timestamppb.New(time.Unix(1<<33, 0))), far},
			{"RunJobNow", &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: absent}}, notFound},
			{"RunJobNow", &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: waits.GetJobId()}, Etag: "v0"}, stale},
			{"RetryJob", again(absent, "v1", nil), notFound},
			{"RetryJob", again(waits.GetJobId(), waits.GetEtag(), nil), state},
			{"RetryJob", again(failedID, "v0", nil), stale},
			{"RetryJob", again(failedID, failed.GetEtag(), timestamppb.New(time.Unix(1, 0))), past},
			{"RetryJob", again(failedID, failed.GetEtag(), timestamppb.New(time.Unix(1<<33, 0))), far},
		} {
			e := wantReason(t, c.call(t.Context(), jobsPath+tt.procedure, tt.req, answerOf(tt.procedure)), tt.want)
			if tt.want == state && (e.detail.GetStateConflict().GetCurrentState() == 0 || len(e.detail.GetStateConflict().GetAllowedStates()) == 0) {
				t.Errorf("case %d, %s: state conflict %v", i, tt.procedure, e.detail)
			}
			if tt.want == past || tt.want == far {
				field := map[string]string{"RescheduleJob": "schedule_time", "RetryJob": "next_attempt_time"}[tt.procedure]
				if v := e.detail.GetViolations(); len(v) != 1 || v[0].GetField() != field {
					t.Errorf("case %d, %s: violations %v", i, tt.procedure, v)
				}
			}
		}
		of := &fireoncev1.UpdateJobRequest_JobId{JobId: failedID}
		for _, req := range []*fireoncev1.UpdateJobRequest{
			{Etag: "v1", UpdateMask: mask("labels")}, {Job: of, UpdateMask: mask("labels")},
			{Job: of, Etag: "v1"}, {Job: of, Etag: "v1", UpdateMask: mask("payload")},
			{Job: of, Etag: "v1", UpdateMask: mask("labels"), Labels: map[string]string{"BAD": ""}},
		} {
			err := c.call(t.Context(), jobsPath+"UpdateJob", req, &fireoncev1.UpdateJobResponse{})
			if e := new(wireError); !asWire(err, &e) || e.code != connect.CodeInvalidArgument {
				t.Errorf("%v: %v", req, err)
			}
		}
		if n, e := f.stored(); n != before || e != end {
			t.Errorf("refused calls wrote something: %d and %d, before %d and %d", n, e, before, end)
		}
	})
}

// answerOf makes an empty answer of a procedure.
func answerOf(procedure string) proto.Message {
	return map[string]proto.Message{
		"UpdateJob": &fireoncev1.UpdateJobResponse{}, "RescheduleJob": &fireoncev1.RescheduleJobResponse{},
		"RunJobNow": &fireoncev1.RunJobNowResponse{}, "RetryJob": &fireoncev1.RetryJobResponse{},
		"BulkCancelJobs": &adminv1.BulkCancelJobsResponse{}, "BulkRetryJobs": &adminv1.BulkRetryJobsResponse{},
		"BulkResolveJobs": &adminv1.BulkResolveJobsResponse{}, "GetJob": &fireoncev1.GetJobResponse{},
		"ListJobAttempts": &fireoncev1.ListJobAttemptsResponse{}, "ResolveJob": &fireoncev1.ResolveJobResponse{},
		"CancelJob": &fireoncev1.CancelJobResponse{}, "ListJobs": &fireoncev1.ListJobsResponse{},
		"ListJobEvents": &fireoncev1.ListJobEventsResponse{}, "GetStats": &adminv1.GetStatsResponse{},
	}[procedure]
}

func TestUpdate(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		request := f.request("k", at(f.clock.Now().Add(time.Hour)), func(r *scheduleRequest) { r.Labels = map[string]string{"a": "1"} })
		j := f.schedule(request)
		got, err := f.update(c, j, newPayload(custom("elsewhere/v1", "new words")))
		if err != nil || string(got.GetPayload().GetCustom().GetData()) != "new words" || got.GetLabels()["a"] != "1" ||
			got.GetSequence() != 2 || got.GetEtag() == j.GetEtag() || !proto.Equal(got.GetScheduleTime(), j.GetScheduleTime()) {
			t.Fatalf("updated job %v, %v", got, err)
		}
		snap := f.snapshot(j.GetJobId())
		if snap.HoldKey != "hold of elsewhere/v1" || !strings.Contains(string(snap.Payload), "new words") {
			t.Errorf("stored with hold key %q and payload %q", snap.HoldKey, snap.Payload)
		}
		if e := f.lastEvent(j.GetJobId()); e.Cause != job.CauseUpdated || e.Actor != "api" || e.From != e.To {
			t.Errorf("event %+v", e)
		}
		// The repeat has an etag that is old by now, and what it asks is in place.
		if again, err := f.update(c, j, newPayload(custom("elsewhere/v1", "new words"))); err != nil || again.GetSequence() != 2 {
			t.Errorf("the repeat: %v, %v", again, err)
		}
		_, err = f.update(c, j, newPayload(custom("elsewhere/v1", "newer words")))
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
		relabelled, err := f.update(c, got, func(r *fireoncev1.UpdateJobRequest) { r.UpdateMask = mask("labels") })
		if err != nil || len(relabelled.GetLabels()) != 0 || string(relabelled.GetPayload().GetCustom().GetData()) != "new words" ||
			!proto.Equal(f.read(c, j.GetJobId()), relabelled) {
			t.Errorf("without labels: %v, %v", relabelled, err)
		}
		// The key is bound to the request that made the job, not to its content.
		if same := f.schedule(request); same.GetJobId() != j.GetJobId() || string(same.GetPayload().GetCustom().GetData()) != "new words" {
			t.Errorf("the first request again: %v", same)
		}
		request.Payload = custom("elsewhere/v1", "new words")
		wantReason(t, c.call(t.Context(), scheduleJob, request, &fireoncev1.ScheduleJobResponse{}),
			fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
	})
}

func TestReschedule(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("k", at(f.clock.Now().Add(time.Hour))))
		later := f.clock.Now().Add(3 * time.Hour)
		move := &fireoncev1.RescheduleJobRequest{
			Job: &fireoncev1.RescheduleJobRequest_JobId{JobId: j.GetJobId()}, Etag: j.GetEtag(), StartWindow: durationpb.New(time.Minute),
			ScheduleTime: timestamppb.New(later.Add(999 * time.Nanosecond)),
		}
		got, err := f.reschedule(c, move)
		if err != nil || !got.GetScheduleTime().AsTime().Equal(later) || !got.GetNextAttemptTime().AsTime().Equal(later) ||
			got.GetStartWindow().AsDuration() != time.Minute || !got.GetStartDeadline().AsTime().Equal(later.Add(time.Minute)) {
			t.Fatalf("moved job %v, %v", got, err)
		}
		if e := f.lastEvent(j.GetJobId()); e.Cause != job.CauseRescheduled {
			t.Errorf("event %+v", e)
		}
		if !proto.Equal(f.read(c, j.GetJobId()), got) {
			t.Errorf("stored %v, answered %v", f.read(c, j.GetJobId()), got)
		}
		for range 2 { // in place: the etag is old, and at last the time too
			if again, err := f.reschedule(c, move); err != nil || again.GetSequence() != got.GetSequence() {
				t.Errorf("the repeat: %v, %v", again, err)
			}
			f.clock.advance(3*time.Hour + 30*time.Second)
		}
		move.Etag, move.ScheduleTime, move.StartWindow = "", timestamppb.New(f.clock.Now().Add(-time.Minute)), nil
		now, err := f.reschedule(c, move)
		if err != nil || !now.GetScheduleTime().AsTime().Equal(f.clock.Now()) || now.GetStartWindow().AsDuration() != time.Minute {
			t.Errorf("a minute ago is now: %v, %v", now, err)
		}
	})
}

func TestRunNow(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("k", at(f.clock.Now().Add(time.Hour))))
		req := &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: j.GetJobId()}, Etag: j.GetEtag()}
		got, err := f.runNow(c, req)
		if err != nil || !proto.Equal(got.GetScheduleTime(), j.GetScheduleTime()) || got.GetNextAttemptTime().AsTime().After(f.clock.Now()) {
			t.Fatalf("job %v, %v", got, err)
		}
		if e := f.lastEvent(j.GetJobId()); e.Cause != job.CauseRunNow {
			t.Errorf("event %+v", e)
		}
		if again, err := f.runNow(c, req); err != nil || again.GetSequence() != got.GetSequence() {
			t.Errorf("the repeat: %v, %v", again, err)
		}
		f.fail()
		if done, err := f.runNow(c, req); err != nil || done.GetState() != fireoncev1.JobState_JOB_STATE_FAILED {
			t.Errorf("after the end: %v, %v", done, err)
		}
	})
}

func TestRetry(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("k"))
		f.fail()
		failed := f.read(c, j.GetJobId())
		when := f.clock.Now().Add(time.Hour)
		req := &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: j.GetJobId()}, Etag: failed.GetEtag(), NextAttemptTime: timestamppb.New(when)}
		got, err := f.retry(c, req)
		if err != nil || got.GetState() != fireoncev1.JobState_JOB_STATE_RETRYING || got.GetFailureCount() != 0 || got.GetAttemptCount() != 1 ||
			!got.GetNextAttemptTime().AsTime().Equal(when) || !proto.Equal(got.GetScheduleTime(), j.GetScheduleTime()) ||
			!got.GetStartDeadline().AsTime().Equal(when.Add(2*time.Hour)) {
			t.Fatalf("job %v, %v", got, err)
		}
		if e := f.lastEvent(j.GetJobId()); e.Cause != job.CauseRetryRequested || e.Actor != "api" {
			t.Errorf("event %+v", e)
		}
		_, err = f.retry(c, req) // harmless: it names the job as it was
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
	})
}

// TestUpdateWithoutConnection: content that cannot be checked is not changed.
func TestUpdateWithoutConnection(t *testing.T) {
	f := start(t)
	id := job.ID{7, 15: 7}
	_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{
		Key: "gone", Connection: store.Connection{ID: id, Project: server.DefaultProject, Connector: "gone", Class: job.Opaque},
	})
	f.must(err)
	created, err := f.store.Create(t.Context(), []store.NewJob{{Class: job.Opaque, Spec: job.Spec{
		ID: job.ID{6, 15: 6}, Project: server.DefaultProject, Key: "k", Connection: id, HoldKey: "h",
		PayloadKind: "custom", Payload: []byte("2\x10\n\agood/v1\x1a\x05hello"), Delivery: job.OnceOrAsk,
	}}})
	f.must(err)
	f.must(created[0].Err)
	j := f.read(overConnect(f), created[0].Snapshot.ID.String())
	_, err = f.update(overConnect(f), j, newPayload(custom("good/v1", "new")))
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED)
	if _, err := f.update(overConnect(f), j, newPayload(custom("good/v1", "hello"))); err != nil {
		t.Errorf("what is in place already: %v", err)
	}
	got, err := f.update(overConnect(f), j, func(r *fireoncev1.UpdateJobRequest) {
		r.UpdateMask, r.Labels = mask("labels"), map[string]string{"a": "b"}
	})
	if err != nil || got.GetLabels()["a"] != "b" {
		t.Errorf("labels alone: %v, %v", got, err)
	}
}
