package smtp

import (
	"testing"

	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: an opened credential prints none of it.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, login{set: true, user: "ada", password: secret})
}
