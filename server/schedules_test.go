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

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const (
	active = schedulesv1.ScheduleState_SCHEDULE_STATE_ACTIVE
	paused = schedulesv1.ScheduleState_SCHEDULE_STATE_PAUSED
	ended  = schedulesv1.ScheduleState_SCHEDULE_STATE_ENDED
	erased = schedulesv1.ScheduleState_SCHEDULE_STATE_DELETED

	specInvalid = fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_SPEC_INVALID
	noSchedule  = fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_NOT_FOUND
	schedState  = fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_STATE
)

// TestSchedulesOverEveryProtocol calls the RPCs on schedules as a user would.
func TestSchedulesOverEveryProtocol(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			var clockwork *schedule.Scheduler
			f := start(t, firing(&clockwork))
			c := dial(f)
			ctx := t.Context()

			preview, err := ask[schedulesv1.PreviewScheduleResponse](t, c, schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
				Subject: &schedulesv1.PreviewScheduleRequest_Spec{Spec: everyHour()}, Count: 2,
			})
			f.must(err)
			if got := namesOf(preview.GetFirings()); !slices.Equal(got, []string{"2026-07-01T15:00:00/1", "2026-07-01T16:00:00/1"}) ||
				!preview.GetMore() || preview.GetTzdataVersion() == "" {
				t.Errorf("preview %v", preview)
			}

			made, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", f.newSchedule("s", labelled("reports"),
				func(r *createScheduleRequest) { r.JobTemplate.Content = contentOf(templateOn(f.conn).GetPayload()) }))
			f.must(err)
			s := made.GetSchedule()
			if !made.GetCreated() || s.GetState() != active || s.GetDisplayName() != "reports" || s.GetEtag() == "" || s.GetCreatedBy() != "api" ||
				!s.GetNextFireTime().AsTime().Equal(f.clock.Now().Add(time.Hour)) || s.GetPolicies().GetCatchUpWindow().GetSeconds() != 3600 ||
				s.GetPolicies().GetOverlap() != schedulesv1.OverlapPolicy_OVERLAP_POLICY_BUFFER_ONE || s.GetIdempotencyKey() != "s" ||
				s.GetJobTemplate().GetConnectionId() != f.conn || len(made.GetNextFirings()) != 10 {
				t.Errorf("made %v", made)
			}
			first := made.GetNextFirings()[0]
			if first.GetSource() != "cron_expressions[0]" || first.GetLocalTime() != "2026-07-01T15:00:00+02:00" || first.GetSkipped() {
				t.Errorf("planned %v", first)
			}

			f.firesAfter(clockwork, time.Hour)
			j := f.openJob(s.GetScheduleId())
			if got := string(j.Payload); !strings.Contains(got, "run 1 of 2026-07-01T15:00:00") {
				t.Errorf("the job has %q", got)
			}
			got := f.getSchedule(c, s.GetScheduleId())
			if len(got.GetRecentFirings()) != 1 || got.GetRecentFirings()[0].GetJobId() != j.ID.String() || got.GetSchedule().GetCounts().GetFired() != 1 ||
				got.GetSchedule().GetEtag() != s.GetEtag() || got.GetNextFirings()[0].GetName() != "2026-07-01T16:00:00/1" {
				t.Errorf("after one firing: %v", got)
			}
			byJob := f.read(c, j.ID.String())
			if !proto.Equal(byJob.GetFiring(), got.GetRecentFirings()[0]) || byJob.GetScheduleId() != s.GetScheduleId() {
				t.Errorf("the job says %v", byJob)
			}
			f.firesAfter(clockwork, time.Hour) // waits for the job before
			listed, err := ask[schedulesv1.ListSchedulesResponse](t, c, schedsPath+"ListSchedules", &schedulesv1.ListSchedulesRequest{
				Filter: &schedulesv1.ScheduleFilter{Labels: map[string]string{"label": "reports"}, ConnectionKeys: []string{"fixture"}},
			})
			f.must(err)
			if len(listed.GetSchedules()) != 1 || listed.GetSchedules()[0].GetBufferedFiring().GetName() != "2026-07-01T16:00:00/1" ||
				listed.GetSchedules()[0].GetJobTemplate() != nil || listed.GetNextPageToken() != "" ||
				!listed.GetSchedules()[0].GetNextFireTime().AsTime().Equal(f.clock.Now().Add(time.Hour)) {
				t.Errorf("listed %v", listed)
			}

			updated, err := f.updateSchedule(c, s, func(r *updateScheduleRequest) { r.Spec = daily() }, "spec")
			f.must(err)
			if got := updated.GetNextFirings()[0]; got.GetName() != "g2:2026-07-02T09:30:00/1" || updated.GetSchedule().GetEtag() == s.GetEtag() {
				t.Errorf("updated %v", updated)
			}
			stopped, err := f.pauseSchedule(c, s.GetScheduleId(), updated.GetSchedule().GetEtag(), "holidays")
			f.must(err)
			if stopped.GetState() != paused || stopped.GetPauseCause() != schedulesv1.SchedulePauseCause_SCHEDULE_PAUSE_CAUSE_REQUESTED ||
				stopped.GetNote() != "holidays" || stopped.GetPauseTime() == nil || stopped.GetNextFireTime() != nil || stopped.GetCounts().GetMissed() != 1 {
				t.Errorf("paused %v", stopped)
			}
			firings := f.listFirings(c, s.GetScheduleId())
			if len(firings) != 2 || firings[0].GetName() != "2026-07-01T16:00:00/1" || firings[0].GetBlockingJobId() != j.ID.String() ||
				firings[0].GetOutcome() != fireoncev1.FiringOutcome_FIRING_OUTCOME_MISSED || firings[0].GetReason() == "" {
				t.Errorf("firings %v", firings)
			}
			again, err := f.resumeSchedule(c, s.GetScheduleId(), stopped.GetEtag(), "back")
			f.must(err)
			if again.GetState() != active || again.GetPauseTime() != nil || again.GetNote() != "back" || again.GetNextFireTime() == nil {
				t.Errorf("resumed %v", again)
			}
			gone, err := f.deleteSchedule(c, s.GetScheduleId(), again.GetEtag())
			f.must(err)
			if gone.GetState() != erased || gone.GetJobTemplate() != nil || gone.GetDeleteTime() == nil || gone.GetNextFireTime() != nil {
				t.Errorf("deleted %v", gone)
			}
			if res, err := askWith[schedulesv1.ListSchedulesResponse](ctx, c, schedsPath+"ListSchedules", &schedulesv1.ListSchedulesRequest{}); err != nil || len(res.GetSchedules()) != 0 {
				t.Errorf("after the end: %v, %v", res, err)
			}
		})
	}
}

// TestCreateScheduleRepeats: the key is bound forever, to the request that created the schedule.
func TestCreateScheduleRepeats(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		create := func(r *createScheduleRequest) (*schedulesv1.CreateScheduleResponse, error) {
			return ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", r)
		}
		first, err := create(f.newSchedule("s"))
		f.must(err)
		s := first.GetSchedule()
		_, err = f.updateSchedule(c, s, func(r *updateScheduleRequest) { r.Spec, r.JobTemplate = daily(), templateOn(f.conn) }, "spec", "job_template")
		f.must(err)
		byKey := f.newSchedule("s", labelled("other"), func(r *createScheduleRequest) {
			r.JobTemplate = templateOn(f.conn)
			r.JobTemplate.Connection = &schedulesv1.JobTemplate_ConnectionKey{ConnectionKey: "fixture"}
		})
		for what, r := range map[string]*createScheduleRequest{
			"unchanged":               f.newSchedule("s"),
			"labels, name and a note": byKey,
			"validated":               f.newSchedule("s", func(r *createScheduleRequest) { r.ValidateOnly = true }),
		} {
			res, err := create(r)
			if err != nil || res.GetCreated() || res.GetSchedule().GetScheduleId() != s.GetScheduleId() ||
				res.GetSchedule().GetSpec().GetCronExpressions()[0] != "30 9 * * *" {
				t.Errorf("%s: %v, %v", what, res, err)
			}
		}
		for want, edit := range map[string]func(*createScheduleRequest){
			"spec":                      func(r *createScheduleRequest) { r.Spec = daily() },
			"job_template.payload":      func(r *createScheduleRequest) { r.JobTemplate.Content = contentOf(custom("good/v1", "other")) },
			"job_template.start_window": func(r *createScheduleRequest) { r.JobTemplate.StartWindow = durationpb.New(time.Hour) },
			"job_template.retry_policy": func(r *createScheduleRequest) { r.JobTemplate.RetryPolicy = &fireoncev1.RetryPolicy{MaxAttempts: 2} },
			"job_template.delivery": func(r *createScheduleRequest) {
				r.JobTemplate.Delivery = fireoncev1.Delivery_DELIVERY_AT_LEAST_ONCE
			},
			"job_template.labels":          func(r *createScheduleRequest) { r.JobTemplate.Labels = map[string]string{"a": "b"} },
			"job_template.attempt_timeout": func(r *createScheduleRequest) { r.JobTemplate.AttemptTimeout = durationpb.New(time.Second) },
			"policies":                     func(r *createScheduleRequest) { r.Policies = &schedulesv1.SchedulePolicies{PauseAfterFailures: 1} },
			"paused":                       func(r *createScheduleRequest) { r.Paused = true },
			"job_template.connection_key": func(r *createScheduleRequest) {
				r.JobTemplate.Connection = &schedulesv1.JobTemplate_ConnectionKey{ConnectionKey: "nobody"}
			},
			"job_template.connection_id": func(r *createScheduleRequest) {
				r.JobTemplate.Connection = &schedulesv1.JobTemplate_ConnectionId{ConnectionId: absent}
			},
		} {
			_, err := create(f.newSchedule("s", edit))
			e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED)
			if got := e.detail.GetIdempotencyConflict(); got.GetScheduleId() != s.GetScheduleId() || !slices.Equal(got.GetMismatchedFields(), []string{want}) {
				t.Errorf("%s: %v", want, e.detail)
			}
		}
		if got := f.satSchedule(s.GetScheduleId()); got.Revision != 2 {
			t.Errorf("revision %d after repeats", got.Revision)
		}
	})
}

// TestCreateScheduleRefuses: each reason, with the path of the wrong field; nothing is stored.
func TestCreateScheduleRefuses(t *testing.T) {
	const (
		unfit    = fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID
		large    = fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE
		invalid  = fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID
		reserved = fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED
		nowhere  = fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND
	)
	payload := func(p *fireoncev1.Payload) func(*createScheduleRequest) {
		return func(r *createScheduleRequest) { r.JobTemplate.Content = contentOf(p) }
	}
	overEach(t, func(t *testing.T, f *fixture, c client) {
		var gone connectionsv1.CreateConnectionResponse
		f.must(c.call(t.Context(), connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "gone", Connection: &connectionsv1.Connection{Connector: "stub"},
		}, &gone))
		f.must(c.call(t.Context(), connsPath+"DeleteConnection", deletion(gone.GetConnection().GetConnectionId()), &connectionsv1.DeleteConnectionResponse{}))
		for name, try := range map[string]struct {
			edit   func(*createScheduleRequest)
			reason fireoncev1.ErrorReason
			field  string
		}{
			"a cron expression": {func(r *createScheduleRequest) { r.Spec.CronExpressions = []string{"0 0 * * *", "61 * * * *"} }, specInvalid, "spec.cron_expressions[1]"},
			"a zone":            {func(r *createScheduleRequest) { r.Spec.TimeZone = "Europe/Wien" }, specInvalid, "spec.time_zone"},
			"an interval": {func(r *createScheduleRequest) {
				r.Spec = every(time.Minute)
				r.Spec.Intervals[0].Phase = durationpb.New(time.Hour)
			}, specInvalid, "spec.intervals[0].phase"},
			"a date": {func(r *createScheduleRequest) {
				r.Spec.Exclusions = &schedulesv1.ScheduleExclusions{Dates: []*schedulesv1.DateRange{{First: "2026-13-01"}}}
			}, specInvalid, "spec.exclusions.dates[0]"},
			"never":            {func(r *createScheduleRequest) { r.Spec.CronExpressions = []string{"0 0 30 2 *"} }, specInvalid, "spec.cron_expressions[0]"},
			"over":             {func(r *createScheduleRequest) { r.Spec.EndTime = timestamppb.New(f.clock.Now()) }, specInvalid, "spec"},
			"no source":        {func(r *createScheduleRequest) { r.Spec.CronExpressions = nil }, invalid, "spec"},
			"a placeholder":    {payload(custom("good/v1", "{{when}}")), unfit, "job_template.payload.custom.data"},
			"content":          {payload(custom("bad/v1", "")), unfit, "job_template.payload.custom.data"},
			"a header":         {payload(custom("header/v1", "")), fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED, "job_template.payload.custom"},
			"a kind":           {payload(letter()), fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH, "job_template.payload"},
			"much":             {payload(custom("good/v1", strings.Repeat("x", 256<<10-3))), large, "job_template.payload"},
			"much when filled": {payload(custom("good/v1", strings.Repeat("{{schedule_id}}", 10<<10))), large, "job_template.payload"},
			"long when filled": {payload(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
				Url: "https://example.com/", Headers: []*fireoncev1.HttpHeader{{Name: "X-A", Value: strings.Repeat("h", 4080) + "{{schedule_id}}"}},
			}}}), unfit, "job_template.payload.webhook.headers[0].value"},
			"a placeholder in a host":   {payload(toURL("https://{{zone}}.example.com/")), unfit, "job_template.payload.webhook.url"},
			"a placeholder in a port":   {payload(toURL("https://example.com:{{run}}/")), unfit, "job_template.payload.webhook.url"},
			"a placeholder with blanks": {payload(toURL("https://example.com/{{ run }}")), invalid, "job_template.payload.webhook.url"},
			"a placeholder in an address": {payload(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
				Sender: "a@example.org", To: []string{"b@example.org", "{{run}}@example.org"}, Subject: "{{run}}", TextBody: "a",
			}}}), unfit, "job_template.payload.email.to[1]"},
			"a placeholder in a label": {func(r *createScheduleRequest) {
				r.JobTemplate.Labels = map[string]string{"day": "{{nominal_date}}"}
			}, invalid, "job_template.labels"},
			"an unknown one in a URL": {payload(toURL("https://example.com/?{{day}}")), unfit, "job_template.payload.webhook.url"},
			"a URL, long when filled": {payload(toURL("https://example.com/" + strings.Repeat("a", 2000) + "{{schedule_id}}")), unfit, "job_template.payload.webhook.url"},
			"a reserved key":          {func(r *createScheduleRequest) { r.IdempotencyKey = "fireonce:mine" }, reserved, "idempotency_key"},
			"no connection":           {func(r *createScheduleRequest) { r.JobTemplate = templateOn(absent) }, nowhere, ""},
			"no connection key": {func(r *createScheduleRequest) {
				r.JobTemplate.Connection = &schedulesv1.JobTemplate_ConnectionKey{ConnectionKey: "nobody"}
			}, nowhere, ""},
			"a deleted connection": {func(r *createScheduleRequest) { r.JobTemplate = templateOn(gone.GetConnection().GetConnectionId()) },
				fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED, ""},
			"the nil UUID": {func(r *createScheduleRequest) { r.JobTemplate = templateOn("00000000-0000-0000-0000-000000000000") }, invalid, "job_template.connection_id"},
		} {
			for _, validate := range []bool{false, true} {
				_, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", f.newSchedule("k", try.edit, func(r *createScheduleRequest) { r.ValidateOnly = validate }))
				e := wantReason(t, err, try.reason)
				var fields []string
				for _, v := range e.detail.GetViolations() {
					fields = append(fields, v.GetField())
				}
				if try.field == "" && len(fields) > 0 || try.field != "" && !slices.Equal(fields, []string{try.field}) {
					t.Errorf("%s: violations of %q, want %q: %v", name, fields, try.field, e)
				}
			}
		}
		if page, err := f.store.ListSchedules(t.Context(), store.ScheduleQuery{Project: server.DefaultProject, Limit: 1}); err != nil || len(page.Schedules) != 0 {
			t.Errorf("stored %v, %v", page, err)
		}
	})
}

// TestValidateSchedule: nothing is stored, and the answer shows the schedule that would be.
func TestValidateSchedule(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	res, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", f.newSchedule("k", func(r *createScheduleRequest) {
		r.ValidateOnly, r.Spec.MaxFirings = true, 3
	}))
	f.must(err)
	if res.GetCreated() || res.GetSchedule().GetScheduleId() != "" || res.GetSchedule().GetEtag() != "" || len(res.GetNextFirings()) != 3 ||
		!res.GetSchedule().GetNextFireTime().AsTime().Equal(f.clock.Now().Add(time.Hour)) {
		t.Errorf("validated %v", res)
	}
	_, err = ask[schedulesv1.GetScheduleResponse](t, c, schedsPath+"GetSchedule", &schedulesv1.GetScheduleRequest{
		Schedule: &schedulesv1.GetScheduleRequest_IdempotencyKey{IdempotencyKey: "k"},
	})
	wantReason(t, err, noSchedule)
}

// TestCreateScheduleConcurrently: of many calls with one key one makes the schedule.
func TestCreateScheduleConcurrently(t *testing.T) {
	f := start(t)
	const calls = 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, created := map[string]bool{}, 0
	for range calls {
		c := overConnect(f)
		wg.Go(func() {
			res, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", f.newSchedule("one"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			ids[res.GetSchedule().GetScheduleId()] = true
			if res.GetCreated() {
				created++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || created != 1 {
		t.Errorf("%d schedules, %d times created", len(ids), created)
	}
}

// TestScheduleQuota: schedules that are not deleted count, and a repeat is answered.
func TestScheduleQuota(t *testing.T) {
	f := start(t, limitedTo("schedules=2"))
	c := overConnect(f)
	first := f.recurring(t.Context(), c, f.newSchedule("a"))
	f.recurring(t.Context(), c, f.newSchedule("b", func(r *createScheduleRequest) { r.Paused = true }))
	_, err := ask[schedulesv1.CreateScheduleResponse](t, c, schedsPath+"CreateSchedule", f.newSchedule("c"))
	if wait := wantFull(t, err, "schedules", 2, 2); wait != 0 {
		t.Errorf("repeat after %s", wait)
	}
	if again := f.recurring(t.Context(), c, f.newSchedule("a")); again.GetScheduleId() != first.GetScheduleId() {
		t.Errorf("the repeat made %v", again)
	}
	_, err = f.deleteSchedule(c, first.GetScheduleId(), "")
	f.must(err)
	f.recurring(t.Context(), c, f.newSchedule("c"))
}

// TestListSchedules in pages, through filters.
func TestListSchedules(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		var want []string
		for i := range 5 {
			f.clock.advance(time.Second)
			s := f.recurring(t.Context(), c, f.newSchedule(fmt.Sprint("s", i), func(r *createScheduleRequest) {
				r.Paused, r.Labels = i == 1, map[string]string{"odd": fmt.Sprint(i % 2)}
			}))
			want = append([]string{s.GetScheduleId()}, want...)
		}
		list := func(r *schedulesv1.ListSchedulesRequest) (ids []string) {
			for page := 0; ; page++ {
				res, err := ask[schedulesv1.ListSchedulesResponse](t, c, schedsPath+"ListSchedules", r)
				f.must(err)
				for _, s := range res.GetSchedules() {
					ids = append(ids, s.GetScheduleId())
				}
				if r.PageToken = res.GetNextPageToken(); r.PageToken == "" || page > 10 {
					return ids
				}
			}
		}
		if got := list(&schedulesv1.ListSchedulesRequest{PageSize: 2}); !slices.Equal(got, want) {
			t.Errorf("listed %v, want %v", got, want)
		}
		for name, try := range map[string]struct {
			filter *schedulesv1.ScheduleFilter
			want   []string
		}{
			"paused": {&schedulesv1.ScheduleFilter{States: []schedulesv1.ScheduleState{paused}}, want[3:4]},
			"cause":  {&schedulesv1.ScheduleFilter{PauseCauses: []schedulesv1.SchedulePauseCause{schedulesv1.SchedulePauseCause_SCHEDULE_PAUSE_CAUSE_REQUESTED}}, want[3:4]},
			"label":  {&schedulesv1.ScheduleFilter{Labels: map[string]string{"odd": "1"}}, []string{want[1], want[3]}},
			"other":  {&schedulesv1.ScheduleFilter{ConnectionIds: []string{absent}}, nil},
			"by id":  {&schedulesv1.ScheduleFilter{ConnectionIds: []string{f.conn}}, want},
		} {
			if got := list(&schedulesv1.ListSchedulesRequest{Filter: try.filter}); !slices.Equal(got, try.want) {
				t.Errorf("%s: listed %v, want %v", name, got, try.want)
			}
		}
		first, err := ask[schedulesv1.ListSchedulesResponse](t, c, schedsPath+"ListSchedules", &schedulesv1.ListSchedulesRequest{PageSize: 1})
		f.must(err)
		for reason, r := range map[fireoncev1.ErrorReason]*schedulesv1.ListSchedulesRequest{
			fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID:   {PageToken: first.GetNextPageToken(), Filter: anySchedule()},
			fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND: {Filter: &schedulesv1.ScheduleFilter{ConnectionKeys: []string{"nobody"}}},
		} {
			_, err := ask[schedulesv1.ListSchedulesResponse](t, c, schedsPath+"ListSchedules", r)
			wantReason(t, err, reason)
		}
	})
}

// TestOverdueSchedule: a schedule says since when no server has decided about it, as long as that
// is so.
func TestOverdueSchedule(t *testing.T) {
	var clockwork *schedule.Scheduler
	f := start(t, firing(&clockwork))
	c := overConnect(f)
	s := f.recurring(t.Context(), c, f.newSchedule("s"))
	due := s.GetNextFireTime().AsTime()
	for _, tt := range []struct {
		after time.Duration
		want  bool
	}{{time.Hour, false}, {time.Minute, false}, {time.Second, true}} {
		f.clock.advance(tt.after)
		got := f.getSchedule(c, s.GetScheduleId()).GetSchedule().GetOverdueTime()
		if (got != nil) != tt.want || tt.want && !got.AsTime().Equal(due) {
			t.Errorf("at %s: overdue since %v", f.clock.Now(), got)
		}
	}
	list, err := ask[schedulesv1.ListSchedulesResponse](t, c, schedsPath+"ListSchedules", &schedulesv1.ListSchedulesRequest{})
	f.must(err)
	if got := list.GetSchedules()[0].GetOverdueTime(); !got.AsTime().Equal(due) {
		t.Errorf("listed as overdue since %v", got)
	}
	f.firesAfter(clockwork, time.Second)
	if got := f.getSchedule(c, s.GetScheduleId()).GetSchedule().GetOverdueTime(); got != nil {
		t.Errorf("overdue since %v after a decision", got)
	}
}
