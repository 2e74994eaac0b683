package apikey

import (
	"testing"

	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: a key prints its id and nothing more.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, Key{ID: "0123456789abcdef", text: secret})
}
