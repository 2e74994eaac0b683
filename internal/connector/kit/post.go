package kit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

// Connect opens a connection to a target. Only a KEYED job may reuse one. It fails with *Refusal.
func (l *Link) Connect(ctx context.Context, sender *transport.Sender, o connector.Opening, to transport.Target) (err error) {
	l.Version = o.Credential.Version
	l.Conn, err = sender.Open(ctx, to, o.Fresh || o.Class != job.Keyed)
	return err
}

// Reuse takes an idle connection to a target, and reports whether the job may have one and there
// is one.
func (l *Link) Reuse(sender *transport.Sender, o connector.Opening, to transport.Target) bool {
	if o.Fresh || o.Class != job.Keyed {
		return false
	}
	l.Version, l.Conn = o.Credential.Version, sender.Idle(to)
	return l.Conn != nil
}

// Close implements connector.Session.
func (l *Link) Close() { l.Conn.Close() }

// Commit makes the attempt's one commit request, and returns what classify makes of the answer.
func (l *Link) Commit(c connector.Commit, call transport.Request, classify func(transport.Response) job.Outcome) job.Outcome {
	o := classify(l.Conn.Exchange(call, transport.Bounds{SendBy: c.SendBy, AnswerBy: c.AnswerBy, MaySend: c.MaySend}))
	o.Attempt, o.CredentialVersion = c.Attempt, l.Version
	return o
}

// Call is one request to an API.
type Call struct {
	// Base is where the API is. Path is below it.
	Base, Path string
	Query      url.Values
	Auth       Auth
	// Body makes the request a POST: bytes are sent as they are, any other value in JSON.
	Body any
	// ContentType replaces application/json.
	ContentType string
}

// Request encodes the call. It fails with *Refusal.
func (c Call) Request() (transport.Request, error) {
	u, err := Endpoint(c.Base, c.Path, c.Query)
	if err != nil || c.Body == nil {
		return transport.Request{Method: "GET", URL: u, Keep: transport.MaxBody, Headers: c.Auth.AcceptJSON()}, err
	}
	body, encoded := c.Body.([]byte)
	if !encoded {
		if body, err = json.Marshal(c.Body); err != nil {
			return transport.Request{}, unusable("the request cannot be encoded", err)
		}
	}
	return transport.Request{
		Method: "POST", URL: u, Body: bytes.NewReader(body), Length: int64(len(body)), Keep: transport.MaxBody,
		Headers: c.Auth.AcceptJSON(transport.Header{Name: "Content-Type", Value: cmp.Or(c.ContentType, UsualContentType)}),
	}, nil
}

// Post is a session that posts to an API.
type Post struct {
	Link
	Call

	// Keyed sends the effect key as Idempotency-Key.
	Keyed    bool
	Classify func(transport.Response) job.Outcome

	request transport.Request
}

// Open opens the connection.
func (p *Post) Open(ctx context.Context, sender *transport.Sender, o connector.Opening) (connector.Session, error) {
	var err error
	if p.request, err = p.Request(); err != nil {
		return nil, err
	}
	if err := p.Connect(ctx, sender, o, transport.TargetOf(p.request.URL)); err != nil {
		return nil, err
	}
	return p, nil
}

// Publish implements connector.Session.
func (p *Post) Publish(c connector.Commit) job.Outcome {
	call := p.request
	if p.Keyed {
		call.Headers = append(call.Headers, transport.Header{Name: "Idempotency-Key", Value: c.EffectKey})
	}
	return p.Commit(c, call, p.Classify)
}

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
