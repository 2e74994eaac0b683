package tiktok

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	// creatorAge is how long TikTok's answer about an account is cached: it allows 20
	// questions a minute.
	creatorAge = time.Minute
	// maxCreators bounds the accounts whose answers are cached.
	maxCreators = 1024
)

// creator is an account that posts, as TikTok describes it (Query Creator Info).
type creator struct {
	Username  string   `json:"creator_username"`
	Nickname  string   `json:"creator_nickname"`
	Privacies []string `json:"privacy_level_options"`
}

type creatorKey struct {
	connection job.ID
	version    int
}

// creator returns what the account may do, and proves that the token is good. Jobs of one
// account share one question. It fails with *connector.Refusal if TikTok was asked, and with
// another error if ctx ended before the answer, or too many accounts are being asked about.
func (c *Connector) creator(ctx context.Context, o connector.Opening, auth kit.Auth) (creator, error) {
	return c.creators.Load(ctx, creatorKey{o.Connection, o.Credential.Version}, func(ctx context.Context) (creator, error) {
		return c.askCreator(ctx, auth)
	})
}

func (c *Connector) askCreator(ctx context.Context, auth kit.Auth) (creator, error) {
	data, err := c.ask(ctx, auth, pathCreator, struct{}{})
	if err != nil {
		return creator{}, err
	}
	var out creator
	if err := json.Unmarshal(data, &out); err != nil || len(out.Privacies) == 0 {
		return creator{}, &connector.Refusal{Kind: job.FailTransient, Msg: "TikTok's answer does not say what the account may do"}
	}
	return out, nil
}

// allows reports whether the account may post so. TikTok lists which of the four
// privacies an account offers, and refuses the others.
func (cr creator) allows(post content) error {
	if slices.Contains(cr.Privacies, post.Privacy) {
		return nil
	}
	return &connector.Refusal{Kind: job.FailPermanent, Msg: transport.Clean("this TikTok account does not offer the privacy "+post.Privacy+
		", but "+strings.Join(cr.Privacies, ", "), transport.MaxMessage)}
}

// Test implements connector.Tester.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	_, auth, err := c.Account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	cr, err := c.askCreator(ctx, auth)
	if err != nil {
		return connector.Tested{}, err
	}
	out := connector.Tested{Detail: transport.Clean("may post as @"+cr.Username+" ("+cr.Nickname+")", transport.MaxMessage)}
	data, err := c.ask(ctx, auth, pathUser, nil)
	if err != nil {
		out.Detail += "; TikTok does not tell the account's id to this connection"
		return out, nil //nolint:nilerr // posting needs another permission than asking for the account's id
	}
	var in struct {
		User struct {
			OpenID string `json:"open_id"`
		} `json:"user"`
	}
	if json.Unmarshal(data, &in) == nil && validID(in.User.OpenID) {
		out.Identity = in.User.OpenID
	}
	return out, nil
}
