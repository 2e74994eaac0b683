package xtest

import (
	"fmt"
	"strings"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "x", Connector: "x", Title: "X", About: "Takes no idempotency key: an unknown outcome is looked up on the account.", New: sandboxed,
		Connection: func(string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			return &connectionsv1.Connection{Connector: "x", Settings: &connectionsv1.Connection_X{X: &connectionsv1.XSettings{}}}, fake.Bearer()
		},
	}
}

func sandboxed(h fake.Host) fake.Platform {
	p := New(Options{Now: h.Now, ResetAfter: h.LimitFor, Plan: func(Request) Answer { return fake.Of(h.Refuse(), Reply, Unauthorized, RateLimit) }})
	return fake.Platform{Handler: p, List: p.things, Kind: fake.Post(func(path string) bool {
		return path == "/2/tweets" || strings.HasPrefix(path, "/2/dm_conversations/")
	})}
}

func (p *Platform) things() (out []fake.Thing) {
	for _, o := range p.Objects() {
		t := fake.Thing{ID: o.ID, Kind: "post", Text: o.Text}
		switch {
		case o.Recipient != "":
			t.Kind, t.Note = "direct message", "to user "+o.Recipient
		case o.ReplyTo != "":
			t.Kind, t.Note = "reply", "to post "+o.ReplyTo
		}
		if n := len(o.Pictures); n > 0 {
			t.Note = strings.TrimSpace(t.Note + fmt.Sprintf(" with %d picture(s)", n))
		}
		out = append(out, t)
	}
	return out
}
