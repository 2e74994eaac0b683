package httpapi

import (
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// sent is a request that is sent for one attempt.
type sent struct {
	request request
	auth    kit.Auth
	keyed   bool
}

// headers returns the connector's own headers.
func (s *sent) headers(c connector.Commit) (ours []transport.Header) {
	if kind := s.request.message.ContentType; kind != "" {
		ours = append(ours, transport.Header{Name: "Content-Type", Value: kind})
	}
	if s.keyed {
		// Bare, as Stripe and its like want it. Our sender cannot send again, whatever
		// the headers say.
		ours = append(ours, transport.Header{Name: s.request.keyHeader, Value: c.EffectKey})
	}
	return ours
}

// narrow narrows the rules of transport.ClassifyNamed, and only this: a success names the object.
//
// A 5xx is unknown as everywhere. Stripe stores it and answers it to every
// repeat; the repeats are bounded by the key window and the job's start window,
// and end with a person.
func (s *sent) narrow(o *job.Outcome, a transport.Response) {
	if o.Result == job.ResultSucceeded && s.request.id != nil {
		// The owner names the pointers; even so, a target may echo the request.
		id, found := s.request.id.find(a.Excerpt)
		if found = found && s.auth.Hidden.Redact(id) == id; found {
			o.ExternalID = id
		} else {
			o.Message += "; it has no id at " + transport.Clean(s.request.id.String(), maxPointer)
		}
	}
}
