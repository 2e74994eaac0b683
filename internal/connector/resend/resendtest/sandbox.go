package resendtest

import (
	"strings"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "resend", Connector: "resend", Title: "Resend", About: "Sends e-mails, and drops an idempotency key that it has seen.", New: sandboxed,
		Connection: func(string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			return &connectionsv1.Connection{Connector: "resend"}, fake.Bearer()
		},
	}
}

func sandboxed(h fake.Host) fake.Platform {
	p := New(Options{Now: h.Now, Plan: func(string, int) Answer { return fake.Of(h.Refuse(), Reply, Unauthorized, RateLimit) }})
	return fake.Platform{Handler: p, List: p.things, Kind: fake.Post(func(path string) bool { return path == "/emails" })}
}

func (p *Platform) things() (out []fake.Thing) {
	for _, e := range p.Sent() {
		out = append(out, fake.Thing{ID: e.ID, Kind: "e-mail", Text: e.Subject, Note: "to " + strings.Join(e.To, ", ")})
	}
	return out
}
