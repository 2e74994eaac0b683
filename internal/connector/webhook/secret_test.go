package webhook

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: an opened credential prints none of it.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, credential{
		keys: []*signer{newSigner([]byte(secret))}, Auth: kit.Auth{Headers: []transport.Header{{Name: "X", Value: secret}}, Hidden: transport.Secrets{secret}},
	})
}
