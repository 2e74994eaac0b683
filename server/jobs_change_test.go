package server_test

import (
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

func (f *fixture) cancel(req *fireoncev1.CancelJobRequest) (*fireoncev1.CancelJobResponse, error) {
	var res fireoncev1.CancelJobResponse
	err := overConnect(f).call(f.tb.Context(), jobsPath+"CancelJob", req, &res)
	return &res, err
}

func (f *fixture) resolve(req *fireoncev1.ResolveJobRequest) (*fireoncev1.Job, error) {
	var res fireoncev1.ResolveJobResponse
	err := overConnect(f).call(f.tb.Context(), jobsPath+"ResolveJob", req, &res)
	return res.GetJob(), err
}

// TestCancelByState: prevented is true only when not a byte has left.
func TestCancelByState(t *testing.T) {
	for name, tt := range map[string]struct {
		bring     func(*fixture)
		state     job.State
		prevented bool
	}{
		"scheduled": {func(*fixture) {}, job.Canceled, true},
		"claimed":   {func(f *fixture) { f.claim() }, job.Canceled, true},
		"sending":   {func(f *fixture) { f.arm() }, job.Sending, false},
		"retrying, unsent": {func(f *fixture) {
			f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultNotSent, Kind: job.FailTransient})
		}, job.Canceled, true},
		"retrying, rejected": {func(f *fixture) {
			f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailTransient, HTTPStatus: 409})
		}, job.Canceled, false},
		"ambiguous": {func(f *fixture) {
			f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
		}, job.Ambiguous, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			j := f.schedule(f.request("k"))
			tt.bring(f)
			for range 2 { // a repeat, with an etag that is old by now, is OK
				res, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}, Reason: "changed my mind"})
				if err != nil || res.GetJob().GetState() != fireoncev1.JobState(tt.state) || res.GetPrevented() != tt.prevented {
					t.Errorf("state %s, prevented %t, %v; want %s, %t", res.GetJob().GetState(), res.GetPrevented(), err, tt.state, tt.prevented)
				}
			}
			events := f.history(j.GetJobId())
			last := events[len(events)-1]
			if last.Cause != job.CauseCancelRequested || last.Actor != "api" || last.Reason != "changed my mind" {
				t.Errorf("last event %+v", last)
			}
		})
	}
}

func TestEtags(t *testing.T) {
	f := start(t)
	j := f.schedule(f.request("k"))
	f.claim()
	old := &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}, Etag: j.GetEtag()}
	_, err := f.cancel(old)
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
	_, err = f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}, Etag: "no etag of ours"})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
	if got := f.snapshot(j.GetJobId()).State; got != job.Claimed {
		t.Fatalf("state %s after refused cancels", got)
	}
	if _, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.cancel(old); err != nil {
		t.Errorf("a repeat whose result is in place: %v", err)
	}
}

func TestCancelAfterTheEnd(t *testing.T) {
	f := start(t)
	j := f.schedule(f.request("k"))
	f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"})
	_, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}})
	e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE)
	if c := e.detail.GetStateConflict(); c.GetCurrentState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || len(c.GetAllowedStates()) == 0 {
		t.Errorf("state conflict %v", c)
	}
	_, err = f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}, Etag: j.GetEtag()})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
}

func TestResolve(t *testing.T) {
	for decision, want := range map[fireoncev1.Resolution_Decision]fireoncev1.JobState{
		fireoncev1.Resolution_DECISION_SENT:     fireoncev1.JobState_JOB_STATE_SUCCEEDED,
		fireoncev1.Resolution_DECISION_NOT_SENT: fireoncev1.JobState_JOB_STATE_FAILED,
		fireoncev1.Resolution_DECISION_RESEND:   fireoncev1.JobState_JOB_STATE_RETRYING,
		fireoncev1.Resolution_DECISION_CANCEL:   fireoncev1.JobState_JOB_STATE_CANCELED,
	} {
		t.Run(decision.String(), func(t *testing.T) {
			f := start(t)
			j := f.schedule(f.request("k"))
			req := &fireoncev1.ResolveJobRequest{Job: &fireoncev1.ResolveJobRequest_JobId{JobId: j.GetJobId()}, Etag: j.GetEtag(), Decision: decision, Note: "I looked"}
			_, err := f.resolve(req)
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE)
			f.needResolution()
			_, err = f.resolve(req)
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
			req.Etag = e.detail.GetMetadata()["etag"]
			got, err := f.resolve(req)
			if err != nil || got.GetState() != want || got.GetResolution().GetNote() != "I looked" || got.GetResolution().GetDecision() != decision {
				t.Errorf("job %v, %v; want %s", got, err, want)
			}
			again, err := f.resolve(req)
			if err != nil || again.GetSequence() != got.GetSequence() {
				t.Errorf("the repeat: sequence %d, %v; want %d", again.GetSequence(), err, got.GetSequence())
			}
		})
	}
}

func TestResolveWhileLooking(t *testing.T) {
	f := start(t)
	j := f.schedule(f.request("k"))
	f.learn(f.arm().ID, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous})
	var now fireoncev1.GetJobResponse
	f.must(overConnect(f).call(t.Context(), jobsPath+"GetJob", &fireoncev1.GetJobRequest{
		Job: &fireoncev1.GetJobRequest_JobId{JobId: j.GetJobId()},
	}, &now))
	req := &fireoncev1.ResolveJobRequest{
		Job: &fireoncev1.ResolveJobRequest_JobId{JobId: j.GetJobId()}, Etag: now.GetJob().GetEtag(), Decision: fireoncev1.Resolution_DECISION_RESEND, Note: "now",
	}
	_, err := f.resolve(req)
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_STATE)
	req.OverrideReconciler = true
	_, err = f.resolve(req)
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_RESEND_TOO_EARLY)
	f.clock.advance(2 * time.Minute)
	if got, err := f.resolve(req); err != nil || got.GetResendCount() != 1 {
		t.Errorf("job %v, %v; want round 2", got, err)
	}
}

// TestCancelAgainstClaims cancels while workers claim: the loop decides again.
func TestCancelAgainstClaims(t *testing.T) {
	f := start(t)
	const jobs = 20
	var wg sync.WaitGroup
	for i := range jobs {
		j := f.schedule(f.request(string(rune('a' + i))))
		wg.Go(func() { f.claimAny() })
		wg.Go(func() {
			if _, err := f.cancel(&fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}}); err != nil {
				t.Errorf("cancel: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestCancelAfterARestore: a quarantined database, and a job that needed a person, may have lost an
// attempt. So a cancel does not claim that nothing was sent.
func TestCancelAfterARestore(t *testing.T) {
	t.Parallel()
	of := func(j *fireoncev1.Job) *fireoncev1.CancelJobRequest {
		return &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()}}
	}
	f := start(t)
	j := f.schedule(f.request("k"))
	f.learn(f.id(j.GetJobId()), job.Restored{Since: f.clock.Now()})
	f.learn(f.id(j.GetJobId()), job.Resolved{Ruling: job.RuleCancel, Actor: "ann", Note: "why"})
	if res, err := f.cancel(of(j)); err != nil || res.GetJob().GetState() != fireoncev1.JobState_JOB_STATE_CANCELED || res.GetPrevented() {
		t.Errorf("after a ruling: %v, %v", res, err)
	}
	q := start(t)
	j = q.schedule(q.request("k"))
	q.must(q.store.Quarantine(t.Context(), "restored"))
	q.clock.advance(2 * time.Second) // what the server knows of the database is a second old
	if res, err := q.cancel(of(j)); err != nil || res.GetJob().GetState() != fireoncev1.JobState_JOB_STATE_CANCELED || res.GetPrevented() {
		t.Errorf("under a quarantine: %v, %v", res, err)
	}
}
