package x_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
	"github.com/fireonce/fireonce/internal/job"
)

// clock is the time of a world, moved by hand. Platform, connector and store have
// the same one, but for the platform's offset.
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

// world is one account on a simulated X, and what the engine would do with it.
type world struct {
	*xtest.Platform
	*clock
	c    *x.Connector
	cred connector.Credential
}

const (
	readLag = 2 * time.Minute
	// fenceTime is the engine's: the answer's deadline, and the grace behind it.
	fenceTime = time.Minute
)

func newWorld(t *testing.T, opts xtest.Options) *world {
	t.Helper()
	w := &world{clock: &clock{now: time.Date(2026, 11, 21, 8, 0, 0, 250e6, time.UTC)}, cred: oauth(t, token)}
	opts.Now, opts.Token = w.Now, token
	var err error
	if w.Platform, err = xtest.Start(opts); err != nil {
		t.Fatal(err)
	}
	sender := connector.NewSender(connector.Config{Egress: connector.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	w.c = x.New(x.Config{Sender: sender, BaseURL: w.URL(), Now: w.Now, Media: connector.NewMedia(connector.MediaConfig{
		Egress: connector.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), Dir: t.TempDir(),
	})})
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
	attempts int
	fence    time.Time
	taken    map[string]bool
	uploads  time.Duration // what the uploads before the arm take
}

var longPosts = &fireoncev1.XSettings{LongPosts: true}

func (w *world) prepare(t *testing.T, kind string, payload []byte) *effect {
	t.Helper()
	prepared, err := w.c.Prepare(connector.Request{EffectKey: effectKey, Settings: encode(t, longPosts), PayloadKind: kind, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return &effect{w: w, prepared: prepared, taken: make(map[string]bool)}
}

func (w *world) effect(t *testing.T, p *fireoncev1.SocialPost) *effect {
	t.Helper()
	return w.prepare(t, x.KindPost, post(t, p))
}

func (w *world) message(t *testing.T, to, text string) *effect {
	t.Helper()
	return w.prepare(t, x.KindMessage, message(t, &fireoncev1.DirectMessage{RecipientId: to, Text: text}))
}

func (e *effect) opening(t *testing.T) connector.Opening {
	t.Helper()
	return connector.Opening{
		Settings: encode(t, longPosts), Class: job.Observable, Credential: e.w.cred, Prepared: e.prepared, Fresh: true,
	}
}

// send arms and makes one attempt.
func (e *effect) send(t *testing.T) job.Outcome {
	t.Helper()
	mark, err := e.w.c.Watermark(t.Context(), e.opening(t))
	if err != nil {
		t.Fatal(err)
	}
	e.w.pass(e.uploads)
	e.attempts++
	if e.attempts == 1 {
		e.first = job.Attempt{Number: 1, Round: 1, ArmedAt: e.w.Now(), Frozen: e.prepared.Frozen, Watermark: mark}
	}
	e.fence = e.w.Now().Add(fenceTime)
	e.w.pass(50 * time.Millisecond)
	s, err := e.w.c.Open(t.Context(), e.opening(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	return s.Publish(connector.Commit{Attempt: e.attempts, EffectKey: effectKey, SendBy: at, AnswerBy: at})
}

// settle lets the fence and the read lag pass.
func (e *effect) settle() { e.w.pass(e.fence.Sub(e.w.Now()) + readLag) }

func (e *effect) look(t *testing.T) job.Observation {
	t.Helper()
	return e.w.c.Observe(t.Context(), e.opening(t), connector.Look{
		First: e.first, Fence: e.fence, Now: e.w.Now(),
		Taken: func(context.Context, []string) (map[string]bool, error) { return e.taken, nil },
	})
}

// sees settles and looks.
func (e *effect) sees(t *testing.T, want job.Verdict, words string) job.Observation {
	t.Helper()
	e.settle()
	return e.seesNow(t, want, words)
}

func (e *effect) seesNow(t *testing.T, want job.Verdict, words string) job.Observation {
	t.Helper()
	o := e.look(t)
	if o.Verdict != want || !strings.Contains(o.Detail, words) {
		t.Errorf("%s (%s), want %s with %q", o.Verdict, o.Detail, want, words)
	}
	return o
}

func hello() *fireoncev1.SocialPost { return &fireoncev1.SocialPost{Text: "hello"} }

// always plans the same for what is sent, and tells as it should.
func always(a xtest.Answer) func(xtest.Request) xtest.Answer {
	return func(r xtest.Request) xtest.Answer {
		if r.Method == http.MethodPost && !strings.HasPrefix(r.Path, "/2/media/") {
			return a
		}
		return xtest.Reply
	}
}
