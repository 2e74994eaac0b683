package bluesky

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// The methods that are called (https://docs.bsky.app/docs/category/http-reference).
const (
	methodCreateSession  = "com.atproto.server.createSession"
	methodRefreshSession = "com.atproto.server.refreshSession"
	methodPut            = "com.atproto.repo.putRecord"
	methodGet            = "com.atproto.repo.getRecord"
)

// platformName is how messages name the platform.
const platformName = "Bluesky"

// Names of errors, in the body of an answer. The status means less: a token that is
// over is a 400.
const (
	errExpiredToken  = "ExpiredToken"
	errInvalidToken  = "InvalidToken"
	errRateLimit     = "RateLimitExceeded"
	errInvalidSwap   = "InvalidSwap"
	errNotFound      = "RecordNotFound"
	errSecondFactor  = "AuthFactorTokenRequired"
	errAuthMissing   = "AuthMissing"
	errAuthRequired  = "AuthenticationRequired"
	errTakedown      = "AccountTakedown"
	errDeactivated   = "AccountDeactivated"
	errSuspended     = "AccountSuspended"
	errorNameMax     = 64
	reconnectAccount = "Reconnect this Bluesky account with its handle and a new app password"
)

// refused are the errors that say: this account, with this credential, may not.
var refused = map[string]bool{
	errAuthMissing: true, errAuthRequired: true, errSecondFactor: true, errTakedown: true, errDeactivated: true, errSuspended: true,
}

// causeOf returns why a credential was refused, by the name of the error.
func causeOf(name string) job.AuthCause {
	switch name {
	case errTakedown, errDeactivated, errSuspended:
		return job.AuthAccountBarred
	default:
		return job.AuthRefused
	}
}

// errorName reads what an answer calls its error.
func errorName(a transport.Response) string {
	var body struct {
		Error string `json:"error"`
	}
	if !a.Complete || a.Status < 400 || json.Unmarshal(a.Excerpt, &body) != nil || len(body.Error) > errorNameMax {
		return ""
	}
	return body.Error
}

// pathXRPC is where the methods are.
const pathXRPC = "/xrpc/"

func bearer(token string) transport.Header {
	return transport.Header{Name: "Authorization", Value: "Bearer " + token}
}

const jsonType = "application/json"

var acceptJSON = transport.Header{Name: "Accept", Value: jsonType}

// question is one request beside the commit, without a visible effect.
type question struct {
	method string // of XRPC
	query  url.Values
	token  string // empty: none
	post   bool
	// contentType goes with a body of length bytes.
	contentType string
	body        io.Reader
	length      int64
}

// ask asks on its own connection: a failure before the arm costs the job a try.
func (c *Connector) ask(ctx context.Context, base *url.URL, q question) (transport.Response, error) {
	u, err := kit.Endpoint(base.String(), pathXRPC+q.method, q.query)
	if err != nil {
		return transport.Response{}, err
	}
	call := transport.Request{Method: "GET", URL: u, Headers: []transport.Header{acceptJSON}}
	if q.post {
		call.Method = "POST"
	}
	if q.token != "" {
		call.Headers = append(call.Headers, bearer(q.token))
	}
	if q.body != nil {
		call.Headers = append(call.Headers, transport.Header{Name: "Content-Type", Value: q.contentType})
		call.Body, call.Length = q.body, q.length
	}
	return lookup.Read(ctx, c.cfg.Sender, call, true, "ask bluesky")
}

// unanswered returns why an answer to a question is not usable; nil: it is.
func unanswered(a transport.Response, secrets transport.Secrets) error {
	if a.Complete && a.Status == 200 {
		return nil
	}
	r := &connector.Refusal{Kind: job.FailTransient, Msg: transport.Unread(a, platformName, secrets)}
	switch name := errorName(a); {
	case !a.Complete:
	case a.Status == 429, name == errRateLimit:
		r.Kind, r.RetryAfter = job.FailRateLimited, a.LimitWait(transport.DefaultRetryAfter)
	case a.Status == 401, refused[name]:
		r.Kind, r.Auth = job.FailAuth, causeOf(name)
		if name == errSecondFactor {
			r.Msg = platformName + " wants a code by e-mail for this password"
		}
		r.Msg = transport.Clean(r.Msg+"; "+reconnectAccount, transport.MaxMessage)
	}
	return r
}

// refusedTo returns why an answer to a question within a session is not usable, or returns
// nil. If the session has ended, refusedTo discards it; if it began just now, the
// account itself is refused.
func (c *Connector) refusedTo(in login, a transport.Response) error {
	err := unanswered(a, in.hidden())
	if err == nil {
		return nil
	}
	name := errorName(a)
	c.forget(in, name)
	var r *connector.Refusal
	if in.fresh && (name == errInvalidToken || name == errExpiredToken) && errors.As(err, &r) {
		r.Kind, r.Msg = job.FailAuth, transport.Clean(r.Msg+"; "+reconnectAccount, transport.MaxMessage)
	}
	return err
}

// stored is a record as a server returns it.
type stored struct {
	URI   string          `json:"uri"`
	CID   string          `json:"cid"`
	Value json.RawMessage `json:"value"`
}

var errUnreadable = errors.New("the answer is no record")

// kept is what matters of a stored post. Other programs write other records, and the
// connector ignores all their other fields.
type kept struct {
	Text    string `json:"text"`
	Reply   *reply `json:"reply"`
	Created string `json:"createdAt"`
}

func parseStored(body []byte) (stored, kept, error) {
	var s stored
	var r kept
	if err := json.Unmarshal(body, &s); err != nil || s.CID == "" || !postURI().MatchString(s.URI) {
		return s, r, errUnreadable
	}
	if err := json.Unmarshal(s.Value, &r); err != nil {
		return s, r, errUnreadable
	}
	return s, r, nil
}

// parent reads the post that is answered: a reply names its content, and the thread's
// beginning. It returns nil if the post is no reply.
func (c *Connector) parent(ctx context.Context, in login, uri string) (*reply, error) {
	if uri == "" {
		return nil, nil //nolint:nilnil // a post of its own
	}
	parts := strings.Split(strings.TrimPrefix(uri, "at://"), "/")
	a, err := c.ask(ctx, in.base, question{
		method: methodGet, token: in.access,
		query: url.Values{"repo": {parts[0]}, "collection": {parts[1]}, "rkey": {parts[2]}},
	})
	if err != nil {
		return nil, err
	}
	if name := errorName(a); name == errNotFound {
		return nil, &connector.Refusal{Kind: job.FailPermanent, Msg: "the post that is replied to is not there"}
	}
	if err := c.refusedTo(in, a); err != nil {
		return nil, err
	}
	s, r, err := parseStored(a.Excerpt)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailTransient, Msg: "the post that is replied to could not be read", Err: err}
	}
	parent := strongRef{URI: s.URI, CID: s.CID}
	out := &reply{Root: parent, Parent: parent}
	if r.Reply != nil && r.Reply.Root.URI != "" && r.Reply.Root.CID != "" {
		out.Root = r.Reply.Root
	}
	return out, nil
}

// didForm is a DID (https://atproto.com/specs/did).
var didForm = regexp.MustCompile(`^did:[a-z]+:[a-zA-Z0-9._:%-]{1,200}$`)
