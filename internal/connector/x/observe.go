package x

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of one look.
const (
	// maxPages bounds one look: X lists 3,200 posts.
	maxPages = mostListed / pageSize
	// readTimeout bounds one page.
	readTimeout = 15 * time.Second
	// takenBatch is how many ids Look.Taken is asked about at once.
	takenBatch = 500
)

const pathMe = "/2/users/me"

// Watermark implements connector.Observer. It fails with *connector.Refusal.
func (c *Connector) Watermark(ctx context.Context, o connector.Opening) (string, error) {
	auth, err := account(o)
	if err != nil {
		return "", err
	}
	who, at, err := c.whose(ctx, auth, true)
	if err != nil {
		return "", err
	}
	text, err := mark{Version: markVersion, Account: who.id, At: at, Local: c.now().UTC()}.encode()
	if err != nil {
		return "", &connector.Refusal{Kind: job.FailTransient, Msg: "the time of X is not usable", Err: err}
	}
	return text, nil
}

// AccountOf implements connector.Identifier: the user's id, which outlives a change
// of the name.
func (*Connector) AccountOf(watermark string) string {
	m, err := parseMark(watermark)
	if err != nil {
		return ""
	}
	return identity(m.Account)
}

func identity(user string) string { return "x:" + user }

// Test implements connector.Tester. It fails with *connector.Refusal.
func (c *Connector) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	auth, err := account(o)
	if err != nil {
		return connector.Tested{}, err
	}
	who, _, err := c.whose(ctx, auth, true)
	if err != nil {
		return connector.Tested{}, err
	}
	return connector.Tested{
		Identity: identity(who.id),
		Detail:   transport.Clean("the account @"+who.name+" on X (user "+who.id+")", transport.MaxMessage),
	}, nil
}

// whose asks whose account a credential is, and what time it is at X.
func (c *Connector) whose(ctx context.Context, auth kit.Auth, fresh bool) (me, time.Time, error) {
	answer, at, err := c.get(ctx, auth, pathMe, nil, fresh)
	if err != nil {
		return me{}, time.Time{}, err
	}
	who, err := parseMe(answer)
	if err != nil {
		return me{}, time.Time{}, &connector.Refusal{Kind: job.FailTransient, Msg: err.Error()}
	}
	c.owners.keep(auth, who.id)
	return who, at, nil
}

// owner is whose account a credential is: asked once, because it never changes.
func (c *Connector) owner(ctx context.Context, auth kit.Auth) (string, error) {
	if user := c.owners.get(auth); user != "" {
		return user, nil
	}
	who, _, err := c.whose(ctx, auth, false)
	return who.id, err
}

// mostOwners bounds the tokens whose accounts are remembered, before all are forgotten.
const mostOwners = 10_000

// owners remembers whose account a token is. The tokens themselves are not kept.
type owners struct {
	mu   sync.Mutex
	kept map[[sha256.Size]byte]string
}

func tokenKey(auth kit.Auth) [sha256.Size]byte {
	h := sha256.New()
	for _, header := range auth.Headers {
		_, _ = h.Write([]byte(header.Value + "\x00"))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func (o *owners) get(auth kit.Auth) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.kept[tokenKey(auth)]
}

func (o *owners) keep(auth kit.Auth, user string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.kept == nil || len(o.kept) >= mostOwners {
		o.kept = make(map[[sha256.Size]byte]string)
	}
	o.kept[tokenKey(auth)] = user
}

// Backdate implements connector.Backdater.
func (*Connector) Backdate(watermark string, by time.Duration) (string, error) {
	m, err := parseMark(watermark)
	if err != nil {
		return "", err
	}
	m.At, m.Local = m.At.Add(-by), m.Local.Add(-by)
	return m.encode()
}

// Observe implements connector.Observer.
func (c *Connector) Observe(ctx context.Context, o connector.Opening, l connector.Look) job.Observation {
	s, err := c.search(ctx, o, l)
	if err != nil {
		return kit.Unseen(err)
	}
	what := "post"
	if s.want.Recipient != "" {
		what = "direct message"
	}
	switch ids := s.found(); {
	case l.Any && len(s.want.Pictures) > 0:
		return saw(job.SawInconclusive, "X does not tell which pictures a post has")
	case len(ids) == 0 && !s.late():
		return saw(job.SawInconclusive, "X answered with a list from before the end of the send")
	case len(ids) == 0 && s.unexplained:
		out := saw(job.SawAbsent, "X says that this account has the same content already, and lists none that has it")
		out.Contradicted = true
		return out
	case len(ids) == 0:
		return saw(job.SawAbsent, fmt.Sprintf("%d %ss read, back to before the send; none has this content", len(s.ids), what))
	case len(ids) == 1 && len(s.sure) == 1, l.Any && len(s.sure) > 0: // the newest first
		out := saw(job.SawPresent, "found as "+what+" "+ids[0])
		out.ExternalID, out.ExternalURL = ids[0], webURL(s.sure[0].id, s.want.Recipient != "")
		return out
	case len(ids) == 1:
		return saw(job.SawCandidates, what+" "+ids[0]+" is like this one, but its text or its time is not quite that of the send; is it this one?")
	default:
		return saw(job.SawCandidates, fmt.Sprintf("%d %ss are like this one: %s", len(ids), what, names(ids)))
	}
}

func saw(v job.Verdict, detail string) job.Observation {
	return job.Observation{Verdict: v, Detail: transport.Clean(detail, transport.MaxMessage)}
}

// search reads completely, or fails.
func (c *Connector) search(ctx context.Context, o connector.Opening, l connector.Look) (*search, error) {
	auth, err := account(o)
	if err != nil {
		return nil, err
	}
	want, err := thaw(l.First.Frozen)
	if err != nil {
		return nil, err
	}
	m, err := parseMark(l.First.Watermark)
	if err != nil {
		return nil, err
	}
	if l.First.ArmedAt.IsZero() || l.Fence.Before(l.First.ArmedAt) {
		return nil, errors.New("the attempt's times are not known")
	}
	s := newSearch(m, want, l)
	if err := c.pages(ctx, auth, s); err != nil {
		return nil, err
	}
	if l.Taken == nil {
		return s, nil
	}
	for ids := range slices.Chunk(s.idsOf(s.sure, s.uncertain, s.alike), takenBatch) {
		taken, err := l.Taken(ctx, ids)
		if err != nil {
			return nil, errors.New("it could not be read which posts are other jobs'")
		}
		s.drop(taken)
	}
	return s, nil
}

// pages reads page after page until nothing of ours can come any more.
//
// The asker must be the account of the send: a conversation is the one with the asker,
// and others may not be shown all of an account's posts.
func (c *Connector) pages(ctx context.Context, auth kit.Auth, s *search) error {
	if user, err := c.owner(ctx, auth); err != nil {
		return err
	} else if user != s.mark.Account {
		return connector.ErrForeign
	}
	path, query, token := "/2/users/"+s.mark.Account+"/tweets", url.Values{
		"since_id":     {strconv.FormatUint(s.floor(), 10)},
		"tweet.fields": {"attachments,created_at,edit_history_tweet_ids,entities,note_tweet,referenced_tweets"},
	}, "pagination_token"
	if s.want.Recipient != "" {
		path, query = "/2/dm_conversations/with/"+s.want.Recipient+"/dm_events", url.Values{
			"event_types": {"MessageCreate"}, "dm_event.fields": {"created_at,entities,event_type,sender_id,text"},
		}
	}
	query.Set("max_results", strconv.Itoa(pageSize))
	been := make(map[string]bool)
	for range maxPages {
		answer, at, err := c.get(ctx, auth, path, query, false)
		if err != nil {
			return err
		}
		if err := s.steady(at, c.now()); err != nil {
			return err
		}
		l, err := parseListing(answer, s.want.Recipient != "")
		if err != nil {
			return err
		}
		done, err := s.add(l)
		if done || err != nil {
			return err
		}
		if been[l.next] {
			return errShifted
		}
		been[l.next] = true
		query.Set(token, l.next)
	}
	return fmt.Errorf("more than %d pages since the send", maxPages)
}

// get reads one answer, with X's clock. It fails with *connector.Refusal. fresh asks
// for a line of its own: a failure before the arm costs the job a try.
func (c *Connector) get(ctx context.Context, auth kit.Auth, path string, query url.Values, fresh bool) ([]byte, time.Time, error) {
	u, err := c.url(path, query)
	if err != nil {
		return nil, time.Time{}, err
	}
	answer, err := c.call(ctx, transport.Call{Method: "GET", URL: u, Headers: headers(auth)}, fresh)
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

// call makes one request that has no effect.
func (c *Connector) call(ctx context.Context, call transport.Call, fresh bool) (transport.Answer, error) {
	by := time.Now().Add(readTimeout)
	if end, ok := ctx.Deadline(); ok && end.Before(by) {
		by = end
	}
	line, err := c.sender.Open(ctx, transport.TargetOf(call.URL), fresh)
	if err != nil {
		return transport.Answer{}, fmt.Errorf("ask x: %w", err)
	}
	defer line.Close()
	call.Keep = transport.MaxBody
	return line.Exchange(call, transport.Bounds{SendBy: by, AnswerBy: by}), nil
}

func headers(auth kit.Auth, own ...transport.Header) []transport.Header {
	return append(append(own, transport.Header{Name: "Accept", Value: "application/json"}), auth.Headers...)
}

// unread says why an answer to a read is none, or nil.
func unread(a transport.Answer, secrets transport.Secrets) error {
	if a.Complete && a.Status == 200 {
		return nil
	}
	r := &connector.Refusal{Kind: job.FailTransient, Msg: transport.Unread(a, who, secrets)}
	p := problemOf(a)
	switch {
	case !a.Complete:
	case a.Status == 401:
		r.Kind, r.Msg = job.FailAuth, msgReconnect
	case a.Status == 403:
		r.Kind, r.Err = job.FailAuth, connector.ErrNotAllowed
		r.Msg = p.quote("X does not let this account's token do this: reconnect this X account with all the rights it asks for", secrets)
	case a.Status == 429, p.credits():
		r.Kind, r.RetryAfter = job.FailRateLimited, p.wait(a)
	}
	return r
}
