package bluesky

import (
	"testing"

	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: neither an opened credential nor a session prints any of it.
func TestSecretsPrintAsNothing(t *testing.T) {
	const text = "correct-horse-battery"
	redacttest.Check(t, text, secret{user: "ada", password: text})
	redacttest.Check(t, text, login{access: text, refresh: text, password: text})
}
