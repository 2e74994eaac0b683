package slack

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of one look.
const (
	// pageSize is how many messages a look requests in one page; an app that may read
	// once a minute gets 15. A page that is too large for transport.MaxBody is
	// requested in parts.
	pageSize = 100
	// maxPages bounds one look.
	maxPages = 50
)

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	_, auth, err := c.Account(o)
	if err != nil {
		return "", err
	}
	want, err := thaw(o.Prepared.Frozen)
	if err != nil {
		return "", kit.UnreadableFrozen("message", err)
	}
	clock, err := lookup.LocalClock(ctx, o, c.cfg.Now)
	if err != nil {
		return "", err
	}
	owner, at, err := c.readOwner(ctx, auth)
	if err != nil {
		return "", err
	}
	local := clock().UTC()
	channel, err := c.conversation(ctx, auth, want)
	if err != nil {
		return "", err
	}
	return lookup.EncodeWatermark(watermark{
		Version: watermarkVersion, tokenOwner: owner, Channel: channel, Clocks: lookup.Clocks{At: at, Local: local},
	})
}

// AccountOf implements connector.Identifier: the workspace's and the user's id, which
// outlive changes of their names.
func (*Connector) AccountOf(text string) string {
	return lookup.AccountOf(text, parseWatermark, func(m watermark) string { return m.identity() })
}

// Test implements connector.Tester: it reports the owner of the token, and whether it can read the
// conversation back. It fails with *connector.Refusal.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	channel, auth, err := c.Account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	owner, _, err := c.readOwner(ctx, auth)
	if err != nil {
		return connector.Tested{}, err
	}
	out := connector.Tested{
		Identity: owner.identity(),
		Detail:   transport.Clean("user "+owner.User+" in the Slack workspace "+owner.Team+" ("+owner.Site+"), which can read conversation "+channel, transport.MaxMessage),
	}
	_, _, err = c.get(ctx, auth, "conversations.history", url.Values{"channel": {channel}, "limit": {"1"}}, true)
	var r *connector.Refusal
	if errors.As(err, &r) && r.Kind == job.FailRateLimited { // it was read a short while ago
		return out, nil
	}
	if err != nil {
		return connector.Tested{}, err
	}
	return out, nil
}

// readOwner asks Slack for the owner of the token, and for the time.
func (c *Connector) readOwner(ctx context.Context, auth kit.Auth) (tokenOwner, time.Time, error) {
	body, at, err := c.get(ctx, auth, "auth.test", nil, true)
	if err != nil {
		return tokenOwner{}, time.Time{}, err
	}
	var in struct {
		Team string `json:"team_id"`
		User string `json:"user_id"`
		Bot  string `json:"bot_id"`
		URL  string `json:"url"`
	}
	if err := json.Unmarshal(body, &in); err != nil || !isChannel(in.Team) || !isChannel(in.User) {
		return tokenOwner{}, time.Time{}, &connector.Refusal{Kind: job.FailTransient, Msg: "Slack did not say whose token this is"}
	}
	out := tokenOwner{Team: in.Team, User: in.User, Bot: in.Bot, Site: kit.WebURL(in.URL)}
	c.owners.Put(auth.Key(""), out)
	return out, at, nil
}

// owner returns the owner of the token. Slack is asked once, because it never changes.
func (c *Connector) owner(ctx context.Context, auth kit.Auth) (tokenOwner, error) {
	if owner, known := c.owners.Get(auth.Key("")); known {
		return owner, nil
	}
	owner, _, err := c.readOwner(ctx, auth)
	return owner, err
}

// conversation returns where the message goes. It opens a conversation with a person,
// which no user sees.
func (c *Connector) conversation(ctx context.Context, auth kit.Auth, want content) (string, error) {
	if want.User == "" {
		return want.Channel, nil
	}
	if channel, known := c.chats.Get(auth.Key(want.User)); known {
		return channel, nil
	}
	answer, _, err := c.call(ctx, kit.Call{
		Path: "/conversations.open", Auth: auth, Body: map[string]string{"users": want.User}, ContentType: jsonType,
	}, true)
	if err != nil {
		return "", err
	}
	var in struct {
		Channel struct {
			ID string `json:"id"`
		} `json:"channel"`
	}
	if err := json.Unmarshal(answer, &in); err != nil || !isChannel(in.Channel.ID) {
		return "", &connector.Refusal{Kind: job.FailTransient, Msg: "Slack opened no conversation with this person"}
	}
	c.chats.Put(auth.Key(want.User), in.Channel.ID)
	return in.Channel.ID, nil
}

// Observe implements connector.Observer.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	s, err := c.search(ctx, o, l)
	if err != nil {
		return lookup.Unseen(err)
	}
	return s.verdict()
}

// search reads completely, or fails.
func (c *Connector) search(ctx context.Context, o connector.Opening, l connector.Look) (*search, error) {
	_, auth, err := c.Account(o)
	if err != nil {
		return nil, err
	}
	want, err := thaw(l.First.Frozen)
	if err != nil {
		return nil, err
	}
	m, local, err := lookup.Begin(ctx, o, l, c.cfg.Now, parseWatermark)
	if err != nil {
		return nil, err
	}
	// Others may not be shown this account's messages, or their marks.
	if owner, err := c.owner(ctx, auth); err != nil {
		return nil, err
	} else if owner.identity() != m.identity() {
		return nil, connector.ErrForeign
	}
	s := newSearch(m, want, l)
	if err := c.pages(ctx, auth, s, local); err != nil {
		return nil, err
	}
	if _, err := s.DropTaken(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// pages reads page after page: of the conversation, or of a thread, whose messages the
// conversation does not list.
func (c *Connector) pages(ctx context.Context, auth kit.Auth, s *search, local func() time.Time) error {
	method, query := "conversations.history", url.Values{
		"channel": {s.watermark.Channel}, "oldest": {stampOf(s.watermark.At.Add(-slack))}, "include_all_metadata": {"true"},
	}
	if s.want.Thread != "" {
		method = "conversations.replies"
		query.Set("ts", s.want.Thread)
	}
	return s.ReadPages(func(cursor string) (string, bool, error) {
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		page, err := c.page(ctx, auth, method, query)
		if err != nil {
			return "", false, err
		}
		if err := s.Steady(page.at, local()); err != nil {
			return "", false, err
		}
		l, err := parseListing(page.body)
		if err != nil {
			return "", false, err
		}
		done, err := s.add(l)
		return l.next, done, err
	})
}

// answer is a body, with Slack's clock.
type answer struct {
	body []byte
	at   time.Time
}

// page reads one page, or less of it if it is too large.
func (c *Connector) page(ctx context.Context, auth kit.Auth, method string, query url.Values) (answer, error) {
	return lookup.Smaller(pageSize, func(size int) (answer, error) {
		query.Set("limit", strconv.Itoa(size))
		body, at, err := c.get(ctx, auth, method, query, false)
		return answer{body, at}, err
	})
}

// get reads one answer, with Slack's clock. It fails with *connector.Refusal.
func (c *Connector) get(ctx context.Context, auth kit.Auth, method string, query url.Values, fresh bool) ([]byte, time.Time, error) {
	return c.call(ctx, kit.Call{Path: "/" + method, Query: query, Auth: auth}, fresh)
}

// call makes one request that has no effect. fresh asks for its own connection: a
// failure before the arm costs the job a try.
func (c *Connector) call(ctx context.Context, call kit.Call, fresh bool) ([]byte, time.Time, error) {
	call.Base = c.cfg.BaseURL
	answer, err := lookup.Ask(ctx, c.cfg.Sender, call, fresh, "ask slack")
	if err != nil {
		return nil, time.Time{}, err
	}
	if err := unread(answer, call.Auth.Hidden); err != nil {
		return nil, time.Time{}, err
	}
	at, ok := lookup.ClockOf(answer, "GMT")
	if !ok {
		return nil, time.Time{}, &connector.Refusal{Kind: job.FailTransient, Msg: errNoClock.Error()}
	}
	return answer.Excerpt, at, nil
}

const jsonType = "application/json; charset=utf-8"

// unread returns why an answer does not answer the request; nil: it does.
func unread(a transport.Response, secrets transport.Secrets) error {
	var said answered
	if a.Complete && a.Status == 200 && json.Unmarshal(a.Excerpt, &said) == nil && said.OK != nil {
		if *said.OK {
			return nil
		}
		return refused(a, said, secrets)
	}
	r := lookup.Refused(a, name, secrets)
	if r.Kind == job.FailAuth {
		r.Msg = msgReconnect
	}
	return r
}

// refused turns a code into a refusal. One that is not known is worth another try.
func refused(a transport.Response, said answered, secrets transport.Secrets) *connector.Refusal {
	r := &connector.Refusal{Kind: job.FailTransient, Msg: saying(said, secrets)}
	if kind, known := kinds[said.Error]; known {
		r.Kind, r.Auth = kind, causeOf(said.Error)
	}
	switch {
	case r.Kind == job.FailRateLimited:
		r.RetryAfter = a.LimitWait(transport.DefaultRetryAfter)
	case rights[said.Error]:
		r.Err = connector.ErrNotAllowed
	}
	return r
}
