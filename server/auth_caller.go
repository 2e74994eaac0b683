package server

import (
	"context"
	"slices"
)

// caller makes a call.
type caller struct {
	project string
	actor   string // as events and resolutions name it
	// all is set for the operator, and for every caller where no key is required.
	all    bool
	scopes []string
	// key is the id of the key of the store that the caller has; empty: it has none.
	key string
}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(keyCaller).(caller)
	return c
}

// has reports whether a caller has a scope.
func (c caller) has(scope string) bool { return c.all || slices.Contains(c.scopes, scope) }
