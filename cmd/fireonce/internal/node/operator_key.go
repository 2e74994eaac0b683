package node

import (
	"strings"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// leastAPIKey is the shortest key of an operator, in characters. No call can revoke it
// or bound its rights.
const leastAPIKey = 16

// checkAPIKeys refuses operator's keys that can be guessed, and those that no header can hold.
func (c *Config) checkAPIKeys() error {
	for _, k := range []struct{ variable, key string }{{apiKeyVariable, c.APIKey}, {nextAPIKeyVariable, c.NextAPIKey}} {
		switch {
		case k.key == "":
		case strings.ContainsFunc(k.key, func(r rune) bool { return r <= ' ' || r > '~' }):
			return exit.Usagef("%s must be printable ASCII without spaces", k.variable)
		case len(k.key) < leastAPIKey:
			return exit.Usagef("%s has %d characters; it needs at least %d, such as `openssl rand -hex 24` makes",
				k.variable, len(k.key), leastAPIKey)
		}
	}
	if c.NextAPIKey != "" && c.APIKey == "" {
		return exit.Usagef("%s goes with %s: it is the key that comes after it", nextAPIKeyVariable, apiKeyVariable)
	}
	return nil
}
