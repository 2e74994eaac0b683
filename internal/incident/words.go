package incident

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: words for people. None of them quotes a platform, so they need no scope.

// Summary is the cause in words.
func (k Key) Summary() string {
	c := k.Cause
	switch {
	case k.Kind == Held:
		return holdWords(c)
	case k.Kind == Late:
		return "due, and not started: no server has taken the jobs, or the limits of their connection are reached"
	case c.Restored:
		return "the database was restored to an older state; the jobs may have been sent since"
	case c.HTTPStatus != 0:
		return strings.TrimSpace(fmt.Sprintf("the target answered %d %s", c.HTTPStatus, http.StatusText(c.HTTPStatus)))
	default:
		return kindWords[c.Kind]
	}
}

func holdWords(c Cause) string {
	switch c.Hold {
	case store.HoldAuth:
		return "the credential cannot be used: " + strings.ToLower(strings.ReplaceAll(c.Auth.String(), "_", " "))
	case store.HoldPaused:
		return "a pause holds the jobs"
	case store.HoldBreaker:
		return "the circuit breaker is open: the target could not be reached, did not answer, or answered 5xx"
	default:
		return "the platform limits the rate, or cannot be asked"
	}
}

var kindWords = map[job.FailureKind]string{
	job.FailAuth: "the credential was refused", job.FailPermanent: "the target refused the request",
	job.FailRateLimited: "the target limited the rate", job.FailTransient: "the target could not be reached",
	job.FailAmbiguous: "no complete answer arrived", job.FailEgressDenied: "the egress policy refuses the address",
	job.FailExhausted: "no connection could be made, in all its tries", job.FailWorkerCrash: "servers stopped before they sent it",
	job.FailWindowOver: "the start window passed", job.FailPredecessorEnded: "the job that it replies to ended without success",
}

// Advice is what a person can do.
func (in *Incident) Advice() string {
	switch in.Kind {
	case Unknown:
		if in.NextLook().IsZero() {
			return "Ask the receiver what it has of these keys, then decide: sent, not-sent, resend or cancel."
		}
		return "Fireonce still looks, or repeats under the same key. Wait for the next look, or ask the receiver what it has of these keys."
	case Failed:
		return "Repair the cause, then redeliver: each job is tried again under its own key."
	case Held:
		return heldAdvice(in.Cause)
	default:
		return "Check that a server runs and is not quarantined (fireonce health, fireonce servers), and the limits of the connection."
	}
}

func heldAdvice(c Cause) string {
	switch c.Hold {
	case store.HoldAuth:
		return "Supply a new credential (fireonce connections credential, or a login). Then the jobs start by themselves."
	case store.HoldPaused:
		return "End the pause when the jobs may be sent: fireonce pauses shows it, fireonce resume or fireonce connections resume ends it."
	case store.HoldBreaker:
		return "Repair the target. A probe that succeeds lets the jobs start: fireonce pauses shows the next one, fireonce resume does not wait for it."
	default:
		return "Nothing has to be done: it ends by itself."
	}
}
