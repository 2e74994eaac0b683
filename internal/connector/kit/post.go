package kit

import (
	"bytes"
	"context"
	"net/url"
	"strings"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Link is the connection of a session. Sessions embed it.
type Link struct {
	Conn *transport.Conn
	// Version is the version of the credential.
	Version int
}

// Close implements connector.Session.
func (l *Link) Close() { l.Conn.Close() }

// Commit makes the attempt's one commit request, and returns what classify makes of the answer.
func (l *Link) Commit(c connector.Commit, call transport.Request, classify func(transport.Response) job.Outcome) job.Outcome {
	o := classify(l.Conn.Exchange(call, transport.Bounds{SendBy: c.SendBy, AnswerBy: c.AnswerBy, MaySend: c.MaySend}))
	o.Attempt, o.CredentialVersion = c.Attempt, l.Version
	return o
}

// Post is a session that posts a JSON body to an API.
type Post struct {
	Link

	URL  *url.URL
	Auth Auth
	Body []byte
	// ContentType replaces application/json.
	ContentType string
	// Keyed sends the effect key as Idempotency-Key.
	Keyed    bool
	Classify func(transport.Response) job.Outcome
}

// Open opens the connection.
func (p *Post) Open(ctx context.Context, sender *transport.Sender, fresh bool) (connector.Session, error) {
	var err error
	if p.Conn, err = sender.Open(ctx, transport.TargetOf(p.URL), fresh); err != nil {
		return nil, err
	}
	return p, nil
}

// Publish implements connector.Session.
func (p *Post) Publish(c connector.Commit) job.Outcome {
	call := transport.Request{
		Method: "POST", URL: p.URL, Body: bytes.NewReader(p.Body), Length: int64(len(p.Body)), Keep: transport.MaxBody,
		Headers: []transport.Header{JSON},
	}
	if p.ContentType != "" {
		call.Headers[0].Value = p.ContentType
	}
	if p.Keyed {
		call.Headers = append(call.Headers, transport.Header{Name: "Idempotency-Key", Value: c.EffectKey})
	}
	call.Headers = p.Auth.AcceptJSON(call.Headers...)
	return p.Commit(c, call, p.Classify)
}

// JSON is the type of a JSON body.
var JSON = transport.Header{Name: "Content-Type", Value: "application/json"}

// Endpoint returns a URL below the base of an API. It fails with *Refusal.
func Endpoint(base, path string, query url.Values) (*url.URL, error) {
	raw := strings.TrimSuffix(base, "/") + path
	if len(query) > 0 {
		raw += "?" + query.Encode()
	}
	u, err := transport.ParseURL(raw)
	if err != nil {
		return nil, unusable("the API's address is not usable", err)
	}
	return u, nil
}

// WebURL returns a URL that can be shown to a user, or nothing.
func WebURL(raw string) string {
	if u, err := transport.ParseURL(raw); err == nil {
		return u.String()
	}
	return ""
}
