package judge_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// telling is the accounts of a run with one subscription, to be falsified. It has six jobs: three
// that failed are in two notices, two that failed in a digest; one succeeded, and is not told.
type telling struct {
	judge.ToldInput
	log    []platform.Record
	events []judge.Event
	bodies []map[string]any
}

const (
	told     = "on-call"
	toldJobs = 6
	perJob   = 4 // events
)

func newTold() *telling {
	r := &telling{}
	for j := range toldJobs {
		from := job.State(0)
		last := job.Failed
		if j == 2 {
			last = job.Succeeded
		}
		for n, to := range []job.State{job.Scheduled, job.Claimed, job.Sending, last} {
			r.events = append(r.events, judge.Event{
				JobID: fmt.Sprint("job-", j), Sequence: int64(n + 1), From: from, To: to, Cause: "TEST", Cursor: fmt.Sprint("c", len(r.events)+1),
			})
			from = to
		}
		r.Finals = append(r.Finals, judge.Final{JobID: fmt.Sprint("job-", j), State: last, Sequence: perJob})
	}
	r.Places = map[string]int{"begin": 0, "end": len(r.events)}
	for i, e := range r.events {
		r.Places[e.Cursor] = i + 1
	}
	r.Shown = map[string]int{"GetStats": toldJobs}
	r.Subscriptions = []judge.Subscription{{
		Name: told, ID: "sub", State: judge.StateSubscribed, Last: 3, Selects: func(e judge.Event) bool { return e.From != e.To && e.To == job.Failed },
		Listed: []judge.ListedNotice{
			{Number: 3, Kind: judge.KindDigest, Events: 2, Outcome: job.Succeeded}, {Number: 2, Kind: judge.KindEvents, Events: 1, Outcome: job.Succeeded},
			{Number: 1, Kind: judge.KindEvents, Events: 2, Outcome: job.Succeeded},
		},
	}}
	r.tell("EVENTS", "begin", "c8", map[string]any{"events": []any{r.wire(4), r.wire(8)}})
	r.tell("EVENTS", "c12", "c16", map[string]any{"events": []any{r.wire(16)}})
	r.tell("DIGEST", "c16", "end", map[string]any{"digest": map[string]any{
		"eventCount": "2", "groups": []any{map[string]any{"newState": "JOB_STATE_FAILED", "cause": "EVENT_CAUSE_TEST", "eventCount": "2"}},
		"examples": []any{r.wire(20)},
	}})
	return r
}

// wire is the n-th event of the log as a notice has it.
func (r *telling) wire(n int) map[string]any {
	e := r.events[n-1]
	return map[string]any{"cursor": e.Cursor, "jobChanged": map[string]any{
		"jobId": e.JobID, "sequence": fmt.Sprint(e.Sequence), "oldState": "JOB_STATE_" + e.From.String(), "newState": "JOB_STATE_" + e.To.String(),
		"cause": "EVENT_CAUSE_" + e.Cause,
	}}
}

// tell adds a notice that came twice, the first time with a lost answer.
func (r *telling) tell(kind, after, to string, data map[string]any) {
	n := len(r.bodies) + 1
	maps.Copy(data, map[string]any{
		"kind": "NOTICE_KIND_" + kind, "number": fmt.Sprint(n), "subscriptionId": "sub", "afterCursor": after, "cursor": to,
	})
	r.bodies = append(r.bodies, data)
	for again := range 2 {
		rec := platform.Record{
			Type: platform.TypeRequest, N: int64(len(r.log)), Face: platform.FaceTold, Subject: platform.ToldPrefix + told, Number: len(r.log) + 1,
			Key: fmt.Sprint("id-", n), Body: fmt.Sprint("body-", n),
		}
		if again == 0 {
			rec.Fault = platform.Drop
		}
		r.log = append(r.log, rec)
		if again == 0 {
			rec.Type, rec.ID = platform.TypeEffect, fmt.Sprint("effect-", n)
			r.log = append(r.log, rec)
		}
	}
}

// requests is how many records a notice has in the log: two requests, and its effect.
const requests = 3

func (r *telling) judge(t *testing.T) *judge.ToldReport {
	t.Helper()
	in := r.ToldInput
	written := make(map[string]bool)
	var log []platform.Record
	for _, rec := range r.log {
		if rec.Type == platform.TypeRequest && !written[rec.Key] {
			written[rec.Key] = true
			var n int
			if _, err := fmt.Sscanf(rec.Body, "body-%d", &n); err != nil {
				t.Fatal(err)
			}
			kind := map[any]string{"NOTICE_KIND_EVENTS": "events", "NOTICE_KIND_DIGEST": "digest", "NOTICE_KIND_TEST": "test"}[r.bodies[n-1]["kind"]]
			body, err := json.Marshal(map[string]any{"type": "fireonce.notice." + kind, "data": r.bodies[n-1]})
			if err != nil {
				t.Fatal(err)
			}
			rec.Content = string(body)
		}
		log = append(log, rec)
	}
	in.Log, in.Events = each(log), each(r.events)
	out, err := judge.JudgeTold(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestToldAsItShould(t *testing.T) {
	got := newTold().judge(t)
	if got.Total != 0 || got.Notices != 3 || got.Requests != 6 || got.Repeats != 3 || got.Selected != 5 || got.Told != 3 || got.Digests != 1 ||
		got.Counted != 2 || got.Faults[platform.Drop] != 3 || got.By[told] != 5 {
		t.Errorf("%+v", got)
	}
}

// TestToldWrongly: each way in which a notice can be wrong is found, under its name.
func TestToldWrongly(t *testing.T) {
	list := func(r *telling, n int) *[]any {
		l, _ := r.bodies[n-1]["events"].([]any)
		return &l
	}
	set := func(r *telling, n int, events ...any) {
		r.bodies[n-1]["events"] = events
		r.Subscriptions[0].Listed[3-n].Events = int64(len(events))
	}
	for name, c := range map[string]struct {
		falsify func(*telling)
		want    []judge.Kind
	}{
		"an event that is in no notice": {func(r *telling) { set(r, 1, (*list(r, 1))[0]) }, []judge.Kind{judge.Untold}},
		"a cursor that passes an event": {func(r *telling) { // the notice that had it was never made
			r.log, r.bodies[2]["number"] = append(r.log[:requests], r.log[2*requests:]...), "2"
			r.Subscriptions[0].Last, r.Subscriptions[0].Listed = 2, nil
		}, []judge.Kind{judge.Untold}},
		"nothing after the last notice": {func(r *telling) {
			r.log, r.Subscriptions[0].Last, r.Subscriptions[0].Listed = r.log[:2*requests], 2, nil
		}, []judge.Kind{judge.Untold}},
		"an outcome that is no event": {func(r *telling) { r.Finals[2].State = job.Failed }, []judge.Kind{judge.Untold}},
		"events that were removed":    {func(r *telling) { r.bodies[0]["eventsLost"] = true }, []judge.Kind{judge.Untold}},
		"a notice before its outcome": {func(r *telling) { // the job never failed
			r.events[15].To, r.Finals[3].State = job.Succeeded, job.Succeeded
			r.bodies[1]["events"] = []any{map[string]any{"cursor": "c16", "jobChanged": map[string]any{
				"jobId": "job-3", "sequence": "4", "oldState": "JOB_STATE_SENDING", "newState": "JOB_STATE_FAILED", "cause": "EVENT_CAUSE_TEST",
			}}}
		}, []judge.Kind{judge.Invented}},
		"an event that the log has not": {func(r *telling) {
			ghost := map[string]any{"cursor": "c8", "jobChanged": map[string]any{"jobId": "job-9", "sequence": "4", "newState": "JOB_STATE_FAILED"}}
			set(r, 1, append(*list(r, 1), ghost)...)
		}, []judge.Kind{judge.Invented}},
		"another cursor": {func(r *telling) {
			r.bodies[1]["events"] = []any{map[string]any{"cursor": "c15", "jobChanged": r.wire(16)["jobChanged"]}}
		}, []judge.Kind{judge.Invented}},
		"an event that is under way": {func(r *telling) { set(r, 2, r.wire(15), r.wire(16)) }, []judge.Kind{judge.Unselected}},
		"a notice of a kind that nobody asked for": {func(r *telling) {
			r.bodies[2]["kind"], r.bodies[2]["digest"] = "NOTICE_KIND_TEST", nil
			r.Subscriptions[0].Listed = nil
		}, []judge.Kind{judge.Unselected}},
		"an event in two notices": {func(r *telling) { set(r, 2, r.wire(8), r.wire(16)); r.bodies[1]["afterCursor"] = "c4" },
			[]judge.Kind{judge.Disordered, judge.ToldTwice}},
		"one notice under two ids": {func(r *telling) {
			again := r.log[requests-1]
			again.Key = "id-1-again"
			r.log = append(r.log, again)
		}, []judge.Kind{judge.Renamed}},
		"the events again, as another notice": {func(r *telling) {
			r.tell("EVENTS", "begin", "c8", map[string]any{"events": []any{r.wire(4), r.wire(8)}})
			r.Subscriptions[0].Last = 4
		}, []judge.Kind{judge.Disordered, judge.ToldTwice}},
		"a body that changed":              {func(r *telling) { r.log[2].Body = "body-9" }, []judge.Kind{judge.ChangedBody}},
		"a notice of another subscription": {func(r *telling) { r.bodies[0]["subscriptionId"] = "other" }, []judge.Kind{judge.Renamed}},
		"notices that changed places": {func(r *telling) {
			r.log = slices.Concat(r.log[requests:2*requests], r.log[:requests], r.log[2*requests:])
		}, []judge.Kind{judge.Disordered}},
		"events that changed places": {func(r *telling) { set(r, 1, r.wire(8), r.wire(4)) }, []judge.Kind{judge.Disordered}},
		"a digest that counts too few": {func(r *telling) {
			r.bodies[2]["digest"].(map[string]any)["eventCount"] = "1"
			r.Subscriptions[0].Listed[0].Events = 1
		}, []judge.Kind{judge.Misdigested}},
		"a digest with a false group": {func(r *telling) {
			r.bodies[2]["digest"].(map[string]any)["groups"] = []any{map[string]any{"newState": "JOB_STATE_EXPIRED", "eventCount": "2"}}
		}, []judge.Kind{judge.Misdigested}},
		"a digest whose example is elsewhere": {func(r *telling) {
			r.bodies[2]["digest"].(map[string]any)["examples"] = []any{r.wire(4)}
		}, []judge.Kind{judge.Disordered}},
		"a notice that is under way":        {func(r *telling) { r.Subscriptions[0].UnderWay = true }, []judge.Kind{judge.Undelivered}},
		"a subscription that paused itself": {func(r *telling) { r.Subscriptions[0].State = "PAUSED" }, []judge.Kind{judge.Undelivered}},
		"a notice that never came":          {func(r *telling) { r.Subscriptions[0].Last = 4 }, []judge.Kind{judge.Undelivered}},
		"a success without an effect":       {func(r *telling) { r.log = append(r.log[:1], r.log[2:]...) }, []judge.Kind{judge.Undelivered}},
		"a notice that failed":              {func(r *telling) { r.Subscriptions[0].Listed[0].Outcome = job.Failed }, []judge.Kind{judge.Undelivered}},
		"notices among the jobs":            {func(r *telling) { r.Shown["GetStats"] += 3 }, []judge.Kind{judge.Shown}},
		"notices for nobody": {func(r *telling) {
			stray := r.log[0]
			stray.Subject, stray.Key = platform.ToldPrefix+"nobody", "id-of-nobody"
			r.log = append(r.log, stray)
		}, []judge.Kind{judge.Unselected}},
	} {
		r := newTold()
		c.falsify(r)
		got := r.judge(t)
		if kinds := slices.Sorted(maps.Keys(got.Kinds)); !slices.Equal(kinds, slices.Sorted(slices.Values(c.want))) {
			t.Errorf("%s: %v, want %v: %+v", name, kinds, c.want, got.Violations)
		}
	}
}

// TestHiddenSubscription: of callbacks the service says nothing; they are judged by what came alone.
func TestHiddenSubscription(t *testing.T) {
	r := newTold()
	r.Subscriptions[0] = judge.Subscription{Name: told, Selects: r.Subscriptions[0].Selects}
	if got := r.judge(t); got.Total != 0 {
		t.Errorf("%+v", got.Violations)
	}
	r.bodies[1]["subscriptionId"] = "other"
	if got := r.judge(t); got.Kinds[judge.Renamed] != 1 {
		t.Errorf("%+v", got.Violations)
	}
}
