package server_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

const day = 24 * time.Hour

// retain does one pass over the store.
func (f *fixture) retain(k store.Keep) {
	f.tb.Helper()
	p := store.RetainParams{Keep: k, Owner: job.ID{1}, Lease: time.Minute, Limit: 100}
	for {
		r, err := f.store.Retain(f.tb.Context(), p)
		if err != nil {
			f.tb.Fatal(err)
		}
		if p.After = r.Next; r.Done {
			return
		}
	}
}

// TestRepeatAfterRemoval: a repeat of a request whose job was removed schedules nothing for as
// long as the key is kept, and is a new job afterwards.
func TestRepeatAfterRemoval(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		when := at(f.clock.Now().Add(time.Hour))
		first := f.schedule(f.request("k", when))
		if err := c.call(t.Context(), jobsPath+"CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: first.GetJobId()}}, &fireoncev1.CancelJobResponse{}); err != nil {
			t.Fatal(err)
		}
		keep := store.Keep{Jobs: 2 * day, Keys: job.KeyKept}
		f.clock.advance(2 * day)
		f.retain(keep)
		err := c.call(t.Context(), jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: first.GetJobId()}}, &fireoncev1.GetJobResponse{})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND)
		for name, r := range map[string]*scheduleRequest{
			"the same, whose time has passed": f.request("k", when),
			"for now":                         f.request("k"),
			"validate_only":                   f.request("k", func(r *scheduleRequest) { r.ValidateOnly = true }),
		} {
			err := c.call(t.Context(), scheduleJob, r, &fireoncev1.ScheduleJobResponse{})
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
			conflict := e.detail.GetIdempotencyConflict()
			if conflict.GetJobId() != first.GetJobId() || len(conflict.GetMismatchedFields()) > 0 {
				t.Errorf("%s: %v", name, conflict)
			}
		}
		f.clock.advance(job.KeyKept)
		f.retain(keep)
		if again := f.schedule(f.request("k")); again.GetJobId() == first.GetJobId() {
			t.Errorf("job %s again", again.GetJobId())
		}
	})
}

// TestStreamAfterRetention: an old cursor is refused, and the beginning is that of
// what is kept.
func TestStreamAfterRetention(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		old := c.open(t).first(t).GetCursor()
		first := f.schedule(f.request("old"))
		f.clock.advance(2 * day)
		f.schedule(f.request("new"))
		f.schedule(f.request("newest"))
		f.roll()
		f.retain(store.Keep{Events: day})
		_, err := c.open(t, afterCursor(old)).next()
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED)
		s := c.open(t, fromBeginning)
		s.first(t)
		got, cursor := s.changes(t, 2)
		if got[0].GetJobId() == first.GetJobId() || got[1].GetJobId() == got[0].GetJobId() {
			t.Errorf("events from the beginning: %v", got)
		}
		c.open(t, afterCursor(cursor)).first(t)
		history, _ := c.open(t, fromBeginning, onlyJobs(first.GetJobId())).changes(t, 1)
		if history[0].GetSequence() != 1 {
			t.Errorf("the old job's history begins at %d", history[0].GetSequence())
		}
	})
}
