package httpapi

import (
	"encoding/json"
	"strings"

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

// narrow narrows the rules of transport.ClassifyNamed for KEYED targets, and only this:
// an answer whose body states that the key was used for another request
// (idempotencyErrors) is unknown at every attempt, also the first. A database that was lost
// or restored does not know of the request that used it. So is a refusal that is too long to be
// read, because its body may state that.
//
// A 5xx is unknown as everywhere. Stripe stores it and answers it to every
// repeat; the repeats are bounded by the key window and the job's start window,
// and end with a person.
func (s *sent) narrow(o *job.Outcome, a transport.Response) {
	switch {
	case o.Result == job.ResultSucceeded && s.request.id != nil:
		// The owner names the pointers; even so, a target may echo the request.
		id, found := s.request.id.find(a.Excerpt)
		if found = found && s.auth.Hidden.Redact(id) == id; found {
			o.ExternalID = id
		} else {
			o.Message += "; it has no id at " + transport.Clean(s.request.id.String(), maxPointer)
		}
	case o.Result == job.ResultRejected && s.keyed && (a.TooLong || keyConflict(a)):
		transport.Doubt(o, transport.KeySeenBefore)
		o.RetryAfter, _ = a.Asked()
		o.Message = transport.Clean(o.Message, transport.MaxMessage)
	}
}

// idempotencyErrors are the codes with which APIs say that a key was used for
// another request: Stripe's error.type (with 400), Resend's name.
var idempotencyErrors = map[string]bool{"idempotency_error": true, "invalid_idempotent_request": true}

// keyConflict reports whether a refusal states, in a known form, that its key was used
// for another request. The IETF draft's example is a problem document (RFC 9457) whose
// type names idempotency.
func keyConflict(a transport.Response) bool {
	var body struct {
		Type  string          `json:"type"`
		Name  string          `json:"name"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(a.Excerpt, &body) != nil {
		return false
	}
	var inner struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(body.Error, &inner) != nil {
		inner.Type = "" // an error that is no object
	}
	return idempotencyErrors[inner.Type] || idempotencyErrors[body.Name] || idempotencyErrors[body.Type] ||
		strings.Contains(a.Header.Get("Content-Type"), "application/problem+json") && strings.Contains(strings.ToLower(body.Type), "idempotency")
}
