package server_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const etagMismatch = fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH

// TestUpdateSchedule: only another spec moves the schedule's position in time, and a change that
// is in place already writes nothing.
func TestUpdateSchedule(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		s := f.recurring(t.Context(), c, f.newSchedule("s", labelled("a")))
		_, err := f.skipFiring(c, s.GetScheduleId(), "2026-07-01T16:00:00/1", false)
		f.must(err)
		s = f.getSchedule(c, s.GetScheduleId()).GetSchedule()
		was := f.satSchedule(s.GetScheduleId())

		same, err := f.updateSchedule(c, &schedulesv1.Schedule{ScheduleId: s.GetScheduleId(), Etag: "old"}, func(r *updateScheduleRequest) {
			r.DisplayName, r.Labels, r.Spec = "a", map[string]string{"label": "a"}, everyHour()
			r.JobTemplate, r.Policies = proto.CloneOf(s.GetJobTemplate()), &schedulesv1.SchedulePolicies{CatchUpWindow: durationpb.New(time.Hour)}
			r.JobTemplate.Connection = &schedulesv1.JobTemplate_ConnectionKey{ConnectionKey: "fixture"}
		}, "display_name", "labels", "spec", "job_template", "policies")
		f.must(err)
		if got := f.satSchedule(s.GetScheduleId()); got.Revision != was.Revision || same.GetSchedule().GetEtag() != s.GetEtag() {
			t.Errorf("what is in place was written: %+v", got)
		}

		terms, err := f.updateSchedule(c, s, func(r *updateScheduleRequest) {
			r.JobTemplate, r.Policies = templateOn(f.conn), &schedulesv1.SchedulePolicies{PauseAfterFailures: 3}
			r.DisplayName = ""
		}, "job_template", "policies", "display_name")
		f.must(err)
		got := f.satSchedule(s.GetScheduleId())
		if got.Generation != 1 || got.Cursor != was.Cursor || !got.Next.Equal(was.Next) || len(got.Skips) != 1 || got.PauseAfterFailures != 3 || got.DisplayName != "" {
			t.Errorf("after new terms: %+v", got)
		}
		if p := terms.GetSchedule().GetPolicies(); p.GetPauseAfterFailures() != 3 || p.GetCatchUp() != schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_LATEST {
			t.Errorf("policies %v", p)
		}

		f.clock.advance(time.Hour) // 13:00 UTC is due and passed by the new spec
		moved, err := f.updateSchedule(c, terms.GetSchedule(), func(r *updateScheduleRequest) { r.Spec = daily() }, "spec")
		f.must(err)
		got = f.satSchedule(s.GetScheduleId())
		if got.Generation != 2 || len(got.Skips) != 0 || !got.Next.Equal(time.Date(2026, 7, 2, 7, 30, 0, 0, time.UTC)) ||
			moved.GetNextFirings()[0].GetName() != "g2:2026-07-02T09:30:00/1" {
			t.Errorf("after another spec: %+v", got)
		}

		over, err := f.updateSchedule(c, moved.GetSchedule(), func(r *updateScheduleRequest) {
			r.Spec = daily()
			r.Spec.EndTime = timestamppb.New(f.clock.Now())
		}, "spec")
		f.must(err)
		if over.GetSchedule().GetState() != ended || over.GetSchedule().GetNextFireTime() != nil || len(over.GetNextFirings()) != 0 {
			t.Errorf("without a firing left: %v", over)
		}
		again, err := f.updateSchedule(c, over.GetSchedule(), func(r *updateScheduleRequest) { r.Spec = daily() }, "spec")
		f.must(err)
		if again.GetSchedule().GetState() != active || again.GetNextFirings()[0].GetName() != "g4:2026-07-02T09:30:00/1" {
			t.Errorf("with firings again: %v", again)
		}
	})
}

// TestUpdateScheduleRefuses: nothing is written, and an etag that is old comes first.
func TestUpdateScheduleRefuses(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		s := f.recurring(t.Context(), c, f.newSchedule("s"))
		old := &schedulesv1.Schedule{ScheduleId: s.GetScheduleId(), Etag: "old"}
		bad := func(r *updateScheduleRequest) {
			r.Spec = &schedulesv1.ScheduleSpec{TimeZone: "UTC", CronExpressions: []string{"61 * * * *"}}
		}
		for name, try := range map[string]struct {
			of     *schedulesv1.Schedule
			edit   func(*updateScheduleRequest)
			path   string
			reason fireoncev1.ErrorReason
			field  string
		}{
			"etag": {old, bad, "spec", etagMismatch, ""},
			"spec": {s, bad, "spec", specInvalid, "spec.cron_expressions[0]"},
			"content": {s, func(r *updateScheduleRequest) {
				r.JobTemplate = templateOn(f.conn)
				r.JobTemplate.Content = contentOf(custom("bad/v1", ""))
			}, "job_template", fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID, "job_template.payload.custom.data"},
			"no connection": {s, func(r *updateScheduleRequest) { r.JobTemplate = templateOn(absent) }, "job_template", fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND, ""},
			"nothing":       {&schedulesv1.Schedule{ScheduleId: absent, Etag: "x"}, func(*updateScheduleRequest) {}, "labels", noSchedule, ""},
			"no spec":       {s, func(*updateScheduleRequest) {}, "spec", fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID, ""},
		} {
			_, err := f.updateSchedule(c, try.of, try.edit, try.path)
			e := wantReason(t, err, try.reason)
			if v := e.detail.GetViolations(); try.field != "" && (len(v) != 1 || v[0].GetField() != try.field) {
				t.Errorf("%s: %v", name, e.detail)
			}
		}
		if got := f.satSchedule(s.GetScheduleId()); got.Revision != 1 {
			t.Errorf("written: %+v", got)
		}
		_, err := f.deleteSchedule(c, s.GetScheduleId(), "")
		f.must(err)
		gone := f.getSchedule(c, s.GetScheduleId()).GetSchedule()
		_, err = f.updateSchedule(c, gone, func(r *updateScheduleRequest) { r.Spec = daily() }, "spec")
		wantReason(t, err, schedState)
	})
}

// TestPauseAndResumeSchedule: a change that is in place succeeds before the etag is compared,
// causes stay, and firings of the pause are neither caught up nor counted.
func TestPauseAndResumeSchedule(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			var clockwork *schedule.Scheduler
			f := start(t, firing(&clockwork))
			c := dial(f)
			s := f.recurring(t.Context(), c, f.newSchedule("s"))
			id := s.GetScheduleId()
			_, err := f.pauseSchedule(c, id, "old", "")
			wantReason(t, err, etagMismatch)
			first, err := f.pauseSchedule(c, id, s.GetEtag(), "one")
			f.must(err)
			same, err := f.pauseSchedule(c, id, "old", "one")
			f.must(err)
			without, err := f.pauseSchedule(c, id, "old", "")
			f.must(err)
			if same.GetEtag() != first.GetEtag() || without.GetNote() != "one" {
				t.Errorf("repeats: %v and %v", same, without)
			}
			other, err := f.pauseSchedule(c, id, "", "two")
			f.must(err)
			if other.GetNote() != "two" || other.GetState() != paused || !other.GetPauseTime().AsTime().Equal(first.GetPauseTime().AsTime()) {
				t.Errorf("another note: %v", other)
			}
			f.firesAfter(clockwork, 5*time.Hour)
			_, err = f.resumeSchedule(c, id, first.GetEtag(), "")
			wantReason(t, err, etagMismatch)
			back, err := f.resumeSchedule(c, id, other.GetEtag(), "")
			f.must(err)
			if back.GetNote() != "" || !back.GetNextFireTime().AsTime().Equal(f.clock.Now().Add(time.Hour)) {
				t.Errorf("resumed: %v", back)
			}
			twice, err := f.resumeSchedule(c, id, "old", "")
			f.must(err)
			f.firesAfter(clockwork, time.Hour)
			if got := f.getSchedule(c, id); twice.GetEtag() != back.GetEtag() || len(got.GetRecentFirings()) != 1 || got.GetSchedule().GetCounts().GetMissed() != 0 {
				t.Errorf("after a pause: %v", got)
			}

			_, err = f.deleteSchedule(c, id, "old")
			wantReason(t, err, etagMismatch)
			gone, err := f.deleteSchedule(c, id, back.GetEtag())
			f.must(err)
			if again, err := f.deleteSchedule(c, id, "old"); err != nil || !proto.Equal(again, gone) {
				t.Errorf("deleted again: %v, %v", again, err)
			}
			_, err = f.resumeSchedule(c, id, "", "")
			if e := wantReason(t, err, schedState); e.detail.GetMetadata()["state"] != "DELETED" {
				t.Errorf("detail %v", e.detail)
			}
			if got := f.getSchedule(c, id); got.GetSchedule().GetState() != erased || len(got.GetNextFirings()) != 0 || len(got.GetRecentFirings()) != 1 {
				t.Errorf("deleted: %v", got)
			}
		})
	}
}

// TestUndecidedFirings: firings whose times have come, and that no server has decided about when
// a caller stops the schedule or has it fire by another spec, make no job, and are recorded as
// missed.
func TestUndecidedFirings(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(f *fixture, c client, s *schedulesv1.Schedule) (*schedulesv1.Schedule, error){
		"paused": func(f *fixture, c client, s *schedulesv1.Schedule) (*schedulesv1.Schedule, error) {
			return f.pauseSchedule(c, s.GetScheduleId(), "", "")
		},
		"changed": func(f *fixture, c client, s *schedulesv1.Schedule) (*schedulesv1.Schedule, error) {
			res, err := f.updateSchedule(c, s, func(r *updateScheduleRequest) { r.Spec = daily() }, "spec")
			return res.GetSchedule(), err
		},
		"deleted": func(f *fixture, c client, s *schedulesv1.Schedule) (*schedulesv1.Schedule, error) {
			return f.deleteSchedule(c, s.GetScheduleId(), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var clockwork *schedule.Scheduler
			f := start(t, firing(&clockwork))
			c := overConnect(f)
			s := f.recurring(t.Context(), c, f.newSchedule("s"))
			first := f.getSchedule(c, s.GetScheduleId()).GetNextFirings()
			skipped, err := f.skipFiring(c, s.GetScheduleId(), first[1].GetName(), false)
			f.must(err)
			s = skipped.GetSchedule()
			f.clock.advance(3*time.Hour + time.Minute)
			after, err := stop(f, c, s)
			f.must(err)
			if n := after.GetCounts(); n.GetMissed() != 2 || n.GetSkippedByRequest() != 1 || n.GetFired() != 0 {
				t.Errorf("counts %v", n)
			}
			var got []string
			for _, one := range f.listFirings(c, s.GetScheduleId()) {
				got = append(got, one.GetName()+" "+one.GetReason())
			}
			reason := map[string]string{"changed": "The schedule's spec was changed."}[name]
			if reason == "" {
				reason = "The schedule was " + name + "."
			}
			want := []string{
				first[2].GetName() + " " + reason, first[1].GetName() + " A person skipped it.", first[0].GetName() + " " + reason,
			}
			if !slices.Equal(got, want) {
				t.Errorf("firings %q, want %q", got, want)
			}
			if f.firesAfter(clockwork, time.Minute); len(f.listFirings(c, s.GetScheduleId())) != len(want) {
				t.Errorf("firings later: %v", f.listFirings(c, s.GetScheduleId()))
			}
		})
	}
}

// TestMaxFiringsReached: a schedule that has made all its jobs is ENDED, also when it is resumed.
func TestMaxFiringsReached(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s", func(r *createScheduleRequest) { r.Spec.MaxFirings, r.Paused = 1, true }))
	_, err := f.trigger(c, s.GetScheduleId(), "t", false)
	f.must(err)
	if got := f.getSchedule(c, s.GetScheduleId()).GetSchedule(); got.GetState() != ended {
		t.Errorf("after its last job: %v", got)
	}
	_, err = f.pauseSchedule(c, s.GetScheduleId(), "", "")
	wantReason(t, err, schedState)
	if again, err := f.resumeSchedule(c, s.GetScheduleId(), "", ""); err != nil || again.GetState() != ended {
		t.Errorf("resumed %v, %v", again, err)
	}
	_, err = f.trigger(c, s.GetScheduleId(), "u", true)
	wantReason(t, err, schedState)
}

// TestConcurrentChanges: of two callers that read the same schedule one changes it, and callers
// without an etag all succeed.
func TestConcurrentChanges(t *testing.T) {
	f := start(t)
	s := f.recurring(t.Context(), overConnect(f), f.newSchedule("s"))
	errs := make(chan error, 6)
	var wg sync.WaitGroup
	for i := range 3 {
		c := overConnect(f)
		wg.Go(func() {
			_, err := f.updateSchedule(c, s, func(r *updateScheduleRequest) { r.DisplayName = fmt.Sprint("name ", i) }, "display_name")
			errs <- err
		})
		wg.Go(func() {
			_, err := f.pauseSchedule(c, s.GetScheduleId(), s.GetEtag(), fmt.Sprint("note ", i))
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	won := 0
	for err := range errs {
		if err == nil {
			won++
		} else {
			wantReason(t, err, etagMismatch)
		}
	}
	if got := f.satSchedule(s.GetScheduleId()); won != 1 || got.Version != 2 {
		t.Errorf("%d changed it, version %d", won, got.Version)
	}
	for i := range 4 {
		c := overConnect(f)
		wg.Go(func() {
			if _, err := f.pauseSchedule(c, s.GetScheduleId(), "", fmt.Sprint("note ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := f.satSchedule(s.GetScheduleId()); got.State != store.SchedulePaused {
		t.Errorf("state %d", got.State)
	}
}

// TestBulkSchedules pauses and resumes the schedules that a filter selects, in pages, and first
// as a dry run.
func TestBulkSchedules(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		var mine []string
		for i := range 4 {
			s := f.recurring(t.Context(), c, f.newSchedule(fmt.Sprint("s", i), func(r *createScheduleRequest) {
				r.Labels = map[string]string{"team": fmt.Sprint(i % 2)}
			}))
			if i%2 == 0 {
				mine = append(mine, s.GetScheduleId())
			}
		}
		ofTeam := &schedulesv1.ScheduleFilter{Labels: map[string]string{"team": "0"}}
		pause := func(dry bool, filter *schedulesv1.ScheduleFilter) *schedulesv1.BulkScheduleResult {
			res, err := ask[schedulesv1.BulkPauseSchedulesResponse](t, c, schedsPath+"BulkPauseSchedules", &schedulesv1.BulkPauseSchedulesRequest{Filter: filter, DryRun: dry, Note: "all"})
			f.must(err)
			return res.GetResult()
		}
		want := func(got *schedulesv1.BulkScheduleResult, ids []string) {
			t.Helper()
			changed := slices.Sorted(slices.Values(got.GetChangedScheduleIds()))
			if int(got.GetMatched()) != len(ids) || int(got.GetChanged()) != len(ids) || !slices.Equal(changed, slices.Sorted(slices.Values(ids))) ||
				len(got.GetFailures()) != 0 || got.GetNextPageToken() != "" {
				t.Errorf("result %v, want %v", got, ids)
			}
		}
		want(pause(true, ofTeam), mine)
		want(pause(false, ofTeam), mine)
		want(pause(false, ofTeam), nil)
		want(pause(false, &schedulesv1.ScheduleFilter{States: []schedulesv1.ScheduleState{paused}}), nil)
		for _, id := range mine {
			if got := f.satSchedule(id); got.State != store.SchedulePaused || got.Note != "all" {
				t.Errorf("paused %+v", got)
			}
		}
		res, err := ask[schedulesv1.BulkResumeSchedulesResponse](t, c, schedsPath+"BulkResumeSchedules", &schedulesv1.BulkResumeSchedulesRequest{Filter: anySchedule()})
		f.must(err)
		want(res.GetResult(), mine)
		_, err = ask[schedulesv1.BulkPauseSchedulesResponse](t, c, schedsPath+"BulkPauseSchedules", &schedulesv1.BulkPauseSchedulesRequest{Filter: &schedulesv1.ScheduleFilter{}})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
		_, err = ask[schedulesv1.BulkPauseSchedulesResponse](t, c, schedsPath+"BulkPauseSchedules", &schedulesv1.BulkPauseSchedulesRequest{Filter: anySchedule(), PageToken: "x"})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
	})
}

// TestBulkSchedulesPages: the next call changes the schedules that one call leaves.
func TestBulkSchedulesPages(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	for i := range store.MaxBatch + 3 {
		f.clock.advance(time.Millisecond)
		f.recurring(t.Context(), c, f.newSchedule(fmt.Sprint("s", i), func(r *createScheduleRequest) { r.Paused = true }))
	}
	resumed, req := 0, &schedulesv1.BulkResumeSchedulesRequest{Filter: anySchedule()}
	for range 20 {
		res, err := ask[schedulesv1.BulkResumeSchedulesResponse](t, c, schedsPath+"BulkResumeSchedules", req)
		f.must(err)
		resumed += int(res.GetResult().GetChanged())
		if req.PageToken = res.GetResult().GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if resumed != store.MaxBatch+3 {
		t.Errorf("%d resumed", resumed)
	}
}

// TestScheduleContent: the content of a schedule and its firings needs payloads:read.
func TestScheduleContent(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			var clockwork *schedule.Scheduler
			f := start(t, requireKey, firing(&clockwork))
			c := dial(f)
			seeing := bring(t.Context(), f.issue(server.DefaultProject, server.Scopes()).Reveal())
			blind := bring(t.Context(), f.issue(server.DefaultProject, without(server.ScopePayloadsRead)).Reveal())
			// The template is changed behind the server's back: as if the connector's rules had
			// changed since.
			s := f.recurring(seeing, c, f.newSchedule("s", func(r *createScheduleRequest) { r.JobTemplate.Content = contentOf(custom("good/v1", canary)) }))
			was := f.satSchedule(s.GetScheduleId())
			was.Template = encoded(t, &schedulesv1.JobTemplate{
				Connection: &schedulesv1.JobTemplate_ConnectionId{ConnectionId: f.conn}, Content: contentOf(custom("bad/v1", canary)),
			})
			_, err := f.store.ChangeSchedule(t.Context(), store.ScheduleChange{Schedule: was})
			f.must(err)
			f.firesAfter(clockwork, time.Hour)
			for procedure, req := range map[string]proto.Message{
				schedsPath + "GetSchedule": &schedulesv1.GetScheduleRequest{Schedule: &schedulesv1.GetScheduleRequest_ScheduleId{ScheduleId: s.GetScheduleId()}},
				schedsPath + "ListFirings": &schedulesv1.ListFiringsRequest{Schedule: &schedulesv1.ListFiringsRequest_ScheduleId{ScheduleId: s.GetScheduleId()}},
			} {
				text, err := invoke(blind, c, procedure, req, "")
				f.must(err)
				if strings.Contains(text, canaryInBase64) || strings.Contains(text, "too bad") || !strings.Contains(text, "contentWithheld") {
					t.Errorf("%s without the scope: %s", procedure, text)
				}
				text, err = invoke(seeing, c, procedure, req, "")
				f.must(err)
				if !strings.Contains(text, "too bad") || strings.Contains(text, "contentWithheld") {
					t.Errorf("%s with the scope: %s", procedure, text)
				}
			}
			got, err := askWith[schedulesv1.GetScheduleResponse](blind, c, schedsPath+"GetSchedule", &schedulesv1.GetScheduleRequest{
				Schedule: &schedulesv1.GetScheduleRequest_ScheduleId{ScheduleId: s.GetScheduleId()},
			})
			f.must(err)
			if sched := got.GetSchedule(); !sched.GetContentWithheld() || sched.GetNote() != "" || !sched.GetJobTemplate().GetContentWithheld() ||
				sched.GetPauseCause() != schedulesv1.SchedulePauseCause_SCHEDULE_PAUSE_CAUSE_JOB_REFUSED || !got.GetRecentFirings()[0].GetContentWithheld() {
				t.Errorf("withheld: %v", got)
			}
		})
	}
}

// TestEraseProjectCountsSchedules: schedules and their firings go with their project.
func TestEraseProjectCountsSchedules(t *testing.T) {
	f := start(t, withOperator)
	c := overConnect(f)
	operator := bring(t.Context(), operatorKey)
	made, err := askWith[adminv1.CreateApiKeyResponse](operator, c, accessPath+"CreateApiKey", &adminv1.CreateApiKeyRequest{
		ProjectId: "shop", CreateProject: true, Name: "till", Scopes: server.Scopes(),
	})
	f.must(err)
	mine := bring(t.Context(), made.GetSecret())
	conn, jobID := f.inProject(mine, t, "shop", c)
	s := f.recurring(mine, c, f.newSchedule("s", func(r *createScheduleRequest) { r.JobTemplate = templateOn(conn) }))
	fired, err := askWith[schedulesv1.TriggerScheduleResponse](mine, c, schedsPath+"TriggerSchedule", &schedulesv1.TriggerScheduleRequest{
		Schedule: &schedulesv1.TriggerScheduleRequest_ScheduleId{ScheduleId: s.GetScheduleId()}, TriggerKey: "t",
	})
	f.must(err)
	for _, id := range []string{jobID, fired.GetFiring().GetJobId()} {
		_, err := askWith[fireoncev1.CancelJobResponse](mine, c, jobsPath+"CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: id}})
		f.must(err)
	}
	_, err = askWith[adminv1.RevokeApiKeyResponse](operator, c, accessPath+"RevokeApiKey", &adminv1.RevokeApiKeyRequest{ApiKeyId: made.GetApiKey().GetApiKeyId()})
	f.must(err)
	f.clock.advance(store.LeastKept)
	schedules, firings, req := 0, 0, &adminv1.EraseProjectRequest{ProjectId: "shop"}
	for range 20 {
		res, err := askWith[adminv1.EraseProjectResponse](operator, c, eraseProject, req)
		f.must(err)
		schedules, firings = schedules+int(res.GetErasedScheduleCount()), firings+int(res.GetErasedFiringCount())
		if req.PageToken = res.GetNextPageToken(); res.GetDone() {
			break
		}
	}
	if schedules != 1 || firings != 1 {
		t.Errorf("%d schedules and %d firings were erased", schedules, firings)
	}
}
