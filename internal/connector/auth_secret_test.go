package connector_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestAuthPrintsAsNothing: whatever holds an opened credential prints none of it.
func TestAuthPrintsAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, connector.Secrets(nil).With(secret))
	redacttest.Check(t, secret, connector.Auth{Headers: []connector.Header{{Name: "X", Value: secret}}, Hidden: connector.Secrets{secret}})
}
