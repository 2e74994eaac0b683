package server_test

import (
	"testing"

	"github.com/fireonce/fireonce/internal/redact/redacttest"
	"github.com/fireonce/fireonce/server"
)

// TestSecretsPrintAsNothing: a configuration does not print the operator's keys.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	redacttest.Check(t, secret, server.Config{APIKey: secret, NextAPIKey: secret})
}
