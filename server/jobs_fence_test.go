package server_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// TestResendWaitsForTheFence: a RESEND that comes too early has a reason of its own and
// says when to come again, and the job has the time at which it is allowed.
func TestResendWaitsForTheFence(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, f *fixture, c client) {
		f.schedule(f.request("k"))
		j := f.arm()
		f.learn(j.ID, job.Outcome{Attempt: j.Attempt, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: "reset"})
		got := f.read(c, j.ID.String())
		allowed := got.GetResendAllowedTime().AsTime()
		if want := f.snapshot(j.ID.String()).Fence; got.GetResendAllowedTime() == nil || !allowed.Equal(want) || !allowed.After(f.clock.Now()) {
			t.Fatalf("resend_allowed_time is %v, the fence %v, now %v", allowed, want, f.clock.Now())
		}
		list := &fireoncev1.ListJobsResponse{}
		f.must(c.call(t.Context(), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{}, list))
		if listed := list.GetJobs()[0].GetResendAllowedTime(); listed == nil || !listed.AsTime().Equal(allowed) {
			t.Errorf("in a list: %v, want %v", listed, allowed)
		}
		resend := &fireoncev1.ResolveJobRequest{
			Job: &fireoncev1.ResolveJobRequest_JobId{JobId: j.ID.String()}, Etag: got.GetEtag(),
			Decision: fireoncev1.Resolution_DECISION_RESEND, Note: "I looked", OverrideReconciler: true,
		}
		err := c.call(t.Context(), jobsPath+"ResolveJob", resend, &fireoncev1.ResolveJobResponse{})
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_RESEND_TOO_EARLY)
		if wait := retryOf(e); wait < allowed.Sub(f.clock.Now()) || wait > allowed.Sub(f.clock.Now())+time.Second {
			t.Errorf("RetryInfo says %v, the fence passes in %v", wait, allowed.Sub(f.clock.Now()))
		}
		if e.detail.GetStateConflict() != nil {
			t.Errorf("the state is not what is in the way: %v", e.detail)
		}
		f.clock.advance(retryOf(e))
		f.must(c.call(t.Context(), jobsPath+"ResolveJob", resend, &fireoncev1.ResolveJobResponse{}))
		if after := f.read(c, j.ID.String()); after.GetResendAllowedTime() != nil {
			t.Errorf("in %v it is %v", after.GetState(), after.GetResendAllowedTime())
		}
	})
}
