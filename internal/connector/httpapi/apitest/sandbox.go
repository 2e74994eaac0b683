package apitest

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/platform/fake"
)

// Fake returns the entry of internal/connector/builtin/fakes.
func Fake() fake.Fake {
	return fake.Fake{
		Name: "payments", Connector: "http", Title: "Payments", About: "An API that charges, and drops an Idempotency-Key that it has seen.", New: sandboxed,
		Connection: func(at string) (*connectionsv1.Connection, *connectionsv1.Credential) {
			return &connectionsv1.Connection{Connector: "http", Settings: &connectionsv1.Connection_Http{Http: &connectionsv1.HttpSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(24 * time.Hour),
				Origins: []string{at}, IdJsonPointers: []string{"/data/id"},
			}}}, fake.Bearer()
		},
	}
}

func sandboxed(h fake.Host) fake.Platform {
	a := New(Options{Now: h.Now, Plan: func(Request) Answer { return fake.Of(h.Refuse(), Reply, Unauthorized, RateLimit) }})
	return fake.Platform{Handler: a, List: a.things, Kind: fake.Post(func(string) bool { return true })}
}

func (a *API) things() (out []fake.Thing) {
	for _, o := range a.Objects() {
		out = append(out, fake.Thing{ID: o.ID, Kind: "charge", Text: fake.Form(o.Body), Note: "POST /" + o.Subject})
	}
	return out
}
