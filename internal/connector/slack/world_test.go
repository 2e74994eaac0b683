package slack_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/slack"
	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// world is one account on a simulated Slack, and what the engine would do with it.
type world struct {
	*slacktest.Platform
	*connectortest.Clock
	c    *slack.Connector
	cred connector.Credential
	jobs int
}

const readLag = 30 * time.Second

func newWorld(t *testing.T, opts slacktest.Options) *world {
	t.Helper()
	w := &world{Clock: connectortest.NewClock(), cred: oauth(t, token)}
	opts.Now, opts.Token = w.Now, token
	var err error
	if w.Platform, err = slacktest.Start(opts); err != nil {
		t.Fatal(err)
	}
	sender := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	w.c = slack.New(slack.Config{Sender: sender, BaseURL: w.URL(), Now: w.Now})
	t.Cleanup(func() {
		_ = w.Platform.Close()
		sender.Close()
	})
	return w
}

func (w *world) prepare(t *testing.T, kind string, payload []byte) *connectortest.Effect {
	t.Helper()
	w.jobs++
	key := fmt.Sprintf("0199c0de-0000-7000-8000-%012d", w.jobs)
	prepared, err := w.c.Prepare(connector.Request{EffectKey: key, Settings: settings(t), PayloadKind: kind, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return &connectortest.Effect{
		Connector: w.c, Clock: w.Clock, Key: key, ReadLag: readLag, Taken: make(map[string]bool),
		Opening: connector.Opening{Settings: settings(t), Class: job.Observable, Credential: w.cred, Prepared: prepared, Fresh: true},
	}
}

func (w *world) effect(t *testing.T, p *fireoncev1.SocialPost) *connectortest.Effect {
	t.Helper()
	return w.prepare(t, slack.KindPost, post(t, p))
}

func (w *world) message(t *testing.T, to, text string) *connectortest.Effect {
	t.Helper()
	return w.prepare(t, slack.KindMessage, message(t, &fireoncev1.DirectMessage{RecipientId: to, Text: text}))
}

func hello() *fireoncev1.SocialPost { return &fireoncev1.SocialPost{Text: "hello"} }

// always plans the same answer for messages, and normal answers for all else.
func always(a slacktest.Answer) func(slacktest.Request) slacktest.Answer {
	return func(r slacktest.Request) slacktest.Answer {
		if r.Method == "chat.postMessage" {
			return a
		}
		return slacktest.Reply
	}
}
