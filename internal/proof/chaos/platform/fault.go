package platform

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Fault is what goes wrong with one request.
type Fault string

// The faults. Late is outside what Fireonce assumes of a platform, all others
// are within it.
const (
	// None: nothing goes wrong.
	None Fault = ""

	// Drop acts, and resets the connection instead of answering.
	Drop Fault = "drop"
	// ErrorAfter acts, and answers 500, 502, 503 or 504.
	ErrorAfter Fault = "error-after"
	// ResetMid acts, and resets the connection in the middle of the status line.
	ResetMid Fault = "reset-mid"
	// Truncate acts, and ends the connection in the middle of the answer's body.
	Truncate Fault = "truncate"
	// Trickle acts, and answers so slowly that the client should give up.
	Trickle Fault = "trickle"
	// Silence acts, and never answers.
	Silence Fault = "silence"
	// Delay acts some time after the request came, also when its client is gone by
	// then. A look is read immediately and answered late.
	Delay Fault = "delay"

	// ResetBefore does nothing, and resets the connection.
	ResetBefore Fault = "reset-before"
	// Unavailable does nothing, and answers 503.
	Unavailable Fault = "unavailable"
	// RateLimit does nothing, and answers 429 with Retry-After. Fireonce holds the
	// whole connection then, so that a small rate goes a long way.
	RateLimit Fault = "rate-limit"
	// Refuse does nothing, and answers 422.
	Refuse Fault = "refuse"

	// Unauthorized does nothing, and refuses the credential, as if it was revoked.
	// It is no share of the requests, but lasts until its owner submits another one.
	Unauthorized Fault = "unauthorized"

	// Late resets the connection and acts Faults.LateBy later, beyond the client's
	// fence.
	Late Fault = "late"

	// Slow works on the request for Faults.Work, and then acts, also when its client is gone
	// by then. A receiver without a lock has looked for the key before, and stores it after:
	// what comes with the same key meanwhile acts too.
	Slow Fault = "slow"

	// Stale answers a look with a listing from earlier, as a cache does.
	Stale Fault = "stale"
)

// Kinds lists the faults of requests for an effect, LookKinds those of looks.
// Rates are summed up in this order, so that it belongs to what a seed means.
var (
	Kinds = []Fault{
		Drop, ErrorAfter, ResetMid, Truncate, Trickle, Silence, Delay, ResetBefore, Unavailable, RateLimit, Refuse, Late, Slow,
	}
	LookKinds = []Fault{Drop, ErrorAfter, ResetMid, Truncate, Trickle, Silence, Delay, Unavailable, RateLimit, Stale}
)

// Commits reports whether a request with this fault has its effect, now or later.
func (f Fault) Commits() bool {
	switch f {
	case ResetBefore, Unavailable, RateLimit, Refuse, Unauthorized:
		return false
	default:
		return true
	}
}

// Rates is which share of requests has which fault. The rest has none.
type Rates map[Fault]float64

// check refuses rates that are no shares of a whole.
func (r Rates) check(kinds []Fault) error {
	known := make(map[Fault]bool, len(kinds))
	for _, k := range kinds {
		known[k] = true
	}
	sum := 0.0
	for k, rate := range r {
		if !known[k] {
			return fmt.Errorf("no fault %q here", k)
		}
		if !(rate >= 0 && rate <= 1) {
			return fmt.Errorf("the rate of %s is %v", k, rate)
		}
		sum += rate
	}
	if sum > 1+1e-9 {
		return fmt.Errorf("the rates add up to %v", sum)
	}
	return nil
}

// pick returns the fault at a place between 0 and 1.
func (r Rates) pick(kinds []Fault, at float64) Fault {
	for _, k := range kinds {
		if at < r[k] {
			return k
		}
		at -= r[k]
	}
	return None
}

// Duration is a time.Duration that JSON writes as "1.5s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// Faults is what goes wrong from now on. The zero value: nothing, and posts
// are listed immediately.
type Faults struct {
	// Rates are those of requests for an effect.
	Rates Rates `json:"rates,omitempty"`
	// Faces overrides Rates for one kind of face: FaceKeyed, FaceUnlocked, FaceOpaque,
	// FaceFeed, or a site's name.
	Faces map[string]Rates `json:"faces,omitempty"`
	// Looks are those of the feed's listings.
	Looks Rates `json:"looks,omitempty"`
	// ReadLag is the longest time that a post is not listed after it was made; each
	// has its own between zero and this.
	ReadLag Duration `json:"read_lag,omitempty"`
	// Delay is the longest delay of Delay; each request has its own.
	Delay Duration `json:"delay,omitempty"`
	// LateBy is how long after a request Late acts.
	LateBy Duration `json:"late_by,omitempty"`
	// Work is how long Slow works.
	Work Duration `json:"work,omitempty"`
	// Trickle is how long an answer with that fault takes to go out. Zero means 5 s.
	Trickle Duration `json:"trickle,omitempty"`
	// RetryAfter is what RateLimit asks for, in whole seconds. Zero means 1 s.
	RetryAfter Duration `json:"retry_after,omitempty"`
}

// Check refuses faults that cannot be.
func (f Faults) Check() error {
	errs := []error{f.Rates.check(Kinds), f.Looks.check(LookKinds)}
	for face, rates := range f.Faces {
		if face != KindOf(face) {
			errs = append(errs, fmt.Errorf("%q is no kind of face", face))
		}
		errs = append(errs, rates.check(Kinds))
	}
	if min(f.ReadLag, f.Delay, f.LateBy, f.Work, f.Trickle, f.RetryAfter) < 0 {
		errs = append(errs, errors.New("a negative duration"))
	}
	return errors.Join(errs...)
}

// of returns the rates of a face.
func (f Faults) of(face string) Rates {
	if rates, ok := f.Faces[KindOf(face)]; ok {
		return rates
	}
	return f.Rates
}

// DefaultFaults is a bad day within the assumptions: of 100 answers 30 are lost
// after the effect, and about 15 more requests go wrong in other ways.
func DefaultFaults() Faults {
	return Faults{
		Rates: Rates{
			Drop: 0.30, ErrorAfter: 0.03, ResetMid: 0.02, Truncate: 0.02, Trickle: 0.005, Silence: 0.01, Delay: 0.02,
			ResetBefore: 0.02, Unavailable: 0.02, RateLimit: 0.001, Refuse: 0.002,
		},
		Looks: Rates{
			Drop: 0.02, ErrorAfter: 0.01, ResetMid: 0.01, Truncate: 0.01, Trickle: 0.002, Silence: 0.002, Delay: 0.02,
			Unavailable: 0.02, RateLimit: 0.0005, Stale: 0.02,
		},
		ReadLag: Duration(200 * time.Millisecond), Delay: Duration(500 * time.Millisecond),
		Trickle: Duration(5 * time.Second), RetryAfter: Duration(time.Second),
	}
}

// parseFaults reads faults and checks them. Empty text: none.
func parseFaults(text []byte) (Faults, error) {
	var f Faults
	if len(text) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return Faults{}, err
	}
	return f, f.Check()
}
