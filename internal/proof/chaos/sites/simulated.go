package sites

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// What connectors take platforms' read lags to be. Posts are listed somewhat sooner: a
// lag of exactly that much would leave no time for the wire.
const (
	lagOfX        = 2 * time.Minute * 2 / 3
	lagOfSlack    = 30 * time.Second * 2 / 3
	lagOfMastodon = time.Minute * 2 / 3
)

// startX starts the simulated X: posts, replies and direct messages.
func startX(context.Context, string) (platform.Site, error) {
	p, err := xtest.Start(xtest.Options{ReadLag: hastened(lagOfX)})
	if err != nil {
		return platform.Site{}, err
	}
	return new(tokens).guard(platform.Site{
		URL: p.URL(), Close: p.Close,
		Sort: func(r platform.Request) platform.Purpose {
			if r.Method != http.MethodPost || r.Path != "/2/tweets" && !strings.HasSuffix(r.Path, "/messages") {
				return platform.Purpose{}
			}
			return platform.Purpose{Subject: subject(field(r.Body, "text"))}
		},
		Made: func(context.Context) (out []platform.Made, _ error) {
			for _, o := range p.Objects() {
				id := o.ID
				if o.Recipient != "" {
					id = "dm:" + id
				}
				out = append(out, platform.Made{Subject: subject(o.Text), ID: id})
			}
			return out, nil
		},
		Words: map[platform.Fault]platform.Words{
			platform.Unauthorized: says(http.StatusUnauthorized, `{"title":"Unauthorized","status":401}`),
			platform.Refuse:       says(http.StatusForbidden, `{"detail":"You are not permitted to perform this action.","status":403}`),
			platform.RateLimit: {
				Status: http.StatusTooManyRequests, Header: map[string]string{"X-Rate-Limit-Remaining": "0"},
				Reset: "X-Rate-Limit-Reset", Body: `{"title":"Too Many Requests","status":429}`,
			},
		},
	}), nil
}

// startSlack starts the simulated Slack, with short pages.
func startSlack(context.Context, string) (platform.Site, error) {
	p, err := slacktest.Start(slacktest.Options{ReadLag: hastened(lagOfSlack), PageLimit: 50})
	if err != nil {
		return platform.Site{}, err
	}
	return new(tokens).guard(platform.Site{
		URL: p.URL(), Close: p.Close,
		Sort: func(r platform.Request) platform.Purpose {
			if r.Path != "/chat.postMessage" {
				return platform.Purpose{}
			}
			return platform.Purpose{Subject: subject(field(r.Body, "text"))}
		},
		Made: func(context.Context) (out []platform.Made, _ error) {
			for _, m := range p.Messages() {
				out = append(out, platform.Made{Subject: subject(m.Text), ID: strings.TrimSuffix(m.Channel+":"+m.TS+":"+m.Thread, ":")})
			}
			return out, nil
		},
		Words: map[platform.Fault]platform.Words{
			platform.Unauthorized: says(http.StatusOK, `{"ok":false,"error":"token_revoked"}`),
			platform.Refuse:       says(http.StatusOK, `{"ok":false,"error":"is_archived"}`),
		},
	}), nil
}

// startResend starts the simulated Resend.
func startResend(context.Context, string) (platform.Site, error) {
	p, err := resendtest.Start(resendtest.Options{})
	if err != nil {
		return platform.Site{}, err
	}
	return new(tokens).guard(platform.Site{
		URL: p.URL(), Close: p.Close,
		Sort: func(r platform.Request) platform.Purpose {
			if r.Method != http.MethodPost {
				return platform.Purpose{}
			}
			return platform.Purpose{Subject: field(r.Body, "subject"), Key: r.Header.Get("Idempotency-Key")}
		},
		Made: func(context.Context) (out []platform.Made, _ error) {
			for _, e := range p.Sent() {
				out = append(out, platform.Made{Subject: e.Subject, ID: e.ID})
			}
			return out, nil
		},
		Words: map[platform.Fault]platform.Words{
			platform.Unauthorized: says(http.StatusForbidden, resendtest.Failure(http.StatusForbidden, "invalid_api_key", "API key is invalid")),
			platform.Refuse: says(http.StatusUnprocessableEntity,
				resendtest.Failure(http.StatusUnprocessableEntity, "invalid_from_address", "Invalid from field")),
		},
	}), nil
}

// startMastodon starts a simulated Mastodon, which dedupes by key.
func startMastodon(ctx context.Context, _ string) (platform.Site, error) {
	return fediverse(ctx, mastodontest.Mastodon)
}

// startGoToSocial starts a simulated GoToSocial, which does not.
func startGoToSocial(ctx context.Context, _ string) (platform.Site, error) {
	return fediverse(ctx, mastodontest.GoToSocial)
}

// mostTokens is how often a credential may be revoked there.
const mostTokens = 10_000

func fediverse(_ context.Context, software mastodontest.Software) (platform.Site, error) {
	all := new(tokens)
	valid := make([]string, mostTokens) // which of them is, the guard says
	for i := range valid {
		valid[i] = all.token(i)
	}
	p, err := mastodontest.Start(mastodontest.Options{Software: software, Tokens: valid, ReadLag: hastened(lagOfMastodon)})
	if err != nil {
		return platform.Site{}, err
	}
	return all.guard(platform.Site{
		URL: p.URL(), Close: p.Close,
		Sort: func(r platform.Request) platform.Purpose {
			if r.Method != http.MethodPost || r.Path != "/api/v1/statuses" {
				return platform.Purpose{}
			}
			return platform.Purpose{Subject: subject(field(r.Body, "status")), Key: r.Header.Get("Idempotency-Key")}
		},
		Made: func(context.Context) (out []platform.Made, _ error) {
			for _, post := range p.Posts() {
				out = append(out, platform.Made{Subject: subject(post.Text), ID: post.ID})
			}
			return out, nil
		},
		Words: map[platform.Fault]platform.Words{
			platform.Unauthorized: says(http.StatusUnauthorized, `{"error":"The access token was revoked"}`),
			platform.Refuse:       says(http.StatusUnprocessableEntity, `{"error":"Validation failed: Text character limit of 500 exceeded"}`),
		},
	}), nil
}

// field reads one field of a JSON object; a body that has none is about nothing that
// any client wanted.
func field(body []byte, name string) string {
	var in map[string]any
	if err := json.Unmarshal(body, &in); err != nil {
		return fmt.Sprintf("not-readable-%d", len(body))
	}
	text, _ := in[name].(string)
	return text
}
