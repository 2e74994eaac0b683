package feed_test

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/feed"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// clock is the time of a world, moved by hand. Platform, connector and store
// have the same one, but for the platform's offset.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is one account on one platform, and what the engine would do with it.
type world struct {
	*feedtest.Platform
	*clock
	c    *feed.Connector
	cred connector.Credential
	base string
}

const (
	readLag = time.Minute
	// fenceTime is the engine's: the grace behind the answer's deadline.
	fenceTime = time.Minute
)

func newWorld(t *testing.T, opts feedtest.Options) *world {
	t.Helper()
	w := &world{clock: &clock{now: time.Date(2026, 11, 21, 8, 0, 0, 250e6, time.UTC)}, cred: bearer(t, token)}
	opts.Now, opts.Token = w.Now, token
	var err error
	if w.Platform, err = feedtest.Start(opts); err != nil {
		t.Fatal(err)
	}
	w.base = w.URL()
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	w.c = feed.New(feed.Config{Sender: sender, Now: w.Now})
	t.Cleanup(func() {
		_ = w.Platform.Close()
		sender.Close()
	})
	return w
}

// effect is one job with its attempts.
type effect struct {
	w        *world
	prepared connector.Prepared
	first    job.Attempt
	fence    time.Time
	taken    map[string]bool
}

func (w *world) effect(t *testing.T, p *fireoncev1.SocialPost) *effect {
	t.Helper()
	prepared, err := w.c.Prepare(connector.Request{
		EffectKey: effectKey, Settings: settingsOf(t, w.base, readLag), PayloadKind: feed.PayloadKind, Payload: payloadOf(t, p),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &effect{w: w, prepared: prepared, taken: make(map[string]bool)}
}

func (e *effect) opening(t *testing.T) connector.Opening {
	t.Helper()
	return connector.Opening{
		Settings: settingsOf(t, e.w.base, readLag), Class: job.Observable, Credential: e.w.cred, Prepared: e.prepared, Fresh: true,
	}
}

// arm reads the watermark and writes the intent.
func (e *effect) arm(t *testing.T) {
	t.Helper()
	mark, err := e.w.c.Watermark(t.Context(), e.opening(t))
	if err != nil {
		t.Fatal(err)
	}
	if e.first.Number == 0 {
		e.first = job.Attempt{Number: 1, Round: 1, ArmedAt: e.w.Now(), Frozen: e.prepared.Frozen, Watermark: mark}
	}
	e.fence = e.w.Now().Add(fenceTime)
}

// send arms and makes one attempt.
func (e *effect) send(t *testing.T) job.Outcome {
	t.Helper()
	e.arm(t)
	e.w.pass(50 * time.Millisecond)
	s, err := e.w.c.Open(t.Context(), e.opening(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	return s.Publish(connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at})
}

// settle lets the fence and the read lag pass.
func (e *effect) settle() { e.w.pass(e.fence.Sub(e.w.Now()) + readLag) }

func (e *effect) look(t *testing.T) job.Observation {
	t.Helper()
	return e.w.c.Observe(t.Context(), e.opening(t), connector.Look{
		First: e.first, Fence: e.fence,
		Taken: func(_ context.Context, ids []string) (map[string]bool, error) {
			if len(ids) > 500 {
				return nil, errors.New("too many ids")
			}
			return e.taken, nil
		},
	})
}

// sees settles and looks.
func (e *effect) sees(t *testing.T, want job.Verdict, words string) job.Observation {
	t.Helper()
	e.settle()
	return e.seesNow(t, want, words)
}
