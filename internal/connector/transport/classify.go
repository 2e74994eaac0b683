package transport

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file, which a connector may only narrow, citing evidence:
//   - no byte written: NOT_SENT;
//   - bytes written and no complete answer: UNKNOWN, whatever its status;
//   - 2xx to a request that went out whole: SUCCEEDED;
//   - 4xx but 408: REJECTED, for now or for good (statuses);
//   - everything else, and whatever is not thought of here: UNKNOWN. A 5xx is
//     UNKNOWN too: platforms answer it after they have acted.

// means is what a complete answer with a status says of the attempt.
type means uint8

const (
	meansUnknown means = iota
	meansSent
	// meansFinal refuses for good, unless the answer asks to wait.
	meansFinal
	// meansGone refuses for good, whatever else the answer says.
	meansGone
	// meansForNow refuses, and another attempt may be accepted.
	meansForNow
	// meansLimited refuses for a rate limit, which holds the account and costs no attempt.
	meansLimited
	// meansAccount refuses the credential, which holds the account.
	meansAccount
)

// statuses has the default meaning of each status; one that is not listed is unknown.
// docs/statuses.md prints what the connectors make of it.
var statuses = []struct {
	from, to int
	means    means
}{
	{200, 299, meansSent},
	{401, 401, meansAccount},
	{408, 408, meansUnknown}, // the target may have read the request, and acts on it
	{410, 410, meansGone},
	{425, 425, meansForNow}, // "unwilling to risk processing a request" (RFC 8470, section 5.2)
	{429, 429, meansLimited},
	{400, 499, meansFinal},
}

func meaning(status int) means {
	for _, s := range statuses {
		if s.from <= status && status <= s.to {
			return s.means
		}
	}
	return meansUnknown
}

// Refuses reports whether a complete answer with the status is a refusal, if its target is one
// whose URL a user named (ClassifyNamed).
func Refuses(status int) bool {
	m := meaning(status)
	return m != meansUnknown && m != meansSent || status == http.StatusTemporaryRedirect || status == http.StatusPermanentRedirect
}

// temporary are the refusals that a used up rate limit explains: GitHub answers 403, others hide
// what they limit (404) or lock it (409, 423). Behind any other refusal, such as 400, the count
// is about requests that were let through.
var temporary = []int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusLocked, http.StatusTooEarly}

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
		o.Message = "this try sent nothing: " + Broke(a.Err)
	case a.Status == 0:
		o.Message = fmt.Sprintf("%s gave no complete answer (%s); it may have acted", who, Broke(a.Err))
	case !a.Complete:
		o.Message = fmt.Sprintf("%s answered %s, but the answer broke off (%s); it may have acted", who, StatusText(a.Status), Broke(a.Err))
	default:
		byStatus(&o, a, who, secrets)
	}
	o.Down = a.Written > 0 && (a.Status == 0 || a.Status >= http.StatusInternalServerError)
	if a.Complete && a.Written > 0 && o.Result != job.ResultSucceeded {
		judgeWait(&o, a)
	}
	return o
}

// judgeWait sets how long a refusal or an unknown outcome waits, and what kind of a refusal it
// is. One that asks to wait is for now: the target expects the request again.
func judgeWait(o *job.Outcome, a Response) {
	wait, stated := RetryAfter(a.Header, a.At)
	if o.Result == job.ResultUnknown || meaning(a.Status) == meansLimited || slices.Contains(temporary, a.Status) {
		wait, stated = a.Asked()
	}
	switch meaning(a.Status) {
	case meansLimited:
		o.Kind, o.RetryAfter = job.FailRateLimited, cmp.Or(wait, DefaultRetryAfter)
	case meansFinal:
		switch {
		case a.Status == http.StatusForbidden && a.LimitSpent():
			o.Kind, o.RetryAfter = job.FailRateLimited, wait
		case stated:
			o.Kind, o.RetryAfter = job.FailTransient, wait
		}
	case meansForNow, meansUnknown:
		o.RetryAfter = wait
	case meansSent, meansGone, meansAccount:
	}
	if stated && o.RetryAfter > 0 {
		o.Message += AsksToWait(a, wait)
	}
}

// AsksToWait ends the words about an answer that asks to wait; empty: no time is asked.
func AsksToWait(a Response, wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	if a.At.IsZero() {
		return "; it asks to wait"
	}
	return "; it asks to wait until " + a.At.Add(wait).UTC().Format(time.RFC3339)
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
	switch meaning(s) {
	case meansUnknown, meansSent:
	case meansAccount:
		o.Result, o.Kind = job.ResultRejected, job.FailAuth
	case meansForNow:
		o.Result, o.Kind = job.ResultRejected, job.FailTransient
	default:
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
//     secret. It is permanent for the job, unless the answer asks to wait.
//   - 409 to a KEYED request may mean "the same key is in progress", and 422 "the same
//     key with other bytes" (IETF draft idempotency-key-header, section 2.7): unknown, and
//     asked again later. So it is to a first attempt: the key follows from the client's,
//     and a database that was lost may have sent it before. The same holds for any refusal
//     whose body says that the key was there before (keySeen), and for one that is too long
//     to be read, because its body may say it.
//
// secrets is called only if the answer is quoted; with nil it never is. No list of
// secrets is complete for a target that is asked to repeat them: it may write them in
// any encoding.
func ClassifyNamed(a Response, who string, secrets func() Secrets, keyed bool) job.Outcome {
	o := classify(a, who, secrets)
	if o.Result == job.ResultSucceeded {
		o.Message += a.CutWords()
	}
	if !a.Complete || a.Written == 0 || o.Result == job.ResultSucceeded {
		return o
	}
	switch {
	case a.Status == http.StatusTemporaryRedirect, a.Status == http.StatusPermanentRedirect:
		o.Message = strings.TrimSuffix(o.Message, AsksToWait(a, o.RetryAfter)) + "; redirects are not followed, use the final URL"
		o.Result, o.Kind, o.RetryAfter = job.ResultRejected, job.FailPermanent, 0
	case a.Status >= 300 && a.Status <= http.StatusSeeOther:
		o.Message += "; redirects are not followed and it may have acted, use the final URL"
	case a.Status == http.StatusConflict && keyed:
		Doubt(&o, "; an earlier request with the same key may be in progress")
		o.RetryAfter = a.Wait(DefaultRetryAfter)
	case keyed && o.Result == job.ResultRejected && (a.Status == http.StatusUnprocessableEntity || a.TooLong || keySeen(a)):
		Doubt(&o, KeySeenBefore)
		Postpone(&o, a)
	case a.Status == http.StatusUnauthorized:
		o.Kind = job.FailPermanent
		if wait, stated := RetryAfter(a.Header, a.At); stated {
			o.Kind, o.RetryAfter = job.FailTransient, wait
			o.Message += AsksToWait(a, wait)
		}
	}
	o.Message += a.CutWords()
	o.Message = Clean(o.Message, MaxMessage)
	return o
}

// Postpone has a refusal, or an unknown outcome, that does not wait yet wait for as long as the
// answer asks, by a rate limit too.
func Postpone(o *job.Outcome, a Response) {
	if wait, stated := a.Asked(); stated && o.RetryAfter == 0 {
		o.RetryAfter = wait
		addAsked(o, a, wait)
	}
}

// Limit has a refusal for a rate limit, whatever its status, wait for as long as the answer asks,
// or otherwise if it does not say.
func Limit(o *job.Outcome, a Response, otherwise time.Duration) {
	wait, stated := a.asked(true)
	if o.RetryAfter = otherwise; stated {
		o.RetryAfter = wait
		addAsked(o, a, wait)
	}
}

// addAsked adds what an answer asks to the words about it, once.
func addAsked(o *job.Outcome, a Response, wait time.Duration) {
	if words := AsksToWait(a, wait); !strings.Contains(o.Message, words) {
		o.Message = Clean(o.Message+words, MaxMessage)
	}
}

// CutWords end the words about an answer that was not read to its end; empty: it was.
func (a Response) CutWords() string {
	switch {
	case !a.TooLong:
		return ""
	case a.OutOfTime:
		return "; its answer did not end in time, and was cut"
	default:
		return "; its answer is longer than Fireonce reads, and was cut"
	}
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

// StatusText returns a status code with its name, as messages show it.
func StatusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}
