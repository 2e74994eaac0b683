package job

import (
	"flag"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The simulated job is a record in memory to which decisions are applied as in a store. Its
// workers may crash, hang and answer late, and its platform may apply, refuse or lose each
// request. Time is in seconds of one clock.

const (
	simGrace     = 30
	simAnswer    = 30
	simSend      = 10
	simReadLag   = 5
	simKeyWindow = 3600
	simWindow    = 7200
)

// simAttempt is one armed try, with its true outcome.
type simAttempt struct {
	number, round int
	armedAt       int
	result        Result // as recorded
	sent, applied bool   // the truth: bytes written; effect (or the key's effect) exists
	refused, lost bool   // the truth: the platform decided against it, or never got it
	ended         bool   // the worker is gone and cannot send any more
	reported      bool
}

func (a *simAttempt) fence() int { return a.armedAt + simAnswer + simGrace }
func (a *simAttempt) inFlight() bool {
	return a.sent && !a.applied && !a.refused && !a.lost
}

type simJob struct {
	t        *rapid.T
	v        View
	now      int
	deadline int
	window   int
	due      int
	lease    int
	attempts []*simAttempt
	effects  int
	keys     map[int]int // round to the moment the platform first applied it
	persons  bool        // a person ruled that something be sent again, or not sent
	assumed  bool
	look     *simLook
}

type simLook struct {
	attempt int
	present bool
}

func newSimJob(t *rapid.T) *simJob {
	s := &simJob{t: t, deadline: simWindow, window: simWindow, keys: map[int]int{}}
	s.v.Class = rapid.SampledFrom([]Class{Keyed, Observable, Opaque}).Draw(t, "class")
	s.v.Delivery = rapid.SampledFrom([]Delivery{OnceOrAsk, AtMostOnce, AtLeastOnce}).Draw(t, "policy")
	s.v.Retry.MaxAttempts = rapid.IntRange(1, 6).Draw(t, "attempts")
	s.v.Retry.KeepTrying = rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 5 * time.Hour}).Draw(t, "keep trying")
	s.v.State, s.v.Round, s.v.Version = Scheduled, 1, 1
	s.v.Traits = Traits{Class: s.v.Class, KeyWindow: simKeyWindow * time.Second, ReadLag: simReadLag * time.Second}
	if s.v.Class == Observable {
		s.v.Traits.Negatives, s.v.Traits.Spacing = 2, 10*time.Second
	}
	return s
}

// view returns the view with its durations as of now.
func (s *simJob) view() View {
	v := s.v
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	v.WindowLeft = seconds(s.deadline - s.now)
	v.Open = nil
	v.KeyAge, v.NewRound = 0, len(s.attempts) > 0
	for _, a := range s.attempts {
		if a.result.Open() {
			v.Open = append(v.Open, a.number)
		}
		v.NewRound = v.NewRound && a.round != v.Round
		if a.round == v.Round && v.KeyAge == 0 {
			v.KeyAge = seconds(s.now - a.armedAt)
		}
	}
	if n := len(s.attempts); n > 0 {
		v.FenceLeft = seconds(s.attempts[n-1].fence() - s.now)
	}
	v.DueLeft = seconds(s.lease - s.now)
	if v.State.Runnable() {
		v.DueLeft = seconds(s.due - s.now)
	}
	return v
}

// give passes evidence to Decide and applies the decision.
func (s *simJob) give(e Evidence) Decision {
	before := s.view()
	d, err := Decide(before, e)
	if err != nil || d.Action != ActWrite {
		return d
	}
	if !Legal(before.State, d.To) || before.State == Succeeded && d.To != Succeeded {
		s.t.Fatalf("I4: %s to %s on %T", before.State, d.To, e)
	}
	for _, a := range s.attempts {
		if a.result.Open() && d.CloseOpen != 0 {
			a.result = d.CloseOpen
		}
	}
	for _, settled := range d.Settle {
		s.attempts[settled.Attempt-1].result = settled.Result
	}
	s.v.Job = applied(before, d).Job
	s.v.Version++
	if d.Delay >= 0 {
		s.due = s.now + int((d.Delay+time.Second-1)/time.Second)
		if !d.StartAt.IsZero() {
			s.due = max(s.due, int(d.StartAt.Unix()))
		}
	}
	if d.Window > 0 {
		s.window = int(d.Window / time.Second)
	}
	if d.NewWindow {
		s.deadline = s.due + s.window
	}
	if d.KeepTrying > 0 {
		s.began(before.KeepTrying)
	}
	s.assumed = s.assumed || d.Effect != nil && d.Effect.Proof == ProofAssumed
	return d
}

// began moves the deadline of a job that had not begun before.
func (s *simJob) began(before time.Duration) {
	keep := s.v.Retry.Keep()
	if before == 0 {
		s.deadline = s.now + int(keep/time.Second)
	}
	s.v.KeepTrying = keep
}

func (s *simJob) last() *simAttempt {
	if len(s.attempts) == 0 {
		return nil
	}
	return s.attempts[len(s.attempts)-1]
}

// arm writes an intent and checks it against I1 and I3, by the true outcomes.
func (s *simJob) arm() {
	for _, a := range s.attempts {
		if !a.ended && s.now < a.armedAt+simSend {
			s.t.Fatalf("I1: attempt %d is armed while %d may still send", s.v.Attempt+1, a.number)
		}
		sameKey := s.v.Class == Keyed && a.round == s.v.Round && s.now-s.firstArm(a.round) < simKeyWindow
		overridden := a.round != s.v.Round
		if (a.applied || a.inFlight()) && !sameKey && !overridden && !s.persons {
			s.t.Fatalf("I3: attempt %d is armed, and %d, recorded as %s, may have an effect", s.v.Attempt+1, a.number, a.result)
		}
		if a.result.Open() && !sameKey {
			s.t.Fatalf("I3: attempt %d is armed while %d is open", s.v.Attempt+1, a.number)
		}
	}
	s.v.Attempt++
	if s.v.Attempt > MaxAttempts {
		s.t.Fatalf("armed %d times", s.v.Attempt)
	}
	s.began(s.v.KeepTrying)
	s.v.State, s.v.Claims = Sending, 0
	s.v.Version++
	s.attempts = append(s.attempts, &simAttempt{number: s.v.Attempt, round: s.v.Round, armedAt: s.now})
}

func (s *simJob) firstArm(round int) int {
	i := slices.IndexFunc(s.attempts, func(a *simAttempt) bool { return a.round == round })
	return s.attempts[i].armedAt
}

// apply makes the platform act on a request that arrived.
func (s *simJob) apply(a *simAttempt) {
	a.applied = true
	first, known := s.keys[a.round]
	if s.v.Class == Keyed && known && s.now-first < simKeyWindow {
		return // the platform dedupes
	}
	s.keys[a.round] = s.now
	s.effects++
}

// settleOverdue ends the requests that have reached their limit: a request acts before the
// fence of its attempt or never.
func (s *simJob) settleOverdue() {
	for _, a := range s.attempts {
		if s.now >= a.armedAt+simSend {
			a.ended = a.ended || !a.sent
		}
		if a.inFlight() && s.now >= a.fence()-1 {
			a.lost = true
		}
	}
}

// pick draws one of the attempts for which fits returns true.
func (s *simJob) pick(t *rapid.T, fits func(*simAttempt) bool) *simAttempt {
	var some []*simAttempt
	for _, a := range s.attempts {
		if fits(a) {
			some = append(some, a)
		}
	}
	if len(some) == 0 {
		t.Skip("no attempt fits")
	}
	return rapid.SampledFrom(some).Draw(t, "attempt")
}

// outcome returns an outcome that a worker can truthfully report for an attempt.
func (s *simJob) outcome(a *simAttempt, t *rapid.T) Outcome {
	o := Outcome{Attempt: a.number, Result: ResultUnknown, Kind: FailAmbiguous}
	heard := rapid.Bool().Draw(t, "heard")
	switch {
	case !a.sent:
		o.Result, o.Kind = ResultNotSent, FailTransient
	case heard && a.applied:
		o.Result, o.Kind = ResultSucceeded, 0
	case heard && a.refused:
		o.Result = ResultRejected
		o.Kind = rapid.SampledFrom([]FailureKind{FailAuth, FailPermanent, FailRateLimited, FailTransient}).Draw(t, "kind")
	}
	a.ended, a.reported = true, true
	return o
}

// lookDue acts as the reconciler does when the job is due.
func (s *simJob) lookDue() {
	if s.v.State != Ambiguous || s.now < s.due {
		return
	}
	d := s.give(LookDue{})
	switch d.Action {
	case ActRearm:
		if s.v.Class != Keyed || s.now >= s.deadline {
			s.t.Fatalf("re-arm of %s, window %d s", s.v.Class, s.deadline-s.now)
		}
		s.arm()
	case ActObserve:
		if s.now < s.last().fence()+simReadLag {
			s.t.Fatal("I8: a look begins before the fence and the read lag")
		}
		s.look = &simLook{attempt: s.v.Attempt, present: s.effects > 0}
	}
}

// lookFirst makes the look before a later arm and reports whether the arm may follow.
func (s *simJob) lookFirst() bool {
	if s.v.Class != Observable || s.v.Attempt == 0 {
		return true
	}
	s.look = &simLook{attempt: s.v.Attempt, present: s.effects > 0}
	s.lookEnds(false)
	return s.v.State == Claimed
}

func (s *simJob) lookEnds(broken bool) {
	o := Observation{Attempt: s.look.attempt, Verdict: SawAbsent}
	switch {
	case broken:
		o.Verdict = SawInconclusive
	case s.look.present:
		o.Verdict, o.ExternalID = SawPresent, "found"
	}
	s.look = nil
	s.give(Looked{Observation: o})
}

// check compares the record with the true outcomes after every step.
func (s *simJob) check() {
	limit := 1
	if s.v.Delivery == AtLeastOnce || s.persons {
		limit = max(1, s.v.Attempt)
	}
	if s.effects > limit {
		s.t.Fatalf("I6: %d effects, at most %d are allowed", s.effects, limit)
	}
	judged := s.v.Delivery == OnceOrAsk || s.v.Delivery == AtMostOnce
	if s.persons || !judged {
		return
	}
	switch s.v.State {
	case Succeeded:
		if s.effects == 0 && !s.assumed {
			s.t.Fatal("SUCCEEDED, and there is no effect")
		}
	case Retrying, Failed, Canceled, Expired, Scheduled:
		for _, a := range s.attempts {
			if a.applied || a.inFlight() {
				s.t.Fatalf("%s, and attempt %d, recorded as %s, may have an effect", s.v.State, a.number, a.result)
			}
		}
	}
}

// rarely returns true once in 60 draws. Actions that end a job early use it, so that most
// jobs do not end early.
func rarely(t *rapid.T) bool { return rapid.IntRange(0, 59).Draw(t, "rarely") == 7 }

// requestedTime draws a time for which a client may ask, or the zero time. Second 0 of the
// model is the Unix epoch.
func (s *simJob) requestedTime(t *rapid.T) time.Time {
	if rapid.Bool().Draw(t, "now") {
		return time.Time{}
	}
	return time.Unix(int64(s.now+rapid.IntRange(1, 3600).Draw(t, "in")), 0)
}

func (s *simJob) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": func(*rapid.T) { s.check() },
		"time passes": func(t *rapid.T) {
			s.now += rapid.SampledFrom([]int{1, 1, 5, 5, 10, 20, 40, 65, 300}).Draw(t, "seconds")
			s.settleOverdue()
		},
		"claim": func(*rapid.T) {
			if s.v.State.Runnable() && s.now >= s.due && s.now < s.deadline {
				s.v.State, s.lease = Claimed, s.now+60
				s.v.Version++
			}
		},
		"claim fails": func(t *rapid.T) {
			k := rapid.SampledFrom([]FailureKind{FailAuth, FailPermanent, FailRateLimited, FailTransient, FailHeld}).Draw(t, "kind")
			if s.v.State == Claimed && rarely(t) {
				s.give(Deferred{Kind: k})
			}
		},
		"worker runs": func(*rapid.T) {
			if !s.v.State.Runnable() || s.due >= s.deadline {
				return
			}
			s.now = max(s.now, s.due)
			s.settleOverdue()
			if s.now < s.deadline {
				s.v.State, s.lease = Claimed, s.now+60
				if s.lookFirst() {
					s.arm()
					s.last().sent = true
				}
			}
		},
		"reconciler runs": func(*rapid.T) {
			if s.v.State == Ambiguous {
				s.now = max(s.now, s.due)
				s.settleOverdue()
				s.lookDue()
			}
		},
		"arm": func(*rapid.T) {
			if s.v.State == Claimed && s.now < s.lease && s.now < s.deadline && s.lookFirst() {
				s.arm()
			}
		},
		"send": func(t *rapid.T) {
			a := s.pick(t, func(a *simAttempt) bool { return !a.ended && !a.sent && s.now < a.armedAt+simSend })
			a.sent = true
		},
		"platform acts": func(t *rapid.T) {
			a := s.pick(t, (*simAttempt).inFlight)
			switch rapid.IntRange(0, 2).Draw(t, "fate") {
			case 0:
				s.apply(a)
			case 1:
				a.refused = true
			default:
				a.lost = true
			}
		},
		"worker dies":          func(t *rapid.T) { s.pick(t, func(a *simAttempt) bool { return !a.ended }).ended = true },
		"worker reports":       func(t *rapid.T) { s.give(s.outcome(s.pick(t, func(a *simAttempt) bool { return !a.ended }), t)) },
		"worker reports again": func(t *rapid.T) { s.give(s.outcome(s.pick(t, func(a *simAttempt) bool { return a.reported }), t)) },
		"lease over":           func(*rapid.T) { s.give(LeaseOver{}) },
		"fence over":           func(*rapid.T) { s.give(FenceOver{}) },
		"window over":          func(*rapid.T) { s.give(WindowOver{}) },
		"look due":             func(*rapid.T) { s.lookDue() },
		"cancel": func(t *rapid.T) {
			if rarely(t) {
				s.give(CancelAsked{})
			}
		},
		"retry the job": func(t *rapid.T) { s.give(RetryAsked{At: s.requestedTime(t)}) },
		"reschedule": func(t *rapid.T) {
			window := rapid.SampledFrom([]time.Duration{0, time.Hour, 3 * time.Hour}).Draw(t, "window")
			s.give(RescheduleAsked{At: s.requestedTime(t), Window: window})
		},
		"run now": func(*rapid.T) { s.give(RunNowAsked{}) },
		"update":  func(*rapid.T) { s.give(UpdateAsked{}) },
		"terms":   func(*rapid.T) { s.give(UpdateAsked{Fields: FieldDelivery | FieldRetry}) },
		"restore": func(t *rapid.T) {
			if rarely(t) {
				s.give(Restored{Since: time.Unix(int64(s.now), 0)})
			}
		},
		"look ends": func(t *rapid.T) {
			if s.look != nil {
				s.lookEnds(rapid.Bool().Draw(t, "broken"))
			}
		},
		"person rules": func(t *rapid.T) {
			r := rapid.SampledFrom([]Ruling{RuleSent, RuleNotSent, RuleResend, RuleCancel}).Draw(t, "ruling")
			if d, err := Decide(s.view(), Resolved{Ruling: r, Override: true}); err == nil && d.Action == ActWrite && rarely(t) {
				s.persons = true
				s.give(Resolved{Ruling: r, Override: true})
			}
		},
	}
}

// drain stops all faults and runs the job until it ends, as invariant I5 demands.
func (s *simJob) drain() {
	for range 3000 {
		if s.v.State.Terminal() || s.v.State == NeedsResolution {
			return
		}
		s.now += 30
		s.settleOverdue()
		for _, a := range s.attempts {
			a.ended = true
		}
		s.give(FenceOver{})
		s.give(LeaseOver{})
		s.give(WindowOver{})
		s.lookDue()
		if s.look != nil {
			s.lookEnds(false)
		}
		s.check()
	}
	s.t.Fatalf("I5: still %s after a day without faults", s.v.State)
}

func TestModel(t *testing.T) {
	for name, value := range map[string]string{"rapid.checks": "4000", "rapid.steps": "80"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			if err := flag.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	ends := map[State]int{}
	rearms, effects := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := newSimJob(t)
		t.Repeat(s.actions())
		s.drain()
		ends[s.v.State]++
		effects += s.effects
		rearms += max(0, s.v.Attempt-1)
	})
	t.Logf("ends %v, effects %d, later attempts %d", ends, effects, rearms)
	if effects == 0 || rearms == 0 {
		t.Error("the model never got as far as an effect or a second attempt")
	}
}
