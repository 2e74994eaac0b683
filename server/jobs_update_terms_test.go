package server_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// TestUpdateTerms: policies, the time for an attempt and the time zone of a job that no
// attempt has used, each alone.
func TestUpdateTerms(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		request := f.request("k", at(f.clock.Now().Add(time.Hour)), func(r *scheduleRequest) {
			r.RetryPolicy = &fireoncev1.RetryPolicy{MaxAttempts: 3, MinBackoff: durationpb.New(time.Second)}
			r.AttemptTimeout = durationpb.New(10 * time.Second)
		})
		j := f.schedule(request)
		update := func(etag string, req *fireoncev1.UpdateJobRequest, mask ...string) (*fireoncev1.Job, error) {
			req.Job = &fireoncev1.UpdateJobRequest_IdempotencyKey{IdempotencyKey: "k"}
			req.Etag, req.UpdateMask = etag, &fieldmaskpb.FieldMask{Paths: mask}
			res, err := ask[fireoncev1.UpdateJobResponse](t, c, jobsPath+"UpdateJob", req)
			return res.GetJob(), err
		}
		const assume = fireoncev1.Delivery_DELIVERY_AT_MOST_ONCE
		for _, tt := range []struct {
			mask string
			req  *fireoncev1.UpdateJobRequest
			edit func(*fireoncev1.Job)
		}{
			{"delivery", &fireoncev1.UpdateJobRequest{Delivery: assume}, func(j *fireoncev1.Job) { j.Delivery = assume }},
			{
				"attempt_timeout", &fireoncev1.UpdateJobRequest{AttemptTimeout: durationpb.New(time.Minute)},
				func(j *fireoncev1.Job) { j.AttemptTimeout = durationpb.New(time.Minute) },
			},
			{"time_zone", &fireoncev1.UpdateJobRequest{TimeZone: "Europe/Vienna"}, func(j *fireoncev1.Job) { j.TimeZone = "Europe/Vienna" }},
			{
				"retry_policy", &fireoncev1.UpdateJobRequest{RetryPolicy: &fireoncev1.RetryPolicy{MaxAttempts: 7}},
				func(j *fireoncev1.Job) {
					j.RetryPolicy.MaxAttempts = 7
					j.RetryPolicy.MinBackoff = f.schedule(f.request("other", at(f.clock.Now().Add(time.Hour)))).GetRetryPolicy().GetMinBackoff()
				},
			},
		} {
			got, err := update(j.GetEtag(), tt.req, tt.mask)
			f.must(err)
			want := proto.CloneOf(j)
			tt.edit(want)
			want.Etag, want.Sequence, want.UpdateTime = got.GetEtag(), j.GetSequence()+1, got.GetUpdateTime()
			if !proto.Equal(got, want) {
				t.Errorf("%s: %v, want %v", tt.mask, got, want)
			}
			if read := f.read(c, j.GetJobId()); !proto.Equal(read, got) {
				t.Errorf("%s: stored %v, answered %v", tt.mask, read, got)
			}
			// A value that is in place is no change, whatever the etag.
			if same, err := update(j.GetEtag(), tt.req, tt.mask); err != nil || !proto.Equal(same, got) {
				t.Errorf("%s again: %v, %v", tt.mask, same, err)
			}
			j = got
		}
		// The key stays bound to the request that made the job.
		if again := f.schedule(request); !proto.Equal(again, j) {
			t.Errorf("repeated: %v, want %v", again, j)
		}
		_, err := update(j.GetEtag(), &fireoncev1.UpdateJobRequest{RetryPolicy: &fireoncev1.RetryPolicy{MaxAttempts: 101}}, "retry_policy")
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
		_, err = f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}})
		f.must(err)
		_, err = update(f.read(c, j.GetJobId()).GetEtag(), &fireoncev1.UpdateJobRequest{}, "delivery")
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE)
	})
}

// TestUpdateAfterAStart: policies and labels change while a job is RETRYING; a refusal
// names the fields that cannot, and changes none of the others.
func TestUpdateAfterAStart(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("k"))
		f.learn(f.claim().ID, job.Deferred{Kind: job.FailTransient, Message: "not now"})
		update := func(req *fireoncev1.UpdateJobRequest, mask ...string) (*fireoncev1.Job, error) {
			req.Job = &fireoncev1.UpdateJobRequest_JobId{JobId: j.GetJobId()}
			req.Etag, req.UpdateMask = f.read(c, j.GetJobId()).GetEtag(), &fieldmaskpb.FieldMask{Paths: mask}
			res, err := ask[fireoncev1.UpdateJobResponse](t, c, jobsPath+"UpdateJob", req)
			return res.GetJob(), err
		}
		got, err := update(&fireoncev1.UpdateJobRequest{
			Delivery: fireoncev1.Delivery_DELIVERY_AT_MOST_ONCE, Labels: map[string]string{"a": "b"},
		}, "delivery", "labels")
		f.must(err)
		if got.GetState() != fireoncev1.JobState_JOB_STATE_RETRYING || got.GetLabels()["a"] != "b" ||
			got.GetDelivery() != fireoncev1.Delivery_DELIVERY_AT_MOST_ONCE {
			t.Errorf("after the update: %v", got)
		}
		_, err = update(&fireoncev1.UpdateJobRequest{AttemptTimeout: durationpb.New(time.Minute), TimeZone: "Asia/Tokyo"}, "attempt_timeout", "time_zone")
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE)
		if v := e.detail.GetViolations(); len(v) != 1 || v[0].GetField() != "attempt_timeout" || v[0].GetRule() != "job_state" {
			t.Errorf("violations %v", v)
		}
		if states := e.detail.GetStateConflict().GetAllowedStates(); len(states) != 1 || states[0] != fireoncev1.JobState_JOB_STATE_SCHEDULED {
			t.Errorf("allowed in %v", states)
		}
		if after := f.read(c, j.GetJobId()); !proto.Equal(after, got) {
			t.Errorf("after a refusal: %v, want %v", after, got)
		}
	})
}
