package postgres

import (
	"testing"

	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: the password of a database is not printed.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, Options{URL: "postgres://ada:" + secret + "@db/x"})
}
