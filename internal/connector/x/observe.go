package x

import (
	"context"
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
	// maxPages bounds one look: X lists 3,200 posts.
	maxPages = maxListed / pageSize
)

const (
	pathMe = "/2/users/me"
	asking = "ask x" // in errors
)

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	_, auth, err := c.Account(o)
	if err != nil {
		return "", err
	}
	local, err := lookup.LocalClock(ctx, o, c.cfg.Now)
	if err != nil {
		return "", err
	}
	owner, at, err := c.readOwner(ctx, auth, true)
	if err != nil {
		return "", err
	}
	return lookup.EncodeWatermark(watermark{
		Version: lookup.WatermarkVersion, Account: owner.id, Clocks: lookup.Clocks{At: at, Local: local().UTC()},
	})
}

// Test implements connector.Tester. It fails with *connector.Refusal.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	_, auth, err := c.Account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	owner, _, err := c.readOwner(ctx, auth, true)
	if err != nil {
		return connector.Tested{}, err
	}
	return connector.Tested{
		Identity: identity(owner.id),
		Detail:   transport.Clean("the account @"+owner.name+" on X (user "+owner.id+")", transport.MaxMessage),
	}, nil
}

// readOwner asks X for the account of a credential, and for the time.
func (c *Connector) readOwner(ctx context.Context, auth kit.Auth, fresh bool) (me, time.Time, error) {
	answer, at, err := c.get(ctx, auth, pathMe, nil, fresh)
	if err != nil {
		return me{}, time.Time{}, err
	}
	owner, err := parseMe(answer)
	if err != nil {
		return me{}, time.Time{}, &connector.Refusal{Kind: job.FailTransient, Msg: err.Error()}
	}
	c.owners.Put(auth.Key(""), owner.id)
	return owner, at, nil
}

// owner returns the account of a credential. X is asked once, because it never changes.
func (c *Connector) owner(ctx context.Context, auth kit.Auth) (string, error) {
	if user, known := c.owners.Get(auth.Key("")); known {
		return user, nil
	}
	owner, _, err := c.readOwner(ctx, auth, false)
	return owner.id, err
}

// maxOwners bounds the tokens whose accounts are remembered.
const maxOwners = 10_000

// Observe implements connector.Observer.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	s, err := c.search(ctx, o, l)
	switch {
	case err != nil:
		return lookup.Unseen(err)
	case l.Any && len(s.want.Pictures) > 0:
		return lookup.Saw(job.SawInconclusive, "X does not tell which pictures a post has")
	case len(s.Found()) == 0 && s.Late() && s.unexplained:
		out := lookup.Saw(job.SawAbsent, "X says that this account has the same content already, and lists none that has it")
		out.Contradicted = true
		return out
	default:
		return s.Verdict(s.wording())
	}
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
	m, local, err := lookup.Begin(ctx, o, l, c.cfg.Now, watermarks.Parse)
	if err != nil {
		return nil, err
	}
	s := newSearch(m, want, l)
	if err := c.pages(ctx, auth, s, local); err != nil {
		return nil, err
	}
	dropped, err := s.DropTaken(ctx)
	if err != nil {
		return nil, err
	}
	if dropped {
		s.unexplained = false // another job's object is what X meant
	}
	return s, nil
}

// pages reads page after page until nothing of ours can come any more.
//
// The asker must be the account of the send: a conversation is the one with the asker,
// and others may not be shown all of an account's posts.
func (c *Connector) pages(ctx context.Context, auth kit.Auth, s *search, local func() time.Time) error {
	if user, err := c.owner(ctx, auth); err != nil {
		return err
	} else if user != s.watermark.Account {
		return connector.ErrForeign
	}
	path, query := "/2/users/"+s.watermark.Account+"/tweets", url.Values{
		"since_id":     {strconv.FormatUint(s.floor(), 10)},
		"tweet.fields": {"attachments,created_at,edit_history_tweet_ids,entities,note_tweet,referenced_tweets"},
	}
	if s.want.Recipient != "" {
		path, query = "/2/dm_conversations/with/"+s.want.Recipient+"/dm_events", url.Values{
			"event_types": {"MessageCreate"}, "dm_event.fields": {"created_at,entities,event_type,sender_id,text"},
		}
	}
	query.Set("max_results", strconv.Itoa(pageSize))
	return s.ReadPages(func(token string) (string, bool, error) {
		if token != "" {
			query.Set("pagination_token", token)
		}
		answer, at, err := c.get(ctx, auth, path, query, false)
		if err != nil {
			return "", false, err
		}
		if err := s.Steady(at, local()); err != nil {
			return "", false, err
		}
		l, err := parseListing(answer, s.want.Recipient != "")
		if err != nil {
			return "", false, err
		}
		done, err := s.add(l)
		return l.next, done, err
	})
}

// get reads one answer, with X's clock. It fails with *connector.Refusal. fresh asks
// for a connection of its own: a failure before the arm costs the job a try.
func (c *Connector) get(ctx context.Context, auth kit.Auth, path string, query url.Values, fresh bool) ([]byte, time.Time, error) {
	call := kit.Call{Base: c.cfg.BaseURL, Path: path, Query: query, Auth: auth}
	answer, err := lookup.Ask(ctx, c.cfg.Sender, call, fresh, asking)
	if err != nil {
		return nil, time.Time{}, err
	}
	if err := unread(answer, auth.Hidden); err != nil {
		return nil, time.Time{}, err
	}
	at, ok := clockOf(answer)
	if !ok {
		return nil, time.Time{}, &connector.Refusal{Kind: job.FailTransient, Msg: errNoClock.Error()}
	}
	return answer.Excerpt, at, nil
}

// unread returns why an answer to a read is none; nil: it is one.
func unread(a transport.Response, secrets transport.Secrets) error {
	if a.Complete && a.Status == 200 {
		return nil
	}
	r, p := lookup.Refused(a, platformName, secrets), problemOf(a)
	switch {
	case !a.Complete:
		r.Msg, r.Err = transport.Unread(a, platformName, secrets), nil // no page of X is read in parts
	case a.Status == 401:
		r.Msg = msgReconnect
	case a.Status == 403:
		r.Msg = p.quote("X does not let this account's token do this: reconnect this X account with all the rights it asks for", secrets)
	case a.Status == 429, p.credits():
		r.Kind = job.FailRateLimited
		r.RetryAfter, _ = p.wait(a)
	}
	return r
}
