package rules_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

var (
	now   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	id    = job.ID{1}
	other = job.ID{2}
	claim = job.ID{3}
)

// claimed is a job under a lease, and an intent that may be written for it.
func claimed() (store.Arm, rules.Armable) {
	s := &job.Snapshot{Now: now}
	s.ID, s.Connection, s.HoldKey = id, job.ID{9}, "account"
	s.Status = job.Status{
		State: job.Claimed, Version: 7, Round: 1, Class: job.Observable, ScheduleTime: now.Add(-time.Minute),
		StartDeadline: now.Add(time.Hour), NextAt: now.Add(time.Minute), ClaimToken: claim, Worker: "w", Claims: 2, Blocked: "why",
	}
	a := store.Arm{
		Job: id, Version: 7, Claim: claim, Token: job.ID{4}, Worker: "w", Class: job.Observable, EffectKey: "key",
		Digest: []byte("digest"), SendBy: time.Second, AnswerBy: 2 * time.Second, Fence: 3 * time.Second,
	}
	return a, rules.Armable{Snapshot: s, ClaimedAt: now.Add(-time.Second)}
}

// ambiguous is a job whose first attempt's outcome is unknown, and a repeat of it.
func ambiguous() (store.Arm, rules.Armable) {
	a, j := claimed()
	a.Rearm = true
	j.State, j.Attempt, j.Open, j.Handle = job.Ambiguous, 1, []int{1}, "handle"
	j.RoundArmed, j.RoundKey, j.RoundDigest = now.Add(-time.Minute), "key", "digest"
	return a, j
}

type guard struct {
	name  string
	spoil func(*store.Arm, *rules.Armable)
	want  error
}

// guards are those of every intent, in the order in which they are checked.
var guards = []guard{
	{"another version", func(a *store.Arm, _ *rules.Armable) { a.Version++ }, store.ErrStale},
	{"another state", func(_ *store.Arm, j *rules.Armable) { j.State = job.Retrying }, store.ErrIllegal},
	{"another claim", func(a *store.Arm, _ *rules.Armable) { a.Claim = other }, store.ErrStale},
	{"no claim", func(a *store.Arm, j *rules.Armable) { a.Claim, j.ClaimToken = job.ID{}, job.ID{} }, store.ErrStale},
	{"the lease is over", func(_ *store.Arm, j *rules.Armable) { j.NextAt = now }, store.ErrStale},
	{"canceled", func(_ *store.Arm, j *rules.Armable) { j.CancelAsked = now }, store.ErrStale},
	{"the window is over", func(_ *store.Arm, j *rules.Armable) { j.StartDeadline = now }, store.ErrWindowOver},
	{"held", func(_ *store.Arm, j *rules.Armable) { j.Held = true }, store.ErrHeld},
	{"quarantined", func(_ *store.Arm, j *rules.Armable) { j.Suspension.Quarantined = "a copy" }, store.ErrHeld},
	{"in doubt", func(_ *store.Arm, j *rules.Armable) { j.Suspension.Clock = store.SuspectClock{Suspends: true} }, store.ErrHeld},
	{"under way", func(_ *store.Arm, j *rules.Armable) { j.UnderWay = 1 }, store.ErrIllegal},
	{"cooling", func(_ *store.Arm, j *rules.Armable) {
		j.CoolDowns = []store.CoolDown{{Owner: j.Spec.Connection, For: time.Hour}}
		j.Last = func(job.ID) store.LastArm { return store.LastArm{Job: other, ArmedAt: now.Add(-time.Minute)} }
	}, store.ErrCoolDown},
}

var firstGuards = []guard{
	{"no class", func(a *store.Arm, _ *rules.Armable) { a.Class = 0 }, store.ErrIllegal},
	{"an open attempt", func(_ *store.Arm, j *rules.Armable) { j.Attempt, j.Open = 1, []int{1} }, store.ErrIllegal},
}

var repeatGuards = []guard{
	{"no attempt in the round", func(_ *store.Arm, j *rules.Armable) { j.RoundArmed = time.Time{} }, store.ErrIllegal},
	{"another effect key", func(a *store.Arm, _ *rules.Armable) { a.EffectKey = "another" }, store.ErrIllegal},
	{"the time to keep trying is over", func(_ *store.Arm, j *rules.Armable) {
		j.StartDeadline, j.KeepTrying = now, job.DefaultKeepTrying
	}, store.ErrWindowOver},
	{"the policy keeps trying for less by now", func(a *store.Arm, j *rules.Armable) {
		j.StartDeadline, j.KeepTrying, a.KeepTrying = now.Add(time.Hour), 2*time.Hour, time.Hour
	}, store.ErrWindowOver},
	{"other bytes", func(a *store.Arm, _ *rules.Armable) { a.Digest = []byte("other") }, store.ErrIllegal},
}

func TestArmRefuses(t *testing.T) {
	for kind, of := range map[string]struct {
		arm    func() (store.Arm, rules.Armable)
		guards []guard
	}{
		"first":  {claimed, slices.Concat(guards, firstGuards)},
		"repeat": {ambiguous, slices.Concat(guards, repeatGuards)},
	} {
		t.Run(kind, func(t *testing.T) {
			if err := rules.Arm(of.arm()); err != nil {
				t.Fatalf("refused: %v", err)
			}
			for _, g := range of.guards {
				a, j := of.arm()
				g.spoil(&a, &j)
				err := rules.Arm(a, j)
				if kind == "repeat" && errors.Is(g.want, store.ErrCoolDown) {
					if err != nil {
						t.Errorf("%s: %v, and a repeat passes", g.name, err)
					}
					continue
				}
				if !errors.Is(err, g.want) {
					t.Errorf("%s: %v, want %v", g.name, err, g.want)
				}
			}
		})
	}
}

// If several guards refuse, the first one is named; no guard compensates for another.
func TestArmNamesTheFirstRefusal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, j := claimed()
		var first *guard
		// A claim that is no claim and one that is another's spoil each other.
		ordered := slices.DeleteFunc(slices.Clone(guards), func(g guard) bool { return g.name == "no claim" })
		for i := range ordered {
			if rapid.Bool().Draw(t, ordered[i].name) {
				ordered[i].spoil(&a, &j)
				if first == nil {
					first = &ordered[i]
				}
			}
		}
		switch err := rules.Arm(a, j); {
		case first == nil && err != nil:
			t.Fatalf("refused: %v", err)
		case first != nil && !errors.Is(err, first.want):
			t.Fatalf("%v, want that of %q", err, first.name)
		}
	})
}

func TestGate(t *testing.T) {
	a, _ := claimed()
	for owner, shut := range map[job.ID]bool{{}: false, id: false, other: true} {
		if err := rules.Gate(a, owner); errors.Is(err, store.ErrGated) != shut || !shut && err != nil {
			t.Errorf("of %s: %v", owner, err)
		}
	}
}

func TestBegin(t *testing.T) {
	a, j := claimed()
	before := *j.Snapshot
	s, attempt := rules.Begin(a, j)
	if err := same(before, *j.Snapshot); err != nil {
		t.Error(err)
	}
	if attempt.Number != 1 || attempt.Round != 1 || attempt.Handle != "" || !attempt.ArmedAt.Equal(now) ||
		!attempt.ClaimedAt.Equal(j.ClaimedAt) || !attempt.SendDeadline.Equal(now.Add(time.Second)) || attempt.Result != 0 {
		t.Errorf("attempt %+v", attempt)
	}
	fence := now.Add(3 * time.Second)
	if s.State != job.Sending || s.Version != 8 || s.Attempt != 1 || !s.ClaimToken.IsZero() || !s.NextAt.Equal(fence) ||
		!s.Fence.Equal(fence) || s.Claims != 0 || s.Blocked != "" || !slices.Equal(s.Open, []int{1}) || s.RoundKey != "key" ||
		!s.RoundArmed.Equal(now) {
		t.Errorf("job %+v", s)
	}

	a, j = ambiguous()
	a.Class = job.Opaque
	s, attempt = rules.Begin(a, j)
	if attempt.Number != 2 || attempt.Handle != "handle" || s.Class != job.Observable || !slices.Equal(s.Open, []int{1, 2}) ||
		!s.RoundArmed.Equal(now.Add(-time.Minute)) {
		t.Errorf("a repeat: %+v of %+v", attempt, s)
	}
	if !slices.Equal(j.Open, []int{1}) {
		t.Errorf("the view was changed: %v", j.Open)
	}
}

// TestBeginKeepsTrying checks that the start window ends with the first attempt, that the time
// to keep trying counts from there, and that each arm has it as the policy is then.
func TestBeginKeepsTrying(t *testing.T) {
	a, j := claimed()
	first, _ := rules.Begin(a, j)
	if first.KeepTrying != job.DefaultKeepTrying || !first.StartDeadline.Equal(now.Add(job.DefaultKeepTrying)) {
		t.Errorf("without a policy: %v until %v", first.KeepTrying, first.StartDeadline)
	}
	a.KeepTrying = 5 * time.Hour
	if first, _ = rules.Begin(a, j); !first.StartDeadline.Equal(now.Add(5 * time.Hour)) {
		t.Errorf("until %v", first.StartDeadline)
	}
	a, j = ambiguous()
	a.KeepTrying, j.KeepTrying, j.StartDeadline = 9*time.Hour, 2*time.Hour, now.Add(-time.Hour)
	if err := rules.Arm(a, j); err != nil {
		t.Errorf("the policy keeps trying for longer by now: %v", err)
	}
	if again, _ := rules.Begin(a, j); again.KeepTrying != a.KeepTrying || !again.StartDeadline.Equal(now.Add(6*time.Hour)) {
		t.Errorf("counted from when it began: until %v", again.StartDeadline)
	}
	a.Rearm, j.State, j.Open = false, job.Claimed, nil
	if err := rules.Arm(a, j); !errors.Is(err, store.ErrWindowOver) {
		t.Errorf("a claim goes by the stored end: %v", err)
	}
}

func same(a, b job.Snapshot) error {
	if a.State != b.State || a.Version != b.Version || a.Attempt != b.Attempt || len(a.Open) != len(b.Open) {
		return errors.New("the view was changed")
	}
	return nil
}

// The job after an arm is what a reader of its rows would read.
func TestBeginIsWhatItsRowsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, j := claimed()
		var attempts rules.AttemptViews
		for n := range rapid.IntRange(0, 4).Draw(t, "attempts") {
			attempts = append(attempts, rules.AttemptView{
				Number: n + 1, Round: 1 + n/2, Result: rapid.SampledFrom([]job.Result{job.ResultRejected, job.ResultUnknown}).Draw(t, "result"),
				ArmedAt: now.Add(time.Duration(n-9) * time.Minute), Fence: now.Add(time.Duration(n-8) * time.Minute),
				Handle: rapid.SampledFrom([]string{"", "handle"}).Draw(t, "handle"), EffectKey: "key", Digest: "digest",
			})
		}
		j.Attempt, j.Round = len(attempts), rapid.IntRange(max(1, (len(attempts)+1)/2), 3).Draw(t, "round")
		a.Rearm = rapid.Bool().Draw(t, "repeat")
		attempts.Complete(j.Snapshot)
		got, attempt := rules.Begin(a, j)
		want := job.Snapshot{Now: now, Job: got.Job}
		append(attempts, rules.ViewOf(got, attempt)).Complete(&want)
		if !slices.Equal(got.Open, want.Open) || !got.RoundArmed.Equal(want.RoundArmed) || got.RoundKey != want.RoundKey ||
			!got.Fence.Equal(want.Fence) || got.Handle != want.Handle {
			t.Fatalf("it leaves %+v, its rows say %+v", got, want)
		}
	})
}

func TestAttemptViews(t *testing.T) {
	attempts := rules.AttemptViews{{Number: 1, Round: 1, Result: job.ResultUnknown, Digest: "1"}, {Number: 2, Round: 2, Digest: "2", Fence: now}}
	if attempts.UnderWay() != 2 || attempts.RoundDigest(2) != "2" || attempts.RoundDigest(3) != "" || !attempts.Fence().Equal(now) ||
		!slices.Equal(attempts.Results(), []job.Result{job.ResultUnknown, 0}) {
		t.Errorf("%+v", attempts)
	}
	if none := rules.AttemptViews(nil); none.UnderWay() != 0 || !none.Fence().IsZero() || len(none.Results()) != 0 {
		t.Errorf("%+v", none)
	}
}

func TestHold(t *testing.T) {
	for _, tt := range []struct {
		hold          rules.Hold
		held, stopped bool
	}{
		{rules.Hold{}, false, false},
		{rules.Hold{Paused: true}, true, true},
		{rules.Hold{Refused: true}, true, true},
		{rules.Hold{LimitedUntil: now}, false, false},
		{rules.Hold{LimitedUntil: now.Add(1)}, true, false},
	} {
		if tt.hold.Held(now) != tt.held || tt.hold.Stopped() != tt.stopped {
			t.Errorf("%+v: held %v, stopped %v", tt.hold, tt.hold.Held(now), tt.hold.Stopped())
		}
	}
}

func TestStill(t *testing.T) {
	doubt := store.SuspectClock{Suspends: true, Why: "ahead"}
	for _, tt := range []struct {
		still          rules.Suspension
		refuse, copied error
	}{
		{rules.Suspension{}, nil, nil},
		{rules.Suspension{Clock: store.SuspectClock{Why: "ahead"}}, nil, nil},
		{rules.Suspension{Clock: doubt}, store.ErrClockSuspect, nil},
		{rules.Suspension{Quarantined: "a copy", Clock: doubt}, store.ErrQuarantined, store.ErrQuarantined},
	} {
		if got := tt.still.Refuse(); !errors.Is(got, tt.refuse) || tt.still.Suspended() != (tt.refuse != nil) {
			t.Errorf("%+v: %v", tt.still, got)
		}
		if got := tt.still.RefuseQuarantined(); !errors.Is(got, tt.copied) {
			t.Errorf("%+v: %v", tt.still, got)
		}
	}
}
