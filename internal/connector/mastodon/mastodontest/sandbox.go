package mastodontest

import (
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "mastodon", Connector: "mastodon", Title: "Mastodon", New: sandboxed,
		About: "Drops an idempotency key that it has seen: an unknown outcome is sent again under its key.",
		Connection: func(at string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			return &connectionsv1.Connection{Connector: "mastodon", Settings: &connectionsv1.Connection_Mastodon{
				Mastodon: &connectionsv1.MastodonSettings{BaseUrl: at},
			}}, fake.Bearer()
		},
	}
}

func sandboxed(h fake.Host) fake.Platform {
	s := New(Options{Now: h.Now, AnyToken: true, LimitFor: h.LimitFor, Plan: func(string) Answer {
		return fake.Of(h.Refuse(), Reply, Unauthorized, RateLimit)
	}})
	return fake.Platform{Handler: s, List: s.things, Kind: fake.Post(func(path string) bool { return path == "/api/v1/statuses" })}
}

func (s *Server) things() (out []fake.Thing) {
	for _, o := range s.Posts() {
		t := fake.Thing{ID: o.ID, Kind: "post", Text: o.Text, Note: o.Visibility}
		if o.ReplyTo != "" {
			t.Kind, t.Note = "reply", "to post "+o.ReplyTo
		}
		out = append(out, t)
	}
	return out
}
