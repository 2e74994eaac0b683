package judge_test

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// run is a run's accounts, to be falsified.
type run struct {
	submits []judge.Submit
	finals  []judge.Final
	log     []platform.Record
	events  []judge.Event
}

func each[T any](of []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range of {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func (r *run) judge(t *testing.T) *judge.Report {
	t.Helper()
	report, err := judge.Judge(judge.Input{
		Name: "test", Submits: r.submits, Finals: r.finals, Log: each(r.log), Events: each(r.events),
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// faceOf is where jobs of a class have their effects.
func faceOf(class job.Class) string {
	switch class {
	case job.Keyed:
		return platform.FaceKeyed
	case job.Observable:
		return platform.FaceFeed + "/a"
	default:
		return platform.FaceOpaque
	}
}

// submit adds a job that was acknowledged, and whose first event is in the log.
func (r *run) submit(name string, class job.Class, policy job.Delivery) *judge.Final {
	id := "id-of-" + name
	r.submits = append(r.submits, judge.Submit{
		Key: "key of " + name, Subject: name, Class: class, Delivery: policy,
		Acks: []judge.Ack{{JobID: id, ScheduleTime: noon, Created: true}},
	})
	r.finals = append(r.finals, judge.Final{JobID: id, Key: "key of " + name})
	f := &r.finals[len(r.finals)-1]
	r.to(f, job.Scheduled)
	return f
}

// to moves a job on.
func (r *run) to(f *judge.Final, states ...job.State) {
	for _, s := range states {
		f.Sequence++
		r.events = append(r.events, judge.Event{JobID: f.JobID, Sequence: f.Sequence, Time: noon, From: f.State, To: s, Cause: "TEST"})
		f.State = s
		if s == job.Sending {
			r.events[len(r.events)-1].EffectKey = f.JobID
			f.Attempts++
		}
	}
}

// request is a request for a subject, and its effect if it is to have one.
func (r *run) request(f *judge.Final, class job.Class, fault platform.Fault) (effect string) {
	n := int64(len(r.log) + 1)
	name := strings.TrimPrefix(f.JobID, "id-of-")
	rec := platform.Record{Type: platform.TypeRequest, N: n, Time: noon, Face: faceOf(class), Subject: name, Fault: fault}
	if class != job.Observable {
		rec.Key = f.JobID
	}
	r.log = append(r.log, rec)
	if !fault.Commits() {
		return ""
	}
	rec.Type, rec.ID = platform.TypeEffect, "effect of "+name
	r.log = append(r.log, rec)
	return rec.ID
}

// done is one job of a class that was done in the simplest way.
func done(class job.Class) *run {
	r := new(run)
	f := r.submit("s", class, job.OnceOrAsk)
	r.to(f, job.Claimed, job.Sending)
	id := r.request(f, class, platform.None)
	r.to(f, job.Succeeded)
	f.Proof = job.ProofResponse
	if class == job.Observable {
		f.ExternalID = id
	}
	return r
}

var classes = []job.Class{job.Keyed, job.Observable, job.Opaque}

func TestCorrectRuns(t *testing.T) {
	for _, class := range classes {
		if got := done(class).judge(t); !got.OK() || got.Total.Jobs != 1 || got.Total.Effects != 1 || got.Total.Succeeded != 1 || got.Events != 4 {
			t.Errorf("%v: %+v", class, got)
		}
	}
}

// TestViolations: each kind of violation is found where it is, and nothing else.
func TestViolations(t *testing.T) {
	for name, c := range map[string]struct {
		class   job.Class
		falsify func(*run)
		want    []judge.Kind
		count   func(judge.Row) int // nil: violations
	}{
		"an effect twice": {
			class: job.Opaque, want: []judge.Kind{judge.Duplicate}, count: func(r judge.Row) int { return r.Duplicates },
			falsify: func(r *run) { r.log = append(r.log, r.log[1]) },
		},
		"an assumed effect twice": {
			class: job.Opaque, want: []judge.Kind{judge.Duplicate}, count: func(r judge.Row) int { return r.Surplus },
			falsify: func(r *run) {
				r.submits[0].Delivery, r.finals[0].Proof = job.AtMostOnce, job.ProofAssumed
				r.log = append(r.log, r.log[1])
			},
		},
		"more effects than arms": {
			class: job.Opaque, want: []judge.Kind{judge.BeyondArms},
			falsify: func(r *run) {
				r.submits[0].Delivery = job.AtLeastOnce
				r.log = append(r.log, r.log[1])
			},
		},
		"a job that is not there any more": {
			class: job.Keyed, want: []judge.Kind{judge.Lost}, count: func(r judge.Row) int { return r.Lost },
			falsify: func(r *run) { r.finals = nil },
		},
		"a job that does not end": {
			class: job.Keyed, want: []judge.Kind{judge.Stuck}, count: func(r judge.Row) int { return r.Lost },
			falsify: func(r *run) {
				r.finals[0].State, r.finals[0].Sequence, r.finals[0].Proof = job.Sending, 3, 0
				r.events = r.events[:3]
			},
		},
		"two jobs of one key": {
			class: job.Keyed, want: []judge.Kind{judge.CreatedTwice},
			falsify: func(r *run) {
				other := r.finals[0]
				other.JobID, other.State, other.Sequence, other.Attempts = "another", job.Canceled, 2, 0
				r.finals = append(r.finals, other)
				r.events = append(r.events,
					judge.Event{JobID: "another", Sequence: 1, To: job.Scheduled},
					judge.Event{JobID: "another", Sequence: 2, From: job.Scheduled, To: job.Canceled})
			},
		},
		"a repeat that is told another job": {
			class: job.Keyed, want: []judge.Kind{judge.CreatedTwice},
			falsify: func(r *run) {
				r.submits[0].Acks = append(r.submits[0].Acks, judge.Ack{JobID: "another", ScheduleTime: noon})
			},
		},
		"a repeat that is told to be the first": {
			class: job.Keyed, want: []judge.Kind{judge.CreatedTwice},
			falsify: func(r *run) { r.submits[0].Acks = append(r.submits[0].Acks, r.submits[0].Acks[0]) },
		},
		"a repeat that is told another time": {
			class: job.Keyed, want: []judge.Kind{judge.MovedTime},
			falsify: func(r *run) {
				a := r.submits[0].Acks[0]
				a.Created, a.ScheduleTime = false, noon.Add(time.Microsecond)
				r.submits[0].Acks = append(r.submits[0].Acks, a)
			},
		},
		"a success without an effect": {
			class: job.Keyed, want: []judge.Kind{judge.FalseSucceeded}, count: func(r judge.Row) int { return r.FalseSucceeded },
			falsify: func(r *run) { r.log = r.log[:1] },
		},
		"a success with another's effect": {
			class: job.Observable, want: []judge.Kind{judge.FalseSucceeded}, count: func(r judge.Row) int { return r.FalseSucceeded },
			falsify: func(r *run) { r.finals[0].ExternalID = "effect of another" },
		},
		"a post without a name": {
			class: job.Observable, want: []judge.Kind{judge.FalseSucceeded}, count: func(r judge.Row) int { return r.FalseSucceeded },
			falsify: func(r *run) { r.finals[0].ExternalID = "" },
		},
		"a failure with an effect": {
			class: job.Observable, want: []judge.Kind{judge.FalseFailed}, count: func(r judge.Row) int { return r.FalseFailed },
			falsify: func(r *run) { r.end(job.Failed) },
		},
		"an expiry with an effect": {
			class: job.Observable, want: []judge.Kind{judge.FalseFailed}, count: func(r judge.Row) int { return r.FalseFailed },
			falsify: func(r *run) {
				r.events[3].To = job.Retrying
				r.events = append(r.events, judge.Event{JobID: "id-of-s", Sequence: 5, From: job.Retrying, To: job.Expired})
				r.finals[0].State, r.finals[0].Sequence, r.finals[0].Proof, r.finals[0].ExternalID = job.Expired, 5, 0, ""
			},
		},
		"a request more than was armed": {
			class: job.Keyed, want: []judge.Kind{judge.Unarmed},
			falsify: func(r *run) { r.log = append(r.log, r.log[0]) },
		},
		"a request under a key that nothing was armed with": {
			class: job.Keyed, want: []judge.Kind{judge.ForeignKey},
			falsify: func(r *run) { r.log[0].Key = "id-of-another" },
		},
		"a request under a key too many": {
			class: job.Keyed, want: []judge.Kind{judge.ForeignKey},
			falsify: func(r *run) {
				r.finals[0].Attempts = 2
				r.log = append(r.log, r.log[0])
				r.log[len(r.log)-1].Key = "of-another"
				r.events = append(r.events, judge.Event{JobID: "id-of-s", Sequence: 1, EffectKey: "of-another"}) // a repeat
			},
		},
		"a request under the key of another subject": {
			class: job.Keyed, want: []judge.Kind{judge.ForeignKey, judge.Stranger},
			falsify: func(r *run) {
				r.log = append([]platform.Record{r.log[0]}, r.log...)
				r.log[0].Subject = "other"
			},
		},
		"an effect that nobody asked for": {
			class: job.Keyed, want: []judge.Kind{judge.Stranger},
			falsify: func(r *run) {
				r.log = append(r.log, platform.Record{Type: platform.TypeEffect, Subject: "other", ID: "x"})
			},
		},
		"a job that nobody asked for": {
			class: job.Keyed, want: []judge.Kind{judge.Stranger},
			falsify: func(r *run) {
				r.finals = append(r.finals, judge.Final{JobID: "j", Key: "nobody's", State: job.Canceled})
			},
		},
		"a job that only its events know": {
			class: job.Keyed, want: []judge.Kind{judge.Stranger},
			falsify: func(r *run) { r.events = append(r.events, judge.Event{JobID: "j", Sequence: 1, To: job.Scheduled}) },
		},
		"an event that is missing": {
			class: job.Keyed, want: []judge.Kind{judge.Gap},
			falsify: func(r *run) { r.events = slices.Delete(r.events, 1, 2) },
		},
		"no first event": {
			class: job.Keyed, want: []judge.Kind{judge.Gap},
			falsify: func(r *run) { r.events = r.events[1:] },
		},
		"no last event": {
			class: job.Keyed, want: []judge.Kind{judge.Gap},
			falsify: func(r *run) { r.events = r.events[:3] },
		},
		"no events": {
			class: job.Keyed, want: []judge.Kind{judge.Gap},
			falsify: func(r *run) { r.events = nil },
		},
		"an event from elsewhere": {
			class: job.Keyed, want: []judge.Kind{judge.Gap},
			falsify: func(r *run) { r.events[2].From = job.Retrying },
		},
		"a write without an event": {
			class: job.Keyed, want: []judge.Kind{judge.Gap},
			falsify: func(r *run) { r.finals[0].Sequence++ },
		},
		"a transition that is none": {
			class: job.Keyed, want: []judge.Kind{judge.Illegal},
			falsify: func(r *run) {
				r.events = slices.Delete(r.events, 1, 2)
				for i := range r.events {
					r.events[i].Sequence = int64(i + 1)
				}
				r.events[1].From = job.Scheduled
				r.finals[0].Sequence = 3
			},
		},
	} {
		r := done(c.class)
		c.falsify(r)
		got := r.judge(t)
		var kinds []judge.Kind
		for _, v := range got.Violations {
			kinds = append(kinds, v.Kind)
			if len(v.Story) == 0 && v.Kind != judge.Stranger {
				t.Errorf("%s: no story", name)
			}
		}
		if !slices.Equal(kinds, c.want) || got.OK() || got.Total.Violations != len(c.want) {
			t.Errorf("%s: %v, not %v\n%+v", name, kinds, c.want, got)
		}
		if c.count != nil && c.count(got.Total) != 1 {
			t.Errorf("%s: not counted\n%+v", name, got.Total)
		}
	}
}

// end changes how the only job ended.
func (r *run) end(in job.State) {
	r.finals[0].State, r.finals[0].Proof, r.finals[0].ExternalID = in, 0, ""
	r.events[len(r.events)-1].To = in
}

// TestTwins: two jobs for one text make two posts, each its own.
func TestTwins(t *testing.T) {
	twins := func() *run {
		r := done(job.Observable)
		second := done(job.Observable)
		second.finals[0].JobID, second.finals[0].Key, second.finals[0].ExternalID = "twin", "twin's key", "post 2"
		second.submits[0].Key, second.submits[0].Acks[0].JobID = "twin's key", "twin"
		second.log[1].ID = "post 2"
		for i := range second.events {
			second.events[i].JobID = "twin"
		}
		r.submits, r.finals = append(r.submits, second.submits...), append(r.finals, second.finals...)
		r.log, r.events = append(r.log, second.log...), append(r.events, second.events...)
		return r
	}
	if got := twins().judge(t); !got.OK() || got.Total.Effects != 2 || got.Total.Jobs != 2 {
		t.Errorf("%+v", got)
	}
	shared := twins()
	shared.finals[1].ExternalID = shared.finals[0].ExternalID
	if got := shared.judge(t); got.Kinds[judge.SharedEffect] != 1 || got.Total.Violations != 1 {
		t.Errorf("%+v", got)
	}
	third := twins()
	third.log = append(third.log, third.log[1])
	if got := third.judge(t); got.Kinds[judge.Duplicate] != 1 || got.Total.Surplus != 1 {
		t.Errorf("%+v", got)
	}
	one := twins()
	one.log = one.log[:2]
	if got := one.judge(t); got.Total.FalseSucceeded == 0 || got.OK() {
		t.Errorf("%+v", got)
	}
	failed := twins()
	failed.end(job.Failed) // the first's final, the second's last event
	failed.events[3].To, failed.events[7].To = job.Failed, job.Succeeded
	if got := failed.judge(t); got.Kinds[judge.FalseFailed] != 1 || got.Total.Violations != 1 {
		t.Errorf("%+v", got)
	}
}

// TestNotViolations: what a service may do when it does not know.
func TestNotViolations(t *testing.T) {
	unknown := done(job.Opaque)
	unknown.events[3].To = job.Ambiguous
	unknown.finals[0].Proof = 0
	unknown.finals[0].State = job.Ambiguous
	unknown.to(&unknown.finals[0], job.NeedsResolution)
	if got := unknown.judge(t); !got.OK() || got.Total.Unknown != 1 || got.Total.UnknownEffect != 1 {
		t.Errorf("unknown: %+v", got)
	}
	unknown.log[0].Fault, unknown.log = platform.ResetBefore, unknown.log[:1]
	if got := unknown.judge(t); !got.OK() || got.Total.Unknown != 1 || got.Total.UnknownEffect != 0 {
		t.Errorf("unknown without an effect: %+v", got)
	}
	assumed := done(job.Opaque)
	assumed.submits[0].Delivery, assumed.finals[0].Proof = job.AtMostOnce, job.ProofAssumed
	assumed.log = assumed.log[:1]
	if got := assumed.judge(t); !got.OK() || got.Total.Assumed != 1 || got.Total.AssumedEffect != 0 || got.Rows[0].Class != "OPAQUE AT_MOST_ONCE" {
		t.Errorf("assumed: %+v", got)
	}
	resent := done(job.Opaque)
	resent.submits[0].Delivery, resent.finals[0].Attempts, resent.finals[0].Round = job.AtLeastOnce, 2, 2
	resent.log = append(resent.log, resent.log...)
	resent.log[2].Key = "id-of-s.2"
	resent.events = append(resent.events, judge.Event{JobID: "id-of-s", Sequence: 1, EffectKey: "id-of-s.2"}) // a repeat
	if got := resent.judge(t); !got.OK() || got.Total.Resent != 1 || got.Total.Duplicates != 0 {
		t.Errorf("resent: %+v", got)
	}
	unheard := done(job.Keyed)
	unheard.submits[0].Acks = nil
	if got := unheard.judge(t); !got.OK() || got.Total.Unanswered != 1 || got.Total.Jobs != 1 {
		t.Errorf("unheard: %+v", got)
	}
	never := &run{submits: []judge.Submit{{Key: "k", Subject: "s", Class: job.Keyed}}}
	if got := never.judge(t); !got.OK() || got.Total.Jobs != 0 {
		t.Errorf("never: %+v", got)
	}
	repeated := done(job.Keyed)
	repeated.events = append(repeated.events, repeated.events[1:]...)
	repeated.submits[0].Acks = append(repeated.submits[0].Acks, judge.Ack{JobID: "id-of-s", ScheduleTime: noon})
	if got := repeated.judge(t); !got.OK() {
		t.Errorf("repeated: %+v", got)
	}
}

func TestIgnoredSubjects(t *testing.T) {
	r := done(job.Keyed)
	r.log = append(r.log, platform.Record{Type: platform.TypeEffect, Subject: "control-1"})
	report, err := judge.Judge(judge.Input{
		Submits: r.submits, Finals: r.finals, Log: each(r.log),
		Ignore: func(subject string) bool { return strings.HasPrefix(subject, "control-") },
	})
	if err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestUnreadable: an account that cannot be read is no acquittal.
func TestUnreadable(t *testing.T) {
	broken := errors.New("broken")
	r := done(job.Keyed)
	in := judge.Input{Submits: r.submits, Finals: r.finals, Log: func(yield func(platform.Record, error) bool) { yield(platform.Record{}, broken) }}
	if _, err := judge.Judge(in); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	in.Log, in.Events = each(r.log), func(yield func(judge.Event, error) bool) { yield(judge.Event{}, broken) }
	if _, err := judge.Judge(in); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	in.Log = each([]platform.Record{{Type: "?", Subject: "s"}})
	if _, err := judge.Judge(in); err == nil {
		t.Error("a record of no type was passed over")
	}
}
