package mastodon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of one look.
const (
	// pageSize is how many posts are requested in one page: the API's most.
	pageSize = 40
	// MaxPages bounds one look; an account with more posts since the watermark is not
	// read completely. MaxSources bounds the posts whose source is read.
	MaxPages   = 100
	MaxSources = 200
)

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	a, err := c.account(o)
	if err != nil {
		return "", err
	}
	p, err := c.readOwner(ctx, a)
	if err != nil {
		return "", err
	}
	local, err := lookup.LocalClock(ctx, o, c.cfg.Now)
	if err != nil {
		return "", err
	}
	l, err := c.page(ctx, a, p.id, "", local, true)
	if err != nil {
		return "", err
	}
	return lookup.EncodeWatermark(watermarkOf(a.base.String(), p, l, local().UTC()))
}

// Observe implements connector.Observer.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	s, err := c.search(ctx, o, l)
	switch {
	case err != nil:
		return lookup.Unseen(err)
	case l.Any && len(s.want.media) > 0:
		return lookup.Saw(job.SawInconclusive, "it cannot be told which files a post has")
	case len(s.Found()) == 0 && s.Late() && s.want.Visibility == direct:
		return lookup.Saw(job.SawInconclusive, "a direct post is not listed, but servers may leave those out; is it there?")
	default:
		return s.Verdict(wording)
	}
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
	case m.Base != a.base.String():
		return nil, errors.New("the connection leads to another server than at the send")
	}
	if p, err := c.readOwner(ctx, a); err != nil {
		return nil, err
	} else if p.id != m.ID {
		return nil, connector.ErrForeign
	}
	s := newSearch(m, want, l)
	err = s.ReadPages(func(before string) (string, bool, error) {
		page, err := c.page(ctx, a, m.ID, before, local, false)
		if err != nil {
			return "", false, err
		}
		done, err := s.add(page, local())
		return s.last, done, err
	})
	if err != nil {
		return nil, err
	}
	if err := c.compare(ctx, a, s); err != nil {
		return nil, err
	}
	if _, err := s.DropTaken(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// page reads the posts that are older than the one named, the newest if none is.
func (c *Connector) page(ctx context.Context, a account, id, before string, local func() time.Time, fresh bool) (listing, error) {
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if before != "" {
		q.Set("max_id", before)
	}
	answer, err := c.get(ctx, a, "/api/v1/accounts/"+id+"/statuses", q, fresh)
	if err != nil {
		return listing{}, err
	}
	l, err := parseListing(answer, pageSize, local())
	if err != nil {
		return listing{}, &connector.Refusal{Kind: job.FailTransient, Msg: err.Error()}
	}
	return l, nil
}

// compare keeps the posts that have the content, or may.
func (c *Connector) compare(ctx context.Context, a account, s *search) error {
	reads := 0
	return s.Sort(func(p status, before lookup.Fit) (lookup.Fit, error) {
		if reads++; reads > MaxSources {
			return lookup.Other, fmt.Errorf("more than %d posts since the send", MaxSources)
		}
		text, warning, told, err := c.source(ctx, a, p.id)
		if err != nil {
			return lookup.Other, err
		}
		like := s.want.likeHTML(p)
		if told {
			like = s.want.likeSource(text, warning)
		}
		if s.rewritten(p) {
			like = max(like, maybe)
		}
		return judge(like, before), nil
	})
}

// source reads a post as it was written. told is false where the server has no such
// thing.
func (c *Connector) source(ctx context.Context, a account, id string) (text, warning string, told bool, err error) {
	answer, err := c.get(ctx, a, "/api/v1/statuses/"+id+"/source", nil, false)
	if answer.Complete && (answer.Status == 404 || answer.Status == 405 || answer.Status == 410 || answer.Status == 501) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, err
	}
	var got struct {
		Text    *string `json:"text"`
		Warning string  `json:"spoiler_text"`
	}
	if err := json.Unmarshal(answer.Excerpt, &got); err != nil || got.Text == nil {
		return "", "", false, &connector.Refusal{Kind: job.FailTransient, Msg: "the server's answer is not the source of a post"}
	}
	return *got.Text, got.Warning, true, nil
}
