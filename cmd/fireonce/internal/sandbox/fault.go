package sandbox

import (
	"bytes"
	"net/url"
	"time"
)

// Fault is what goes wrong with one request. Its text is the name of its button, and in brackets
// the words that request it.
type Fault string

const (
	// None: nothing goes wrong.
	None Fault = ""
	// LoseAnswer acts, and resets the connection instead of answering.
	LoseAnswer Fault = "lose the answer"
	// LoseRequest resets the connection before the platform has seen the request.
	LoseRequest Fault = "lose the request"
	// CommitLate resets the connection, and acts lateBy later.
	CommitLate Fault = "commit late"
	// Slow acts, and answers slowBy later.
	Slow Fault = "slow"
	// Unauthorized refuses the credential, in the platform's own words; no effect.
	Unauthorized Fault = "401"
	// RateLimit asks to wait, in the platform's own words; no effect.
	RateLimit Fault = "429"
)

const (
	// lateBy is less than a fence: an effect after the fence is outside of the promise.
	lateBy = 2 * time.Second
	// slowBy is longer than the sandbox's server waits for an answer.
	slowBy = 5 * time.Second
	// limitFor is how long a rate limit lasts, where the platform's answer names a time.
	limitFor = 3 * time.Second
)

// overHTTP are the faults of platforms that speak HTTP, overSMTP those of the relay.
var (
	overHTTP = []Fault{LoseAnswer, LoseRequest, CommitLate, Slow, Unauthorized, RateLimit}
	overSMTP = []Fault{LoseAnswer, LoseRequest, Slow, RateLimit}
)

// refuses reports whether the platform answers and does nothing.
func (f Fault) refuses() bool { return f == Unauthorized || f == RateLimit }

// About describes a fault for people.
func (f Fault) About() string {
	switch f {
	case LoseAnswer:
		return "The platform acts, and its answer never comes."
	case LoseRequest:
		return "The request never arrives."
	case CommitLate:
		return "The connection breaks, and the platform acts two seconds later."
	case Slow:
		return "The platform acts, and answers after five seconds: Fireonce waits for three."
	case Unauthorized:
		return "The platform refuses the credential. The account is on hold until you give it a new one; Payments and Webhooks refuse the job."
	case RateLimit:
		return "The platform asks to wait a few seconds."
	default:
		return ""
	}
}

// word returns the first fault of a list that a text requests, "[lose the answer]" say, also in the
// encoding of a form.
func word(text []byte, of []Fault) Fault {
	plain, err := url.QueryUnescape(string(text))
	for _, f := range of {
		asks := "[" + string(f) + "]"
		if bytes.Contains(text, []byte(asks)) || err == nil && bytes.Contains([]byte(plain), []byte(asks)) {
			return f
		}
	}
	return None
}
