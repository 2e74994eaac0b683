package platforms_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/slack"
	"github.com/fireonce/fireonce/internal/connector/slack/slacktest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// The simulated Slack: messages to a channel.
func TestSlack(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		var of *slacktest.Platform
		on := overSlack(t, func(p *slacktest.Platform, text string) *fireoncev1.Payload {
			of = p
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text}}}
		})
		// Slack's threads are flat: each answer is the first message's.
		on.Parent = func(id string) string {
			for _, m := range of.Messages() {
				if id == strings.TrimSuffix(m.Channel+":"+m.TS+":"+m.Thread, ":") && m.Thread != "" {
					return m.Channel + ":" + m.Thread
				}
			}
			return ""
		}
		on.FlatThreads = true
		return on
	})
}

// The simulated Slack: answers in a thread.
func TestSlackThreads(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		return overSlack(t, func(p *slacktest.Platform, text string) *fireoncev1.Payload {
			first := p.Messages()[0]
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text, ReplyToId: first.TS}}}
		})
	})
}

// The simulated Slack: messages to a person.
func TestSlackMessages(t *testing.T) {
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		return overSlack(t, func(_ *slacktest.Platform, text string) *fireoncev1.Payload {
			return &fireoncev1.Payload{Kind: &fireoncev1.Payload_DirectMessage{DirectMessage: &fireoncev1.DirectMessage{RecipientId: "U2", Text: text}}}
		})
	})
}

// overSlack is a simulated Slack that lists what it has after a moment only, in short
// pages.
func overSlack(t *testing.T, payload func(p *slacktest.Platform, text string) *fireoncev1.Payload) platforms.Platform {
	t.Helper()
	p, err := slacktest.Start(slacktest.Options{ReadLag: 300 * time.Millisecond, PageLimit: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for range 5 {
		p.Say(slacktest.Message{Channel: "C1", Text: "somebody's words", User: "U9"})
	}
	return platforms.Platform{
		URL: p.URL(), Class: job.Observable, Credential: bearer("first"), Renewed: bearer("second"),
		Connector: func(s *transport.Sender, baseURL string) connector.Connector {
			return slack.New(slack.Config{Sender: s, BaseURL: baseURL, Settle: &lookup.Settle{
				ReadLag: 300 * time.Millisecond, Negatives: 2, Spacing: 100 * time.Millisecond,
			}})
		},
		Settings: func(string) []byte { return encoded(t, &connectionsv1.SlackSettings{Channel: "C1"}) },
		Payload:  func(text string) *fireoncev1.Payload { return payload(p, text) },
		Commits:  func(r faultproxy.Request) bool { return r.Path == "/chat.postMessage" },
		Effects: func(text string) (ids []string) {
			for _, m := range p.Messages() {
				if m.Text == text {
					ids = append(ids, strings.TrimSuffix(m.Channel+":"+m.TS+":"+m.Thread, ":"))
				}
			}
			return ids
		},
		HoldWords: "reconnect this Slack workspace", RefusedWords: "the conversation is archived",
		Unauthorized: status(http.StatusOK, `{"ok":false,"error":"token_revoked"}`),
		Refused:      status(http.StatusOK, `{"ok":false,"error":"is_archived"}`),
		Limited:      func(wait time.Duration) faultproxy.Fate { return faultproxy.RetryAfter(wait) },
	}
}
