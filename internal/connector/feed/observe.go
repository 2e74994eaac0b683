package feed

import (
	"context"
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
	// pageSize is how many posts a look asks for at once, markSize how many a
	// watermark. A page that is too large for connector.MaxBody is asked for in parts.
	pageSize = 100
	markSize = 20
	// MaxPages bounds one look; an account with more posts since the watermark is not
	// read completely.
	MaxPages = 100
	// readTimeout bounds one page.
	readTimeout = 15 * time.Second
	// takenBatch is how many ids Look.Taken is asked about at once.
	takenBatch = 500
)

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	a, err := c.account(o)
	if err != nil {
		return "", err
	}
	l, err := c.page(ctx, a, "", markSize, true)
	if err != nil {
		return "", err
	}
	text, err := markOf(a.base.String(), l, c.now().UTC()).encode()
	if err != nil {
		return "", &connector.Refusal{Kind: job.FailTransient, Msg: "the platform's time is not usable", Err: err}
	}
	return text, nil
}

// AccountOf implements connector.Identifier.
func (*Connector) AccountOf(watermark string) string {
	m, err := parseMark(watermark)
	if err != nil {
		return ""
	}
	return m.Base + " " + m.Account
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
	s, err := c.search(ctx, o, l)
	if err != nil {
		return kit.Unseen(err)
	}
	switch ids := s.found(); {
	case len(ids) == 0 && !s.late():
		return saw(job.SawInconclusive, "the platform answered with a list from before the end of the send")
	case len(ids) == 0:
		return saw(job.SawAbsent, fmt.Sprintf("%d posts read, back to before the send; none has this content", len(s.ids)))
	case len(ids) == 1 && len(s.sure) == 1, l.Any && len(s.sure) > 0: // the newest first
		out := saw(job.SawPresent, "found as post "+ids[0])
		out.ExternalID, out.ExternalURL = s.sure[0].id, s.sure[0].url
		return out
	case len(ids) == 1:
		return saw(job.SawCandidates, "post "+ids[0]+" has this content, but its time is not that of the send, or it answers nothing; is it this one?")
	default:
		return saw(job.SawCandidates, fmt.Sprintf("%d posts have this content: %s", len(ids), names(ids)))
	}
}

func saw(v job.Verdict, detail string) job.Observation {
	return job.Observation{Verdict: v, Detail: transport.Clean(detail, transport.MaxMessage)}
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
	m, err := parseMark(l.First.Watermark)
	switch {
	case err != nil:
		return nil, err
	case m.Base != a.base.String():
		return nil, errors.New("the connection leads to another platform than at the send")
	case l.First.ArmedAt.IsZero() || l.Fence.Before(l.First.ArmedAt):
		return nil, errors.New("the attempt's times are not known")
	}
	s := newSearch(m, want, l)
	if err := c.pages(ctx, a, s); err != nil {
		return nil, err
	}
	if l.Taken == nil {
		return s, nil
	}
	for ids := range slices.Chunk(idsOf(s.sure, s.uncertain, s.orphans), takenBatch) {
		taken, err := l.Taken(ctx, ids)
		if err != nil {
			return nil, errors.New("it could not be read which posts are other jobs'")
		}
		s.drop(taken)
	}
	return s, nil
}

// pages reads page after page until nothing of ours can come any more.
func (c *Connector) pages(ctx context.Context, a account, s *search) error {
	cursor, been := "", make(map[string]bool)
	for range MaxPages {
		l, err := c.page(ctx, a, cursor, pageSize, false)
		if err != nil {
			return err
		}
		done, err := s.add(l, c.now())
		if done || err != nil {
			return err
		}
		if cursor = l.next; been[cursor] {
			return errShifted
		}
		been[cursor] = true
	}
	return fmt.Errorf("more than %d pages of posts since the send", MaxPages)
}

// page reads one page from a cursor on, of at most size posts. It fails with
// *connector.Refusal. fresh asks for a line of its own: a failure before the arm
// costs the job a try.
func (c *Connector) page(ctx context.Context, a account, cursor string, size int, fresh bool) (listing, error) {
	for {
		l, err := c.part(ctx, a, cursor, size, fresh)
		if size == 1 || !errors.Is(err, transport.ErrBodyTooLarge) {
			return l, err
		}
		size = max(1, size/5)
	}
}

func (c *Connector) part(ctx context.Context, a account, cursor string, size int, fresh bool) (listing, error) {
	u := *a.posts
	q := url.Values{"limit": {strconv.Itoa(size)}}
	if cursor != "" {
		q.Set("before", cursor)
	}
	u.RawQuery = q.Encode()
	by := time.Now().Add(readTimeout)
	if end, ok := ctx.Deadline(); ok && end.Before(by) {
		by = end
	}
	line, err := c.sender.Open(ctx, transport.TargetOf(&u), fresh)
	if err != nil {
		return listing{}, fmt.Errorf("read posts: %w", err)
	}
	defer line.Close()
	answer := line.Exchange(transport.Call{Method: "GET", URL: &u, Headers: a.headers(), Keep: transport.MaxBody},
		transport.Bounds{SendBy: by, AnswerBy: by})
	if err := unread(answer, a.auth.Hidden); err != nil {
		return listing{}, err
	}
	l, err := parseListing(answer.Excerpt)
	if err != nil {
		return listing{}, &connector.Refusal{Kind: job.FailTransient, Msg: err.Error()}
	}
	return l, nil
}

// unread says why an answer to a read is none, or nil.
func unread(a transport.Answer, secrets transport.Secrets) error {
	if a.Complete && a.Status == 200 {
		return nil
	}
	if errors.Is(a.Err, transport.ErrBodyTooLarge) {
		return &connector.Refusal{Kind: job.FailTransient, Msg: who + " could not be read", Err: transport.ErrBodyTooLarge}
	}
	r := &connector.Refusal{Kind: job.FailTransient, Msg: transport.Unread(a, who, secrets)}
	switch {
	case !a.Complete:
	case a.Status == 401, a.Status == 403:
		r.Kind = job.FailAuth
		if a.Status == 403 {
			r.Err = connector.ErrNotAllowed
			r.Msg += mayNot
		} else {
			r.Msg += refused
		}
	case a.Status == 429:
		r.Kind = job.FailRateLimited
		var said bool
		if r.RetryAfter, said = transport.RetryAfter(a.Header, a.At); !said {
			r.RetryAfter = transport.DefaultRetryAfter
		}
	}
	return r
}
