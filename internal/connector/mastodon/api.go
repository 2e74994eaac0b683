package mastodon

import (
	"context"
	"encoding/json"
	"net/url"
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
	if r.Kind == job.FailAuth {
		r.Msg = transport.Clean(r.Msg+"; "+reconnect, transport.MaxMessage)
	}
	return r
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
	c.learn(ctx, a)
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
