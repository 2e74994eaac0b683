package kit

import (
	"fmt"
	"net/http"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: an owner may state for how long a refusal is temporary. That changes
// whether and when a job is tried again, and never what an answer proves: an outcome that is
// unknown stays unknown, and a rate limit stays for now.

const (
	maxRefusals = 20
	// maxRetryFor is the limit of retry_for, as the contract has it.
	maxRetryFor = job.MaxKeepTrying
)

// Refusals says for how long refusals are temporary, by status: zero for one that is final,
// negative for one that is temporary for as long as the retry policy says.
type Refusals map[int]time.Duration

// ParseRefusals checks settings. It fails with *InputError.
func ParseRefusals(field string, stated []*connectionsv1.RefusalRule) (Refusals, error) {
	bad := Bad(connector.BadSettings, field+".refusals")
	if len(stated) > maxRefusals {
		return nil, bad("", fmt.Sprintf("at most %d", maxRefusals))
	}
	out := make(Refusals, len(stated))
	for i, s := range stated {
		status, worth := int(s.GetStatus()), time.Duration(-1)
		if !transport.Refuses(status) || status == http.StatusTooManyRequests {
			return nil, bad(fmt.Sprintf("[%d].status", i), "must be 307, 308, or 400 to 499 but not 408, which is no refusal, and 429, which is always for now")
		}
		if _, twice := out[status]; twice {
			return nil, bad(fmt.Sprintf("[%d].status", i), "is there twice")
		}
		if s.GetRetryFor() != nil {
			if worth = s.GetRetryFor().AsDuration(); !s.GetRetryFor().IsValid() || worth < 0 || worth > maxRetryFor {
				return nil, bad(fmt.Sprintf("[%d].retry_for", i), "must be 0 to 30 days")
			}
		}
		out[status] = worth
	}
	return out, nil
}

// Judge changes whether a refusal is worth another attempt, if a rule names its status.
func (r Refusals) Judge(o *job.Outcome, a transport.Response) {
	worth, named := r[a.Status]
	if !named || o.Result != job.ResultRejected || o.Kind != job.FailPermanent && o.Kind != job.FailTransient {
		return
	}
	words := "temporary"
	switch {
	case worth == 0:
		o.Kind, o.RetryAfter = job.FailPermanent, 0
		words = "final"
	case worth > 0:
		o.RetryFor = worth
		fallthrough
	default:
		if o.Kind == job.FailPermanent {
			o.Kind = job.FailTransient
			transport.Postpone(o, a)
		}
	}
	o.Message = transport.Clean(o.Message+"; by the connection's settings, this refusal is "+words, transport.MaxMessage)
}
