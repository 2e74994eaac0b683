package slacktest

import (
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "slack", Connector: "slack", Title: "Slack", New: sandboxed,
		About: "Takes no idempotency key: an unknown outcome is looked up by the job's id, which is in each message.",
		Connection: func(string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			return &connectionsv1.Connection{Connector: "slack", Settings: &connectionsv1.Connection_Slack{
				Slack: &connectionsv1.SlackSettings{Channel: "C0123456789"},
			}}, fake.Bearer()
		},
	}
}

func sandboxed(h fake.Host) fake.Platform {
	p := New(Options{Now: h.Now, RetryAfter: h.LimitFor, Plan: func(Request) Answer {
		return fake.Of(h.Refuse(), Reply, Unauthorized, RateLimit)
	}})
	return fake.Platform{Handler: p, List: p.things, Kind: fake.Post(func(path string) bool { return path == "/chat.postMessage" })}
}

func (p *Platform) things() (out []fake.Thing) {
	for _, m := range p.Messages() {
		out = append(out, fake.Thing{ID: m.TS, Kind: "message", Text: m.Text, Note: "in " + m.Channel})
	}
	return out
}
