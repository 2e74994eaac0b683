package kit_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestAuthPrintsAsNothing: whatever holds an opened credential prints none of it.
func TestAuthPrintsAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, transport.Secrets(nil).With(secret))
	redacttest.Check(t, secret, kit.Auth{Headers: []transport.Header{{Name: "X", Value: secret}}, Hidden: transport.Secrets{secret}})
}
