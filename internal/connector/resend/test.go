package resend

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// testTimeout bounds the call of a test.
const testTimeout = 15 * time.Second

// Test implements connector.Tester: it lists the team's domains. Resend does not say
// which team a key belongs to. A key that may only send is refused here with an error
// name of its own, which proves it to be such a key.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	auth, err := connector.Opened(o.Credential, openAuth)
	if err != nil {
		return connector.Tested{}, kit.UnusableCredential(err)
	}
	conn, err := c.sender.Open(ctx, transport.TargetOf(c.domains), true)
	if err != nil {
		return connector.Tested{}, fmt.Errorf("test resend: %w", err)
	}
	by := time.Now().Add(testTimeout)
	if at, ok := ctx.Deadline(); ok && at.Before(by) {
		by = at
	}
	a := conn.Exchange(transport.Request{
		Method: "GET", URL: c.domains, Headers: auth.Headers, Keep: maxAnswer,
	}, transport.Bounds{SendBy: by, AnswerBy: by, MaySend: ctx.Err})
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
