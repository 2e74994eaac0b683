package mastodon

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// platformName is how messages name the platform.
const platformName = "the Mastodon server"

const reconnect = "reconnect this Mastodon account with a token that may write posts and read them"

// get reads from the server. It fails with *connector.Refusal. fresh asks for a connection
// of its own: a failure before the arm costs the job a try.
func (c *Connector) get(ctx context.Context, a account, path string, query url.Values, fresh bool) (transport.Response, error) {
	answer, err := lookup.Ask(ctx, c.cfg.Sender, a.call(path, query, nil), fresh, "ask mastodon")
	if err != nil {
		return answer, err
	}
	return answer, unread(answer, a.auth.Hidden)
}

// unread returns why an answer is not a read; nil: it is.
func unread(a transport.Response, secrets transport.Secrets) error {
	if a.Complete && a.Status == 200 {
		return nil
	}
	r := lookup.Refused(a, platformName, secrets)
	switch r.Kind {
	case job.FailAuth:
		r.Msg = transport.Clean(r.Msg+"; "+reconnect, transport.MaxMessage)
	case job.FailRateLimited:
		r.RetryAfter = resetAfter(a)
	default:
	}
	return r
}

// resetAfter is how long a rate limit lasts: X-RateLimit-Reset is the time at which
// it ends (https://docs.joinmastodon.org/api/rate-limits/).
func resetAfter(a transport.Response) time.Duration {
	otherwise := transport.DefaultRetryAfter
	if at, err := time.Parse(time.RFC3339, strings.TrimSpace(a.Header.Get("X-RateLimit-Reset"))); err == nil {
		otherwise = a.Until(at)
	}
	return a.Wait(otherwise)
}

// person is the account that a token belongs to.
type person struct {
	id   string
	acct string
	// url names the account, the same for as long as the account exists: its page, if
	// that is on the server that was asked. No server claims accounts elsewhere as its
	// own: what one job is known to have made belongs to no other job of the account.
	url string
}

// readOwner returns the account of the token, which it asks for once.
func (c *Connector) readOwner(ctx context.Context, a account) (person, error) {
	key := a.auth.Key(a.base.String())
	if p, ok := c.accounts.Get(key); ok {
		return p, nil
	}
	p, err := c.verify(ctx, a)
	if err == nil {
		c.accounts.Put(key, p)
	}
	return p, err
}

func (c *Connector) verify(ctx context.Context, a account) (person, error) {
	answer, err := c.get(ctx, a, "/api/v1/accounts/verify_credentials", nil, true)
	if err != nil {
		return person{}, err
	}
	var got struct {
		ID   string `json:"id"`
		Acct string `json:"acct"`
		URL  string `json:"url"`
	}
	if err := json.Unmarshal(answer.Excerpt, &got); err != nil || !validID(got.ID) {
		return person{}, &connector.Refusal{Kind: job.FailTransient, Msg: platformName + " does not say whose token this is"}
	}
	p := person{id: got.ID, acct: got.Acct, url: strings.TrimSuffix(a.base.String(), "/") + "/accounts/" + got.ID}
	if page, err := transport.ParseURL(got.URL); err == nil && transport.TargetOf(page) == transport.TargetOf(a.base) {
		p.url = page.String()
	}
	return p, nil
}

// Test implements connector.Tester.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	a, err := c.account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	p, err := c.verify(ctx, a)
	if err != nil {
		return connector.Tested{}, err
	}
	return connector.Tested{
		Identity: p.url, Detail: transport.Clean("the token is of @"+p.acct+" on "+a.base.Host, transport.MaxMessage),
	}, nil
}

const (
	// accountLasts is how long the account of a token is cached, probeLasts how long a
	// server's software is.
	accountLasts = 24 * time.Hour
	probeLasts   = time.Hour
	// maxRemembered bounds the entries of either cache.
	maxRemembered = 4096
)

// Rules of the probe: only Mastodon itself is known to dedupe on Idempotency-Key.
// GoToSocial was seen to make two posts of one key, and Pleroma, Akkoma and others
// speak the API without mentioning it. So a server that does not plainly say that it is
// Mastodon counts as one that does not dedupe.

// Probe implements connector.Prober.
func (c *Connector) Probe(ctx context.Context, o connector.Opening) (job.Traits, error) {
	a, err := c.account(o)
	if err != nil {
		return job.Traits{}, err
	}
	key := a.base.String()
	dedupes, known := c.servers.Get(key)
	if !known {
		if dedupes, err = c.isMastodon(ctx, a); err != nil {
			return job.Traits{}, err
		}
		c.servers.Put(key, dedupes)
	}
	return c.traits(dedupes), nil
}

var (
	// ownVersion is how Mastodon numbers itself, e.g. "4.5.2" or "4.6.0-rc.1". Others
	// say what they are compatible with, and what they are.
	ownVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-?(alpha|beta|rc)[.0-9]*|-nightly\.[0-9-]+)?$`)
	// ownSource is where it claims that its source is.
	ownSource = regexp.MustCompile(`^https://github\.com/(mastodon|tootsuite)/mastodon/?$`)
)

// isMastodon asks the server what it is: the instance in its present form, then in
// the old one together with NodeInfo (http://nodeinfo.diaspora.software/protocol).
func (c *Connector) isMastodon(ctx context.Context, a account) (bool, error) {
	var instance struct {
		Version string `json:"version"`
		Source  string `json:"source_url"`
	}
	there, err := c.tell(ctx, a, "/api/v2/instance", &instance)
	if there || err != nil {
		return ownVersion.MatchString(instance.Version) && ownSource.MatchString(instance.Source), err
	}
	there, err = c.tell(ctx, a, "/api/v1/instance", &instance)
	if !there || err != nil || !ownVersion.MatchString(instance.Version) {
		return false, err
	}
	var index struct {
		Links []struct {
			Rel  string `json:"rel"`
			Href string `json:"href"`
		} `json:"links"`
	}
	if there, err = c.tell(ctx, a, "/.well-known/nodeinfo", &index); !there || err != nil {
		return false, err
	}
	for _, l := range index.Links {
		u, err := url.Parse(l.Href)
		if err != nil || !strings.HasPrefix(l.Rel, "http://nodeinfo.diaspora.software/ns/schema/2.") || u.Host != a.base.Host {
			continue
		}
		var info struct {
			Software struct {
				Name string `json:"name"`
			} `json:"software"`
		}
		there, err := c.tell(ctx, a, u.EscapedPath(), &info)
		return there && info.Software.Name == "mastodon", err
	}
	return false, nil
}

// tell reads a document. there is false if the server has no readable one; a server
// that cannot be asked now is an error, and proves nothing about what it is.
func (c *Connector) tell(ctx context.Context, a account, path string, into any) (there bool, err error) {
	answer, err := c.get(ctx, a, path, nil, true)
	if answer.Complete && (answer.Status == 404 || answer.Status == 410 || answer.Status == 501) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return json.Unmarshal(answer.Excerpt, into) == nil, nil
}
