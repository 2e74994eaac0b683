package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// openBreaker opens the breaker of the fixture's connection at a job's destination.
func (f *fixture) openBreaker(holdKey string) store.Stop {
	f.tb.Helper()
	conn, err := job.ParseID(f.conn)
	f.must(err)
	b, created, err := f.store.CreateStop(f.tb.Context(), store.NewStop{Stop: store.Stop{
		ID: job.ID(uuid.Must(uuid.NewV7())), Scope: store.StopDestination, Project: "default", Connection: conn, Destination: holdKey,
		Cause: store.StoppedByBreaker, Note: "5 tries in a row failed; of the last one, it answered 503.", CreatedBy: "server-1",
	}})
	f.must(err)
	if !created {
		f.tb.Fatal("the breaker is open already")
	}
	return b
}

// TestBreakerShowsEverywhere: an open breaker hides no job. Each is shown as stopped, with why, and when
// the next probe is.
func TestBreakerShowsEverywhere(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		made := f.schedule(f.request("job", func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(f.clock.Now()) }))
		id, err := job.ParseID(made.GetJobId())
		f.must(err)
		snap, err := f.store.Job(t.Context(), store.Ref{ID: id})
		f.must(err)
		before := f.read(c, made.GetJobId())
		b := f.openBreaker(snap.HoldKey)
		f.clock.advance(5 * time.Second) // servers remember for a moment that there is no pause

		got := f.read(c, made.GetJobId())
		reason := got.GetBlockedReason()
		if reason.GetKind() != fireoncev1.BlockedReason_KIND_CIRCUIT_OPEN || reason.GetPauseId() != b.ID.String() ||
			!reason.GetEndTime().AsTime().Equal(b.ProbeAt) || !strings.Contains(reason.GetMessage(), "it answered 503") {
			t.Errorf("blocked_reason %v", reason)
		}
		// The job itself is unchanged: what a caller has read of it is still valid.
		if got.GetEtag() != before.GetEtag() {
			t.Errorf("etag %q, before the breaker %q", got.GetEtag(), before.GetEtag())
		}
		list, err := ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{})
		f.must(err)
		if len(list.GetPauses()) != 1 {
			t.Fatalf("listed %v", list)
		}
		p := list.GetPauses()[0]
		if p.GetCause() != adminv1.PauseCause_PAUSE_CAUSE_BREAKER || p.GetState() != adminv1.PauseState_PAUSE_STATE_IN_FORCE ||
			p.GetTarget().GetDestination() != snap.HoldKey || p.GetBreakerConnectionId() != f.conn ||
			!p.GetNextProbeTime().AsTime().Equal(b.ProbeAt) || p.GetFailedProbeCount() != 0 {
			t.Errorf("pause %v", p)
		}

		f.clock.advance(5 * time.Second)
		token := job.ID(uuid.Must(uuid.NewV7()))
		took, err := f.store.TakeProbe(t.Context(), store.Probe{Breaker: b.ID, Token: token, For: time.Minute})
		f.must(err)
		b, counts, err := f.store.EndProbe(t.Context(), store.ProbeResult{Breaker: b.ID, Token: token, Verdict: store.ProbeIll, Note: "The last probe failed: it gave no answer."})
		f.must(err)
		if !took || !counts {
			t.Fatalf("took %v, counts %v", took, counts)
		}
		reason = f.read(c, made.GetJobId()).GetBlockedReason()
		if !reason.GetEndTime().AsTime().Equal(b.ProbeAt) || !strings.Contains(reason.GetMessage(), "it gave no answer") {
			t.Errorf("after a probe: %v", reason)
		}
		list, err = ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{})
		f.must(err)
		if p := list.GetPauses()[0]; p.GetFailedProbeCount() != 1 || !p.GetNextProbeTime().AsTime().Equal(b.ProbeAt) {
			t.Errorf("after a probe: %v", p)
		}

		incidents, err := ask[adminv1.ListIncidentsResponse](t, c, incidentsPath+"ListIncidents", &adminv1.ListIncidentsRequest{})
		f.must(err)
		if len(incidents.GetIncidents()) != 1 || !strings.Contains(incidents.GetIncidents()[0].GetCause().GetSummary(), "circuit breaker") ||
			incidents.GetIncidents()[0].GetHoldEndTime() != nil {
			t.Errorf("incidents %v", incidents)
		}

		_, err = ask[adminv1.EndPauseResponse](t, c, endPause, &adminv1.EndPauseRequest{PauseId: b.ID.String()})
		f.must(err)
		if reason := f.read(c, made.GetJobId()).GetBlockedReason(); reason != nil {
			t.Errorf("blocked after the end: %v", reason)
		}
	})
}
