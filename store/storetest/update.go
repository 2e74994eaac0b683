package storetest

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var updateTests = []test{
	{"payload, hold key and labels", updateContent},
	{"what is not given stays", updateParts},
	{"policies and time zone", updateTerms},
	{"only while SCHEDULED, by an update", updateRefused},
	{"each field in the states that are for it", updateByState},
	{"into a hold and out of it", updateHold},
	{"before its time", updateEarly},
}

// update requests new content, which must be accepted.
func (f *fixture) update(s job.Snapshot, c store.Content) job.Snapshot {
	f.Helper()
	a := f.changeContent(s, f.decide(s, job.UpdateAsked{Fields: c.Fields()}), c)
	f.ok(a.Err)
	return a.Snapshot
}

func (f *fixture) changeContent(s job.Snapshot, d job.Decision, c store.Content) store.Applied {
	f.Helper()
	out, err := f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: "tester", Content: &c}})
	f.ok(err)
	if out[0].Err == nil {
		out[0].Snapshot = f.whole(out[0].Snapshot)
	}
	return out[0]
}

func updateContent(f *fixture) {
	n := f.new(at(start.Add(time.Hour)))
	n.Spec.Fingerprint.Set("payload", []byte("payload"))
	s := f.create(n)[0].Snapshot
	f.clock.advance(time.Minute)
	got := f.update(s, store.Content{Payload: []byte("new"), HoldKey: "key-2", Labels: map[string]string{"a": "b"}})
	want := s
	want.Payload, want.HoldKey, want.Labels = []byte("new"), "key-2", map[string]string{"a": "b"}
	want.Version, want.Updated, want.Now = 2, start.Add(time.Minute), start.Add(time.Minute)
	f.is(got, want, "job: its key, fingerprint and times stay")
	f.is(f.job(s.ID), want, "stored job")
	e := f.last(s.ID)
	f.is([]any{e.Cause, e.From, e.To, e.Actor}, []any{job.CauseUpdated, job.Scheduled, job.Scheduled, "tester"}, "event")
	n.Spec.ID = f.id()
	again := f.create(n)[0]
	f.is([]any{again.Created, again.Snapshot.ID}, []any{false, s.ID}, "the same request again")
	p, err := f.s.List(f.ctx, store.JobQuery{Project: project, Labels: map[string]string{"a": "b"}})
	f.ok(err)
	f.is(ids(p.Jobs), []job.ID{s.ID}, "listed by the new label")
	f.clock.advance(time.Hour)
	l := f.claimed(s.ID)[0]
	f.is([]any{string(l.Payload), l.HoldKey}, []any{"new", "key-2"}, "claimed content")
}

func updateParts(f *fixture) {
	s := f.submit(func(n *store.NewJob) { n.Spec.Labels = map[string]string{"a": "b"} })
	got := f.update(s, store.Content{Payload: []byte("new"), HoldKey: s.HoldKey})
	f.is([]any{string(got.Payload), got.Labels}, []any{"new", s.Labels}, "payload alone")
	got = f.update(got, store.Content{Labels: map[string]string{"c": "d"}})
	f.is([]any{string(got.Payload), got.HoldKey, got.Labels}, []any{"new", s.HoldKey, map[string]string{"c": "d"}}, "labels alone")
	got = f.update(got, store.Content{Labels: map[string]string{}})
	f.is(len(got.Labels), 0, "labels taken away")
	f.is(f.job(s.ID), got, "stored job")
	f.is(got.Version, s.Version+3, "version")
}

func updateTerms(f *fixture) {
	retry := job.RetryPolicy{MaxAttempts: 3, MinBackoff: time.Second, MaxBackoff: time.Minute, AttemptTimeout: 2 * time.Minute}
	s := f.submit(func(n *store.NewJob) { n.Spec.TimeZone, n.Spec.Retry = "Europe/Vienna", retry })
	want := s
	step := func(c store.Content, edit func(*job.Spec)) {
		f.Helper()
		want = f.update(want, c)
		expected := want
		expected.Spec = s.Spec
		edit(&s.Spec)
		expected.Spec = s.Spec
		f.is(want, expected, "after a change")
		f.is(f.job(s.ID), want, "stored job")
	}
	step(store.Content{Delivery: job.AtMostOnce}, func(s *job.Spec) { s.Delivery = job.AtMostOnce })
	other := job.RetryPolicy{MaxAttempts: 9, Delays: []time.Duration{time.Second}, KeepTrying: time.Hour, AttemptTimeout: retry.AttemptTimeout}
	step(store.Content{Retry: &other}, func(s *job.Spec) { s.Retry = other })
	step(store.Content{AttemptTimeout: ptr(time.Second)}, func(s *job.Spec) { s.Retry.AttemptTimeout = time.Second })
	step(store.Content{TimeZone: ptr("Asia/Tokyo")}, func(s *job.Spec) { s.TimeZone = "Asia/Tokyo" })
	step(store.Content{TimeZone: ptr("")}, func(s *job.Spec) { s.TimeZone = "" })
	step(store.Content{Retry: &job.RetryPolicy{}, AttemptTimeout: ptr(time.Duration(0))}, func(s *job.Spec) { s.Retry = job.RetryPolicy{} })
	step(store.Content{Labels: map[string]string{"a": "b"}}, func(s *job.Spec) { s.Labels = map[string]string{"a": "b"} })
	l := f.claimed(s.ID)[0]
	f.is([]any{l.Delivery, l.Retry, l.TimeZone}, []any{job.AtMostOnce, job.RetryPolicy{}, ""}, "claimed")
}

// updateByState: parts that no attempt depends on change after one too, and the rest of the
// job stays. Everything else is refused, whatever the decision.
func updateByState(f *fixture) {
	for _, state := range job.States {
		for field, c := range map[job.Fields]store.Content{
			job.FieldPayload:        {Payload: []byte("new"), HoldKey: holdKey},
			job.FieldLabels:         {Labels: map[string]string{"a": "b"}},
			job.FieldDelivery:       {Delivery: job.AtMostOnce},
			job.FieldRetry:          {Retry: &job.RetryPolicy{MaxAttempts: 7, MinBackoff: time.Second, MaxBackoff: time.Minute}},
			job.FieldAttemptTimeout: {AttemptTimeout: ptr(time.Minute)},
			job.FieldTimeZone:       {TimeZone: ptr("Asia/Tokyo")},
		} {
			s := f.inState(state)
			f.is(c.Fields(), field, "fields of the content")
			d := job.Decision{To: state, Cause: job.CauseUpdated, Round: s.Round, Delay: job.KeepDelay}
			if state.Updatable()&field == 0 {
				f.fails(f.changeContent(s, d, c).Err, store.ErrIllegal)
				f.unchanged(s)
				f.end(s.ID)
				continue
			}
			want := s
			want.Spec, want.Version = c.Apply(s.Spec), s.Version+1
			got := f.update(s, c)
			f.is(got.Spec, want.Spec, "%s: %v", state, field.Names())
			f.is([]any{got.State, got.Version, got.NextAt, got.ClaimToken, got.StartDeadline},
				[]any{s.State, s.Version + 1, s.NextAt, s.ClaimToken, s.StartDeadline}, "%s: %v: the rest", state, field.Names())
			f.is(f.job(s.ID).Spec, want.Spec, "%s: %v: stored", state, field.Names())
			f.end(s.ID)
		}
	}
}

func updateRefused(f *fixture) {
	c := store.Content{Payload: []byte("new"), HoldKey: "key-2"}
	for _, state := range job.States {
		if state == job.Scheduled {
			continue
		}
		s := f.inState(state)
		d := job.Decision{To: state, Cause: job.CauseUpdated, Round: s.Round, Delay: job.KeepDelay}
		f.fails(f.changeContent(s, d, c).Err, store.ErrIllegal)
		f.unchanged(s)
		f.end(s.ID)
	}
	s := f.submit()
	for _, d := range []job.Decision{
		{To: job.Scheduled, Cause: job.CauseRescheduled, Round: 1},
		{To: job.Canceled, Cause: job.CauseUpdated, Round: 1},
	} {
		f.fails(f.changeContent(s, d, c).Err, store.ErrIllegal)
	}
	f.unchanged(s)
	d := f.decide(s, job.UpdateAsked{})
	f.ok(f.changeContent(s, d, store.Content{Labels: map[string]string{"first": "wins"}}).Err)
	f.fails(f.changeContent(s, d, c).Err, store.ErrStale)
	f.is(string(f.job(s.ID).Payload), "payload", "payload")
}

// updateHold: the hold of a job's old hold key does not follow it, and the hold of the new
// one counts.
func updateHold(f *fixture) {
	f.submit(holding("held"))
	f.holdIt(job.FailAuth, 0)
	s := f.submit(holding("held"))
	f.claimed()
	s = f.update(s, store.Content{Payload: []byte("new"), HoldKey: "free"})
	f.claimed(s.ID)
	other := f.submit(holding("free"))
	f.update(other, store.Content{Payload: []byte("new"), HoldKey: "held"})
	f.claimed()
	next, err := f.s.NextDue(f.ctx, time.Second)
	f.ok(err)
	f.is(next, time.Second, "nothing is due under either key")
}

func updateEarly(f *fixture) {
	s := f.submit(at(start.Add(time.Hour)), holding("old"))
	stays := f.submit(at(start.Add(2*time.Hour)), holding("old"))
	f.update(s, store.Content{Payload: []byte("new"), HoldKey: "new"})
	f.claimed()
	f.clock.advance(time.Hour)
	f.claimed(s.ID)
	f.clock.advance(time.Hour)
	f.claimed(stays.ID)
}
