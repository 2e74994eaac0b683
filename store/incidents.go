package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: jobs that need a person are found, not kept. A read walks one part of an
// index in its order and stops at its limit, so its cost does not depend on how many jobs have
// ended. What it did not reach, it says (TroublePage.More).

// MostTroubles bounds the jobs that one read of Troubles, or of Unproven, walks.
const MostTroubles = 20_000

// Incidents finds jobs that need a person.
type Incidents interface {
	// Troubles reads the jobs of a project that are in a kind of trouble: of TroubleUnknown and
	// TroubleWaiting those with the earliest times first, of TroubleFailed the newest ends
	// first. It walks at most Limit jobs of each state, at most MostTroubles.
	Troubles(ctx context.Context, q TroubleQuery) (TroublePage, error)
	// Unproven reads the jobs of a project that count as SUCCEEDED without a proof, newest first:
	// because a person ruled so, or because their delivery assumes it.
	Unproven(ctx context.Context, q TroubleQuery) (TroublePage, error)
}

// TroubleKind is why a job may need a person.
type TroubleKind uint8

const (
	// TroubleUnknown: AMBIGUOUS or NEEDS_RESOLUTION. It may have been sent.
	TroubleUnknown TroubleKind = iota + 1
	// TroubleFailed: FAILED or EXPIRED.
	TroubleFailed
	// TroubleWaiting: SCHEDULED or RETRYING, due, and behind no other job: it is held, or late.
	TroubleWaiting
)

// TroubleQuery selects jobs.
type TroubleQuery struct {
	Project string
	Kind    TroubleKind
	// Since bounds the ends of TroubleFailed, and the effects of Unproven; inclusive.
	Since time.Time
	Limit int
	// Job selects this job alone, whenever it ended; zero: all. Not of Unproven.
	Job job.ID
}

// TroublePage is the answer to a TroubleQuery.
type TroublePage struct {
	Now  time.Time
	Jobs []Trouble
	// More: the walk ended at its limit, so there may be other jobs.
	More bool
}

// Trouble is a job with what a person must know of it before they decide about many.
type Trouble struct {
	Job        job.ID
	Version    int64
	State      job.State
	Connection job.ID
	HoldKey    string
	Class      job.Class
	// Since is since when it is in trouble. TroubleUnknown: when the first attempt of its round
	// was armed, or without one when the job last changed. TroubleFailed: its end. TroubleWaiting:
	// when it fell due. Unproven: when its effect was believed.
	Since time.Time
	// First is how its first attempt ended that matters: TroubleUnknown: of those in its round
	// whose outcome is open. TroubleFailed: of those in its round. Without one it is Last.
	First TroubleCause
	// Last is the job's last error.
	Last TroubleCause
	// Open reports that the outcome of an attempt in its round is open.
	Open bool
	// Attempts are those in its round, and Looks the looks of its present chain.
	Attempts, Looks int
	// NextAt is when its next look, or its next start, is due; zero: none is. Fence is when its last
	// attempt can no longer act; zero: it has none.
	NextAt, Fence time.Time
	// Seen has the verdicts of its looks for the attempts since First, and SeenLast the last
	// one of all; 0: there was no look. SeenAt is when that one ended.
	Seen     Verdicts
	SeenLast job.Verdict
	SeenAt   time.Time
	// Results are those of the attempts in its round; of TroubleFailed, of all its attempts.
	Results Results
	// Ruled, of TroubleFailed, reports that a person's ruling NOT_SENT ended the job, and nothing else.
	Ruled bool
	// Hold, of TroubleWaiting, is what holds it back; empty: nothing. A refused credential comes
	// before a pause, and that before a rate limit. HeldSince and HeldUntil are zero where they are
	// not known.
	Hold                 HoldCause
	Auth                 job.AuthCause
	HeldSince, HeldUntil time.Time
	// Proof, of Unproven, is why the effect is believed.
	Proof job.Proof
}

// TroubleCause is how an attempt, or a job, failed.
type TroubleCause struct {
	Kind       job.FailureKind
	HTTPStatus int
}

// Verdicts is a set of job.Verdict: bit n is the value n.
type Verdicts uint32

// Results is a set of job.Result: bit n is the value n.
type Results uint32

// Has reports whether the set has a verdict.
func (v Verdicts) Has(one job.Verdict) bool { return v>>one&1 == 1 }

// Has reports whether the set has a result.
func (r Results) Has(one job.Result) bool { return r>>one&1 == 1 }

// From returns Since, or the beginning of all times.
func (q TroubleQuery) From() time.Time {
	if q.Since.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return job.Micros(q.Since)
}

// NewestFirst orders the jobs of Unproven.
func (p *TroublePage) NewestFirst() {
	slices.SortFunc(p.Jobs, func(a, b Trouble) int {
		return cmp.Or(b.Since.Compare(a.Since), bytes.Compare(b.Job[:], a.Job[:]))
	})
}

// Walked bounds the jobs that a query walks.
func (q TroubleQuery) Walked() int {
	if q.Limit < 1 || q.Limit > MostTroubles {
		return MostTroubles
	}
	return q.Limit
}

// TroubleFacts are what an engine reads of a job, from which its Trouble follows.
type TroubleFacts struct {
	// Trouble has what is stored as such: Job to Class, Last, Looks, NextAt, Fence, Seen, SeenLast
	// and SeenAt.
	Trouble
	Updated, Ended time.Time
	// Newest is the newest attempt; 0: there was none.
	Newest       int
	NewestResult job.Result
	NewestCause  TroubleCause
	NewestArmed  time.Time
	// First is the first attempt before the newest one that matters (see Trouble.First); 0: none.
	FirstNumber int
	FirstCause  TroubleCause
	// Earlier are the attempts of the newest one's round before it, and EarlierArmed when the
	// first of them was armed.
	Earlier      int
	EarlierArmed time.Time
	// Paused is since when the connection is paused, AuthAt since when a credential holds the job's
	// hold key, and LimitedUntil the end of its rate limit.
	Paused, AuthAt, LimitedUntil time.Time
	Cause                        job.AuthCause
	// Ruling is the last one, made at RuledAt; 0: none.
	Ruling  job.Ruling
	RuledAt time.Time
}

// matters are the results by which an attempt may have had an effect.
func matters(r job.Result) bool { return r.Open() || r == job.ResultAccepted }

// Of returns the trouble of a kind that the facts show.
func (f *TroubleFacts) Of(kind TroubleKind, now time.Time) Trouble {
	t := f.Trouble
	if f.Newest > 0 {
		t.Attempts = f.Earlier + 1
		t.Results |= 1 << f.NewestResult
	}
	switch {
	case f.FirstNumber > 0:
		t.First = f.FirstCause
	case f.Newest > 0 && (kind == TroubleFailed || matters(f.NewestResult)):
		t.First = f.NewestCause
	default:
		t.First = t.Last
	}
	if t.First.Kind == 0 { // it has no outcome, or one without a failure
		t.First.Kind = t.Last.Kind
	}
	switch kind {
	case TroubleUnknown:
		t.Open = f.FirstNumber > 0 || f.Newest > 0 && matters(f.NewestResult)
		t.Since = f.Updated
		if armed := f.EarlierArmed; t.Open && !armed.IsZero() {
			t.Since = armed
		} else if t.Open {
			t.Since = f.NewestArmed
		}
	case TroubleFailed:
		t.Since = f.Ended
		// A step back of the clock moves the end, and not the time of the ruling.
		t.Ruled = f.Ruling == job.RuleNotSent && !f.RuledAt.Before(f.Ended)
	case TroubleWaiting:
		t.Since = t.NextAt
		f.hold(&t, now)
	}
	return t
}

func (f *TroubleFacts) hold(t *Trouble, now time.Time) {
	switch {
	case !f.AuthAt.IsZero():
		t.Hold, t.Auth, t.HeldSince = HoldAuth, f.Cause, f.AuthAt
	case !f.Paused.IsZero():
		t.Hold, t.HeldSince = HoldPaused, f.Paused
	case f.LimitedUntil.After(now):
		t.Hold, t.HeldUntil = HoldRateLimit, f.LimitedUntil
	}
}
