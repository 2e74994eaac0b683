package lookup

import (
	"errors"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Unseen is a look that failed: inconclusive, and in the error's words. Those of a
// *Refusal come without its cause, which may name addresses of our network, and with
// the time that the platform wants to be left alone for, or the news that the credential
// was refused. One that is good, but not for reading, is not: what else is done with it
// works.
func Unseen(err error) job.Observation {
	out := job.Observation{Verdict: job.SawInconclusive, Detail: err.Error()}
	var r *connector.Refusal
	if errors.As(err, &r) {
		out.Detail = r.Msg
		if r.Kind == job.FailAuth && !errors.Is(err, connector.ErrNotAllowed) {
			out.Kind, out.Auth = job.FailAuth, r.Cause()
		}
		if r.Kind == job.FailRateLimited {
			out.RetryAfter = r.RetryAfter
		}
	}
	out.Detail = transport.Clean(out.Detail, transport.MaxMessage)
	return out
}

// Saw returns an observation with a detail that is fit for a message.
func Saw(v job.Verdict, detail string) job.Observation {
	return job.Observation{Verdict: v, Detail: transport.Clean(detail, transport.MaxMessage)}
}
