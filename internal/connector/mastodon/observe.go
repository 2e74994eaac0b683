package mastodon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of one look.
const (
	// pageSize is how many posts are asked for at once: the API's most.
	pageSize = 40
	// MaxPages bounds one look; an account with more posts since the watermark is not
	// read completely. MaxSources bounds the posts whose source is read.
	MaxPages   = 100
	MaxSources = 200
	// takenBatch is how many ids Look.Taken is asked about at once.
	takenBatch = 500
)

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	a, err := c.account(o)
	if err != nil {
		return "", err
	}
	p, err := c.whose(ctx, a)
	if err != nil {
		return "", err
	}
	l, err := c.page(ctx, a, p.id, "", true)
	if err != nil {
		return "", err
	}
	text, err := markOf(a.base.String(), p, l, c.now().UTC()).encode()
	if err != nil {
		return "", &connector.Refusal{Kind: job.FailTransient, Msg: "the server's time is not usable", Err: err}
	}
	return text, nil
}

// AccountOf implements connector.Identifier.
func (*Connector) AccountOf(watermark string) string {
	m, err := parseMark(watermark)
	if err != nil {
		return ""
	}
	return m.Account
}

// Backdate implements connector.Backdater.
func (*Connector) Backdate(watermark string, by time.Duration) (string, error) {
	m, err := parseMark(watermark)
	if err != nil {
		return "", err
	}
	m.At, m.Local, m.Seen = m.At.Add(-by), m.Local.Add(-by), nil
	return m.encode()
}

// Observe implements connector.Observer.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	s, want, err := c.search(ctx, o, l)
	if err != nil {
		return kit.Unseen(err)
	}
	switch ids := s.found(); {
	case l.Any && len(want.media) > 0:
		return saw(job.SawInconclusive, "it cannot be told which files a post has")
	case len(ids) == 0 && !s.late():
		return saw(job.SawInconclusive, "the server answered with a list from before the end of the send")
	case len(ids) == 0 && want.Visibility == direct:
		return saw(job.SawInconclusive, "a direct post is not listed, but servers may leave those out; is it there?")
	case len(ids) == 0:
		return saw(job.SawAbsent, fmt.Sprintf("%d posts read, back to before the send; none has this content", len(s.ids)))
	case len(ids) == 1 && len(s.sure) == 1, l.Any && len(s.sure) > 0: // the newest first
		out := saw(job.SawPresent, "found as post "+ids[0])
		out.ExternalID, out.ExternalURL = s.sure[0].id, s.sure[0].url
		return out
	case len(ids) == 1:
		return saw(job.SawCandidates, "post "+ids[0]+" may be this one, but its time, its words or what belongs to it are not quite those of the send; is it?")
	default:
		return saw(job.SawCandidates, fmt.Sprintf("%d posts have this content: %s", len(ids), names(ids)))
	}
}

func saw(v job.Verdict, detail string) job.Observation {
	return job.Observation{Verdict: v, Detail: transport.Clean(detail, transport.MaxMessage)}
}

// search reads completely, or fails.
func (c *Connector) search(ctx context.Context, o connector.Opening, l connector.Look) (*search, content, error) {
	a, err := c.account(o)
	if err != nil {
		return nil, content{}, err
	}
	want, err := thaw(l.First.Frozen)
	if err != nil {
		return nil, want, err
	}
	m, err := parseMark(l.First.Watermark)
	switch {
	case err != nil:
		return nil, want, err
	case m.Base != a.base.String():
		return nil, want, errors.New("the connection leads to another server than at the send")
	case l.First.ArmedAt.IsZero() || l.Fence.Before(l.First.ArmedAt):
		return nil, want, errors.New("the attempt's times are not known")
	}
	if p, err := c.whose(ctx, a); err != nil {
		return nil, want, err
	} else if p.id != m.ID {
		return nil, want, connector.ErrForeign
	}
	s := newSearch(m, want, l)
	if err := c.pages(ctx, a, s); err != nil {
		return nil, want, err
	}
	if err := c.compare(ctx, a, s, want); err != nil {
		return nil, want, err
	}
	if l.Taken == nil {
		return s, want, nil
	}
	for ids := range slices.Chunk(idsOf(s.sure, s.uncertain, s.alike), takenBatch) {
		taken, err := l.Taken(ctx, ids)
		if err != nil {
			return nil, want, errors.New("it could not be read which posts are other jobs'")
		}
		s.drop(taken)
	}
	return s, want, nil
}

// pages reads page after page until nothing of ours can come any more.
func (c *Connector) pages(ctx context.Context, a account, s *search) error {
	for range MaxPages {
		l, err := c.page(ctx, a, s.mark.ID, s.last, false)
		if err != nil {
			return err
		}
		if done, err := s.add(l, c.now()); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d pages of posts since the send", MaxPages)
}

// page reads the posts that are older than the one named, the newest if none is.
func (c *Connector) page(ctx context.Context, a account, id, before string, fresh bool) (listing, error) {
	q := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if before != "" {
		q.Set("max_id", before)
	}
	u, err := a.endpoint("/api/v1/accounts/"+id+"/statuses", q)
	if err != nil {
		return listing{}, err
	}
	answer, err := c.get(ctx, a, u, fresh)
	if err != nil {
		return listing{}, err
	}
	l, err := parseListing(answer, pageSize, c.now())
	if err != nil {
		return listing{}, &connector.Refusal{Kind: job.FailTransient, Msg: err.Error()}
	}
	return l, nil
}

// compare keeps the posts that have the content.
func (c *Connector) compare(ctx context.Context, a account, s *search, want content) error {
	reads := 0
	return s.keep(func(p status) (likeness, error) {
		if reads++; reads > MaxSources {
			return other, fmt.Errorf("more than %d posts since the send", MaxSources)
		}
		text, warning, told, err := c.source(ctx, a, p.id)
		if err != nil {
			return other, err
		}
		like := want.likeHTML(p)
		if told {
			like = want.likeSource(text, warning)
		}
		if p.edited {
			like = max(like, maybe)
		}
		return like, nil
	})
}

// source reads a post as it was written. told is false where the server has no such
// thing.
func (c *Connector) source(ctx context.Context, a account, id string) (text, warning string, told bool, err error) {
	u, err := a.endpoint("/api/v1/statuses/"+id+"/source", nil)
	if err != nil {
		return "", "", false, err
	}
	answer, err := c.get(ctx, a, u, false)
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
