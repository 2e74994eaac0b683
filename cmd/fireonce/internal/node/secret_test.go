package node

import (
	"testing"

	"github.com/fireonce/fireonce/internal/redact/redacttest"
)

// TestSecretsPrintAsNothing: a configuration and a database do not print what is secret in
// them.
func TestSecretsPrintAsNothing(t *testing.T) {
	const secret = "correct-horse-battery"
	url := "postgres://ada:" + secret + "@db/x?sslpassword=" + secret
	redacttest.Check(t, secret, Config{APIKey: secret, NextAPIKey: secret, Keys: secret, Database: url})
	redacttest.Check(t, secret, Remote{Name: "guestbook", token: secret})
	redacttest.Check(t, secret, Database{url: url})
}
