package slack

import (
	"bytes"
	"net/url"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// name is what messages call Slack.
const name = "Slack"

// session is one connection with one message for it.
type session struct {
	conn         *transport.Conn
	auth         kit.Auth
	to           *url.URL
	body         []byte
	thread, site string
	version      int
}

// Close implements connector.Session.
func (s *session) Close() { s.conn.Close() }

// Publish implements connector.Session.
func (s *session) Publish(c connector.Commit) job.Outcome {
	answer := s.conn.Exchange(transport.Request{
		Method: "POST", URL: s.to, Body: bytes.NewReader(s.body), Length: int64(len(s.body)), Keep: transport.MaxBody,
		Headers: s.auth.AcceptJSON(jsonType),
	}, transport.Bounds{SendBy: c.SendBy, AnswerBy: c.AnswerBy, MaySend: c.MaySend})
	o := s.classify(answer)
	o.Attempt, o.CredentialVersion = c.Attempt, s.version
	return o
}

// classify narrows the default rules, and only these:
//
//   - a success is 200 with ok:true, a conversation and a time stamp. Another 2xx, or
//     one that does not say, is unknown.
//   - 200 with ok:false and a code that is listed in codes.go has the meaning of the code.
//     Any other code is unknown, fatal_error and internal_error among them.
func (s *session) classify(a transport.Response) job.Outcome {
	o := transport.Classify(a, name, s.auth.Hidden)
	if o.Result != job.ResultSucceeded {
		if o.Kind == job.FailAuth {
			o.Message = msgReconnect
		}
		return o
	}
	said, channel, ts, posted := parsePosted(a.Excerpt)
	kind, definite := kinds[said.Error]
	switch {
	case posted && a.Status == 200:
		o.ExternalID, o.ExternalURL = externalID(channel, ts, s.thread), link(s.site, channel, ts, s.thread)
	case definite && a.Status == 200 && said.OK != nil && !*said.OK:
		o.Result, o.Kind, o.Auth, o.Message = job.ResultRejected, kind, causeOf(said.Error), saying(said, s.auth.Hidden)
		if kind == job.FailRateLimited {
			o.RetryAfter = lookup.Wait(a)
		}
	case said.Error != "":
		o.Result, o.Kind = job.ResultUnknown, job.FailAmbiguous
		o.Message = transport.Clean(name+" answered "+s.auth.Hidden.Quote(said.Error, transport.MaxMessage)+"; it may have acted", transport.MaxMessage)
	default:
		o.Result, o.Kind = job.ResultUnknown, job.FailAmbiguous
		o.Message += " without saying where the message is; it may have acted"
	}
	return o
}
