package resend

import (
	"context"
	"encoding/json"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Test implements connector.Tester: it lists the team's domains. Resend does not say
// which team a key belongs to. A key that may only send is refused here with an error
// name of its own, which proves it to be such a key.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	_, auth, err := c.Account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	a, err := lookup.Read(ctx, c.cfg.Sender, transport.Request{Method: "GET", URL: c.domains, Headers: auth.Headers}, true, "test resend")
	if err != nil {
		return connector.Tested{}, err
	}
	if a.Complete && a.Status == 401 && nameOf(a) == "restricted_api_key" {
		return connector.Tested{Detail: "Resend knows the API key, which may send and do nothing else."}, nil
	}
	if !a.Complete || a.Status != 200 {
		return connector.Tested{}, untested(a, auth.Hidden)
	}
	var list struct {
		Data []struct {
			Name   string `json:"name"`
			Status string `json:"status"`
		} `json:"data"`
	}
	detail := "Resend knows the API key."
	if json.Unmarshal(a.Excerpt, &list) == nil {
		verified := ""
		for _, d := range list.Data {
			if d.Status == "verified" {
				verified += " " + d.Name
			}
		}
		if verified == "" {
			detail += " It has no verified domain to send from."
		} else {
			detail += " Verified domains:" + verified + "."
		}
	}
	return connector.Tested{Detail: auth.Hidden.Quote(detail, transport.MaxMessage)}, nil
}

// untested returns why a test has shown nothing.
func untested(a transport.Response, secrets transport.Secrets) error {
	o := classify(a, secrets)
	r := &connector.Refusal{Kind: job.FailTransient, Msg: transport.Unread(a, platformName, secrets)}
	if o.Result == job.ResultRejected && (o.Kind == job.FailAuth || o.Kind == job.FailRateLimited) {
		r.Kind, r.Msg, r.RetryAfter = o.Kind, o.Message, o.RetryAfter
	}
	return r
}
