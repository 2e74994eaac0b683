package feed

import (
	"context"
	"errors"
	"net/url"
	"strconv"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of one look.
const (
	// pageSize is how many posts a look requests in one page, watermarkSize how many a
	// watermark requests. A page that is too large for transport.MaxBody is requested
	// in parts.
	pageSize      = 100
	watermarkSize = 20
	// MaxPages bounds one look; an account with more posts since the watermark is not
	// read completely.
	MaxPages = 100
)

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	a, err := c.account(o)
	if err != nil {
		return "", err
	}
	local, err := lookup.LocalClock(ctx, o, c.cfg.Now)
	if err != nil {
		return "", err
	}
	l, err := c.page(ctx, a, "", watermarkSize, true)
	if err != nil {
		return "", err
	}
	return lookup.EncodeWatermark(watermarkOf(a.base, l, local().UTC()))
}

// Observe implements connector.Observer.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	s, err := c.search(ctx, o, l)
	if err != nil {
		return lookup.Unseen(err)
	}
	return s.Verdict(wording)
}

// search reads completely, or fails.
func (c *Connector) search(ctx context.Context, o connector.Opening, l connector.Look) (*search, error) {
	a, err := c.account(o)
	if err != nil {
		return nil, err
	}
	want, err := thaw(l.First.Frozen)
	if err != nil {
		return nil, err
	}
	m, local, err := lookup.Begin(ctx, o, l, c.cfg.Now, watermarks.Parse)
	switch {
	case err != nil:
		return nil, err
	case m.Base != a.base:
		return nil, errors.New("the connection leads to another platform than at the send")
	}
	s := newSearch(m, want, l)
	err = s.ReadPages(func(cursor string) (string, bool, error) {
		page, err := c.page(ctx, a, cursor, pageSize, false)
		if err != nil {
			return "", false, err
		}
		done, err := s.add(page, local())
		return page.next, done, err
	})
	if err != nil {
		return nil, err
	}
	if _, err := s.DropTaken(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// page reads one page from a cursor on, of at most size posts. It fails with
// *connector.Refusal. fresh asks for its own connection: a failure before the arm
// costs the job a try.
func (c *Connector) page(ctx context.Context, a account, cursor string, size int, fresh bool) (listing, error) {
	return lookup.Smaller(size, func(size int) (listing, error) { return c.part(ctx, a, cursor, size, fresh) })
}

func (c *Connector) part(ctx context.Context, a account, cursor string, size int, fresh bool) (listing, error) {
	call := kit.Call{Base: a.base, Path: pathPosts, Query: url.Values{"limit": {strconv.Itoa(size)}}, Auth: a.auth}
	if cursor != "" {
		call.Query.Set("before", cursor)
	}
	answer, err := lookup.Ask(ctx, c.cfg.Sender, call, fresh, "read posts")
	if err != nil {
		return listing{}, err
	}
	if err := unread(answer, a.auth.Hidden); err != nil {
		return listing{}, err
	}
	l, err := parseListing(answer.Excerpt)
	if err != nil {
		return listing{}, &connector.Refusal{Kind: job.FailTransient, Msg: err.Error()}
	}
	return l, nil
}

// unread returns why an answer is not a read; nil: it is.
func unread(a transport.Response, secrets transport.Secrets) error {
	if a.Complete && a.Status == 200 {
		return nil
	}
	r := lookup.Refused(a, platformName, secrets)
	switch {
	case r.Kind != job.FailAuth:
	case a.Status == 403:
		r.Msg += mayNot
	default:
		r.Msg += refused
	}
	return r
}
