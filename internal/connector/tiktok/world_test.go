package tiktok_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/tiktok"
	"github.com/fireonce/fireonce/internal/connector/tiktok/tiktoktest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
)

// clock is the time of a world, moved by hand.
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

// world is one account on one simulated platform behind a proxy, and a host of files.
type world struct {
	t *testing.T
	*tiktoktest.Platform
	*clock        // the store's and the platform's
	own    *clock // the machine's
	proxy  *faultproxy.Proxy
	c      *tiktok.Connector
	cred   connector.Credential
	file   []byte
	url    string // of the file
}

// film is a file of a size that looks like a video.
func film(n int) []byte {
	head := "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
	return append([]byte(head), bytes.Repeat([]byte("0123456789abcde"), n/15+1)...)[:max(n, len(head))]
}

func newWorld(t *testing.T, opts tiktoktest.Options) *world {
	t.Helper()
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	w := &world{t: t, clock: &clock{now: now}, own: &clock{now: now}, cred: oauth(t, token), file: film(1000)}
	opts.Now, opts.Token = w.Now, token
	var err error
	if w.Platform, err = tiktoktest.Start(opts); err != nil {
		t.Fatal(err)
	}
	if w.proxy, err = faultproxy.Start(w.URL(), nil); err != nil {
		t.Fatal(err)
	}
	w.Uploads(w.proxy.URL())
	host := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "video/mp4")
		_, _ = rw.Write(w.file)
	}))
	w.url = host.URL + "/film.mp4"
	egress := transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))
	sender := transport.NewSender(transport.Config{Egress: egress})
	w.c = tiktok.New(tiktok.Config{
		Sender: sender, Media: kit.NewMedia(kit.MediaConfig{Egress: egress}), BaseURL: w.proxy.URL(), Now: w.own.Now,
	})
	t.Cleanup(func() {
		host.Close()
		sender.Close()
		_ = w.proxy.Close()
		_ = w.Close()
	})
	return w
}

// pass lets time pass, on all clocks.
func (w *world) pass(d time.Duration) {
	w.clock.pass(d)
	w.own.pass(d)
}

func (w *world) opening(source connectionsv1.TikTokSettings_Source, p *fireoncev1.SocialPost) connector.Opening {
	w.t.Helper()
	settings := settingsOf(w.t, source)
	prepared, err := w.c.Prepare(connector.Request{
		EffectKey: effectKey, Settings: settings, PayloadKind: tiktok.PayloadKind, Payload: payloadOf(w.t, p),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return connector.Opening{
		Settings: settings, Class: job.Handle, Credential: w.cred, Prepared: prepared, Fresh: true,
		Steady: func(context.Context) (time.Time, error) { return w.Now(), nil },
	}
}

// attempt is one attempt with the names that it saved.
type attempt struct {
	job.Outcome
	saved []string
	o     connector.Opening
}

// handle is what the store has of the attempt afterwards.
func (a attempt) handle() string {
	switch {
	case a.Handle != "":
		return a.Handle
	case len(a.saved) > 0:
		return a.saved[len(a.saved)-1]
	default:
		return ""
	}
}

// send makes one attempt; change alters its commit.
func (w *world) send(source connectionsv1.TikTokSettings_Source, p *fireoncev1.SocialPost, change ...func(*connector.Commit)) attempt {
	w.t.Helper()
	a := attempt{o: w.opening(source, p)}
	s, err := w.c.Open(w.t.Context(), a.o)
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	at := time.Now().Add(30 * time.Second)
	c := connector.Commit{Attempt: 1, EffectKey: effectKey, SendBy: at, AnswerBy: at, SaveHandle: func(h string) error {
		a.saved = append(a.saved, h)
		return nil
	}}
	for _, f := range change {
		f(&c)
	}
	a.Outcome = s.Publish(c)
	if o := a.Outcome; o.Attempt != 1 || o.CredentialVersion != w.cred.Version || o.Message == "" || strings.Contains(o.Message, "secret") {
		w.t.Errorf("outcome %+v", o)
	}
	return a
}

func (w *world) poll(a attempt) job.Outcome {
	w.t.Helper()
	o := w.c.Poll(context.Background(), a.o, a.handle())
	if o.Message == "" || strings.Contains(o.Message, "secret") {
		w.t.Errorf("outcome %+v", o)
	}
	return o
}

// polls checks what a poll says.
func (w *world) polls(a attempt, want job.Result, kind job.FailureKind, words string) job.Outcome {
	w.t.Helper()
	o := w.poll(a)
	is(w.t, o, want, kind, words)
	return o
}

func is(t *testing.T, o job.Outcome, want job.Result, kind job.FailureKind, words string) {
	t.Helper()
	if o.Result != want || o.Kind != kind || !strings.Contains(o.Message, words) {
		t.Errorf("%s %s %q, want %s %s with %q", o.Result, o.Kind, o.Message, want, kind, words)
	}
}

// plan sets the fates of the next requests whose path has a part, in order.
func (w *world) plan(part string, fates ...faultproxy.Fate) {
	n := 0
	w.proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if !strings.Contains(r.Path, part) {
			return faultproxy.Fate{}
		}
		n++
		if n > len(fates) {
			return faultproxy.Fate{}
		}
		return fates[n-1]
	})
}

func fault(f faultproxy.Fault) faultproxy.Fate { return faultproxy.Fate{Fault: f} }

func says(status int, code string) faultproxy.Fate {
	body := `{"data":{},"error":{"code":"` + code + `","message":"words of ` + code + `","log_id":"1"}}`
	return faultproxy.Fate{Fault: faultproxy.Refuse, Status: status, Body: body}
}

// effects checks how many posts there are.
func (w *world) effects(want int) []tiktoktest.Post {
	w.t.Helper()
	posts := w.Posts(text)
	if len(posts) != want {
		w.t.Errorf("%d posts, want %d: %+v", len(posts), want, posts)
	}
	return posts
}
