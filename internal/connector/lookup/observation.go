package lookup

import (
	"errors"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Unseen is a look that failed: inconclusive, with the error's words. A *Refusal is
// reported without its cause, which may name addresses of our network, and with the
// pause that the platform asks for, or the fact that it refused the credential. A
// credential that is valid, but not for reading, is not reported as refused: everything
// else that uses it works.
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
