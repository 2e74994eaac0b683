package connector_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: whatever holds a credential prints none of it.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	c := connector.Credential{Version: 1, Data: []byte(secret)}
	redacttest.Check(t, secret, c)
	redacttest.Check(t, secret, c.Shared())
	redacttest.Check(t, secret, connector.Opening{Credential: c})
}
