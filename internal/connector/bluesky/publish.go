package bluesky

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// session is one connection with one post for it.
type session struct {
	kit.Post

	c    *Connector
	in   login
	post post
}

// Account implements connector.Owned: a handle may have been given to another account
// since the connection was made, or since the attempt before.
func (s *session) Account() string { return s.in.did }

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	s.Classify = func(a transport.Response) job.Outcome {
		o := s.classify(a)
		if o.Result == job.ResultRejected && errorName(a) == errInvalidSwap {
			o = s.occupied(c, o)
		}
		return o
	}
	return s.Post.Publish(c)
}

// classify narrows the default rules, and only these, by the error that the body
// names (docs/platforms/bluesky.md, measured with @atproto/pds 0.4.217):
//
//   - a success is 200 with the URI of our post. Anything else may have acted.
//   - ExpiredToken, InvalidToken (400): the session is over, not the password. It was
//     refused before anything was read of the record; with a new session the next
//     attempt reports whether the password still holds. If the password was accepted a
//     moment ago, it is the account that may not.
//   - AccountTakedown and its like hold the account as 401 does.
//   - a rate limit has the time at which it ends in RateLimit-Reset.
func (s *session) classify(a transport.Response) job.Outcome {
	o := transport.Classify(a, platformName, s.in.hidden())
	name := errorName(a)
	switch {
	case o.Result == job.ResultSucceeded:
		if !s.created(a) {
			transport.Doubt(&o, " without the post's address; it may have acted")
			break
		}
		o.ExternalID, o.ExternalURL = s.post.uri(s.in.did), s.post.page(s.in.did)
	case o.Result != job.ResultRejected:
	case o.Kind == job.FailRateLimited, name == errRateLimit:
		o.Kind = job.FailRateLimited
		transport.Limit(&o, a, transport.DefaultRetryAfter)
	case a.Status == 400 && (name == errInvalidToken || name == errExpiredToken):
		s.c.forget(s.in, name)
		if o.Kind = job.FailTransient; s.in.fresh {
			o.Kind = job.FailAuth
			o.Message = transport.Clean(o.Message+"; "+reconnectAccount, transport.MaxMessage)
		}
	case a.Status == 401, refused[name]:
		s.c.forget(s.in, errAuthRequired)
		o.Kind, o.Auth = job.FailAuth, causeOf(name)
		o.Message = transport.Clean(o.Message+"; "+reconnectAccount, transport.MaxMessage)
	}
	return o
}

// created reports whether an answer names our post.
func (s *session) created(a transport.Response) bool {
	var got strongRef
	return a.Status == 200 && json.Unmarshal(a.Excerpt, &got) == nil && got.URI == s.post.uri(s.in.did) && got.CID != ""
}

// occupied settles InvalidSwap: this request changed nothing, because a record is at
// our key already. If the record is our post, an earlier attempt has put it there, and
// the difference is what the network added. If it is not, the outcome is unknown at
// every attempt: the first attempt of this job may follow others that a lost database
// knew, and a person may have edited the record that they made.
func (s *session) occupied(c connector.Commit, o job.Outcome) job.Outcome {
	unknown := func(words string) job.Outcome {
		o.Result, o.Kind, o.RetryAfter = job.ResultUnknown, job.FailAmbiguous, 0
		o.Message = transport.Clean("a record is at this post's key already; "+words, transport.MaxMessage)
		return o
	}
	ctx, cancel := context.WithDeadline(context.Background(), c.AnswerBy)
	defer cancel()
	a, err := s.c.ask(ctx, s.in.base, question{
		method: methodGet, token: s.in.access,
		query: url.Values{"repo": {s.in.did}, "collection": {collection}, "rkey": {s.post.key}},
	})
	if err == nil {
		err = unanswered(a, s.in.hidden())
	}
	if err != nil {
		return unknown("it could not be read")
	}
	at, there, err := parseStored(a.Excerpt)
	switch {
	case err != nil || at.URI != s.post.uri(s.in.did):
		return unknown("it is not readable as a post")
	case s.post.same(there):
		o.Result, o.Kind, o.RetryAfter, o.HTTPStatus = job.ResultSucceeded, 0, 0, a.Status
		o.ExternalID, o.ExternalURL = at.URI, s.post.page(s.in.did)
		o.Message = platformName + " has this post already, from an earlier attempt"
		return o
	default:
		return unknown("it has another content: it may be this post, edited")
	}
}
