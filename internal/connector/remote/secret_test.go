package remote

import (
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: neither a credential nor the token of a service is printed.
func TestSecretsPrintAsNothing(t *testing.T) {
	const text = "correct-horse-battery"
	redacttest.Check(t, text, Config{Token: text})
	redacttest.Check(t, text, &Connector{token: text})
	redacttest.Check(t, text, secret{
		credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: text}}},
		hide:       transport.Secrets{text},
	})
}
