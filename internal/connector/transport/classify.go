package transport

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file, which a connector may only narrow, citing evidence:
//   - no byte written: NOT_SENT;
//   - bytes written and no complete answer: UNKNOWN, whatever its status;
//   - 2xx to a request that went out whole: SUCCEEDED;
//   - 429 and other 4xx but 408: REJECTED;
//   - everything else, and whatever is not thought of here: UNKNOWN. A 5xx is
//     UNKNOWN too: platforms answer it after they have acted.

// Bounds of a Retry-After.
const (
	// MinRetryAfter and MaxRetryAfter clamp what a target asks for.
	MinRetryAfter = time.Second
	MaxRetryAfter = 24 * time.Hour
	// DefaultRetryAfter is used for a 429 without a time.
	DefaultRetryAfter = 30 * time.Second
)

// Classify judges an answer by the default rules. who names the target in
// messages, e.g. "the receiver"; secrets do not appear in them. The outcome's
// Attempt is the caller's to set.
func Classify(a Response, who string, secrets Secrets) job.Outcome {
	return classify(a, who, func() Secrets { return secrets })
}

// NotQuoted replaces an answer's words, if the request carried a secret that the target
// may repeat.
const NotQuoted = " (its words are not shown, because the request carried a secret; the connection's quote_answers shows them)"

// classify calls secrets only if it quotes the answer; nil: it must not.
func classify(a Response, who string, secrets func() Secrets) job.Outcome {
	o := job.Outcome{HTTPStatus: a.Status, BytesWritten: a.Written, Result: job.ResultUnknown, Kind: job.FailAmbiguous, PeerEnded: a.PeerEnded()}
	switch {
	case a.Written == 0:
		o.Result, o.Kind, o.HTTPStatus = job.ResultNotSent, job.FailTransient, 0
		o.Message = "nothing was sent: " + Broke(a.Err)
	case a.Status == 0:
		o.Message = fmt.Sprintf("%s gave no complete answer (%s); it may have acted", who, Broke(a.Err))
	case !a.Complete:
		o.Message = fmt.Sprintf("%s answered %s, but the answer broke off (%s); it may have acted", who, StatusText(a.Status), Broke(a.Err))
	default:
		byStatus(&o, a, who, secrets)
	}
	if o.Result == job.ResultUnknown && a.Complete {
		o.RetryAfter, _ = RetryAfter(a.Header, a.At)
	}
	return o
}

func byStatus(o *job.Outcome, a Response, who string, secrets func() Secrets) {
	s := a.Status
	o.Message = who + " answered " + StatusText(s)
	if s >= 200 && s < 300 {
		if !a.Sent {
			o.Message += " before it had the whole request; it may have acted"
			return
		}
		o.Result, o.Kind = job.ResultSucceeded, 0
		return
	}
	switch {
	case secrets != nil:
		o.Message += excerpt(a, secrets())
	case len(a.Excerpt) > 0:
		o.Message += NotQuoted
	}
	switch {
	case s == http.StatusTooManyRequests:
		o.Result, o.Kind, o.RetryAfter = job.ResultRejected, job.FailRateLimited, a.Wait(DefaultRetryAfter)
	case s == http.StatusUnauthorized:
		o.Result, o.Kind = job.ResultRejected, job.FailAuth
	case s >= 400 && s < 500 && s != http.StatusRequestTimeout:
		o.Result, o.Kind = job.ResultRejected, job.FailPermanent
	}
}

// ClassifyNamed judges the answer of a target whose URL a user named. It narrows
// the default rules, and only these:
//
//   - 307 and 308 are refusals. They ask for this same request, method and body
//     unchanged, at another place (RFC 9110, sections 15.4.8 and 15.4.9), so it was
//     not acted on here; Standard Webhooks 1.0 calls every 3xx a failure. The other
//     3xx stay unknown: 303, and 302 as it is used, is what applications answer to a
//     POST that they *have* acted on (RFC 9110, section 15.4.4).
//   - 401 is no hold: another URL behind the same host and port may take another
//     secret. It is permanent for the job.
//   - 409 to a KEYED request may mean "the same key is in progress", and 422 "the same
//     key with other bytes" (IETF draft idempotency-key-header, section 2.7): unknown, and
//     asked again later. So it is to a first attempt: the key follows from the client's,
//     and a database that was lost may have sent it before.
//
// secrets is called only if the answer is quoted; with nil it never is. No list of
// secrets is complete for a target that is asked to repeat them: it may write them in
// any encoding.
func ClassifyNamed(a Response, who string, secrets func() Secrets, keyed bool) job.Outcome {
	o := classify(a, who, secrets)
	if !a.Complete || a.Written == 0 || o.Result == job.ResultSucceeded {
		return o
	}
	switch {
	case a.Status == http.StatusTemporaryRedirect, a.Status == http.StatusPermanentRedirect:
		o.Result, o.Kind, o.RetryAfter = job.ResultRejected, job.FailPermanent, 0
		o.Message += "; redirects are not followed, use the final URL"
	case a.Status >= 300 && a.Status <= http.StatusSeeOther:
		o.Message += "; redirects are not followed and it may have acted, use the final URL"
	case a.Status == http.StatusUnauthorized:
		o.Kind = job.FailPermanent
	case a.Status == http.StatusConflict && keyed:
		Doubt(&o, "; an earlier request with the same key may be in progress")
		o.RetryAfter = a.Wait(DefaultRetryAfter)
	case a.Status == http.StatusUnprocessableEntity && keyed:
		Doubt(&o, KeySeenBefore)
	}
	o.Message = Clean(o.Message, MaxMessage)
	return o
}

// Doubt makes an outcome unknown. why ends its message.
func Doubt(o *job.Outcome, why string) {
	o.Result, o.Kind = job.ResultUnknown, job.FailAmbiguous
	o.Message += why
}

// KeySeenBefore ends the words about a refusal that may be about the key.
const KeySeenBefore = "; a request with this key may have been there before, and may have acted"

// Unread returns, fit for a user, why an answer is not a read.
func Unread(a Response, who string, secrets Secrets) string {
	switch {
	case a.Status == 0:
		return Clean(who+" could not be read ("+Broke(a.Err)+")", MaxMessage)
	case !a.Complete:
		return Clean(who+" could not be read: it answered "+StatusText(a.Status)+", but the answer broke off ("+Broke(a.Err)+")", MaxMessage)
	default:
		return Clean(who+" could not be read: it answered "+StatusText(a.Status)+excerpt(a, secrets), MaxMessage)
	}
}

// RetryAfter reads the header of RFC 9110, section 10.2.3, in both its forms,
// clamped. stated reports whether there was a usable one. A time is compared with the answer's
// own Date, because our clock may be wrong, and with now only if it has none.
func RetryAfter(h http.Header, now time.Time) (wait time.Duration, said bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0, false
	}
	if digits(v) {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			n = uint64(MaxRetryAfter / time.Second) // more than fits
		}
		return clamp(time.Duration(n) * time.Second), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	return clamp(at.Sub(now)), true
}

// Wait is how long the answer asks to wait, or otherwise if it does not say.
func (a Response) Wait(otherwise time.Duration) time.Duration {
	if wait, said := RetryAfter(a.Header, a.At); said {
		return wait
	}
	return otherwise
}

// Until is how long it is from the answer to a time, clamped as a Retry-After is.
func (a Response) Until(at time.Time) time.Duration { return clamp(at.Sub(a.At)) }

func digits(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

func clamp(d time.Duration) time.Duration { return min(max(d, MinRetryAfter), MaxRetryAfter) }

// StatusText returns a status code with its name, as messages show it.
func StatusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}
