package x_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/connector/x"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"
	"github.com/fireonce/fireonce/internal/job"
)

// world is one account on a simulated X, and what the engine would do with it.
type world struct {
	*xtest.Platform
	*connectortest.Clock
	c    *x.Connector
	cred connector.Credential
}

const readLag = 2 * time.Minute

func newWorld(t *testing.T, opts xtest.Options) *world {
	t.Helper()
	w := &world{Clock: connectortest.NewClock(), cred: oauth(t, token)}
	opts.Now, opts.Token = w.Now, token
	var err error
	if w.Platform, err = xtest.Start(opts); err != nil {
		t.Fatal(err)
	}
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	w.c = x.New(x.Config{Sender: sender, BaseURL: w.URL(), Now: w.Now, Media: kit.NewMedia(kit.MediaConfig{
		Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), Dir: t.TempDir(),
	})})
	t.Cleanup(func() {
		_ = w.Platform.Close()
		sender.Close()
	})
	return w
}

var longPosts = &connectionsv1.XSettings{LongPosts: true}

func (w *world) prepare(t *testing.T, kind string, payload []byte) *connectortest.Effect {
	t.Helper()
	prepared, err := w.c.Prepare(connector.Request{EffectKey: effectKey, Settings: encode(t, longPosts), PayloadKind: kind, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return &connectortest.Effect{
		Connector: w.c, Clock: w.Clock, Key: effectKey, ReadLag: readLag, Taken: make(map[string]bool),
		Opening: connector.Opening{Settings: encode(t, longPosts), Class: job.Observable, Credential: w.cred, Prepared: prepared, Fresh: true},
	}
}

func (w *world) effect(t *testing.T, p *fireoncev1.SocialPost) *connectortest.Effect {
	t.Helper()
	return w.prepare(t, x.KindPost, post(t, p))
}

func (w *world) message(t *testing.T, to, text string) *connectortest.Effect {
	t.Helper()
	return w.prepare(t, x.KindMessage, message(t, &fireoncev1.DirectMessage{RecipientId: to, Text: text}))
}

func hello() *fireoncev1.SocialPost { return &fireoncev1.SocialPost{Text: "hello"} }

// always plans the same answer for requests that send, and normal answers for all else.
func always(a xtest.Answer) func(xtest.Request) xtest.Answer {
	return func(r xtest.Request) xtest.Answer {
		if r.Method == http.MethodPost && !strings.HasPrefix(r.Path, "/2/media/") {
			return a
		}
		return xtest.Reply
	}
}
