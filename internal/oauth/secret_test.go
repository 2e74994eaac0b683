package oauth

import (
	"testing"

	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: neither an app nor a token prints its secret.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, App{Name: "x", ClientSecret: secret})
	redacttest.Check(t, secret, Token{Access: secret, Refresh: secret})
}
