package nemesis

import (
	"context"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

// TestTheNextRunGoesOn: a plan that was interrupted is continued, and no fault comes twice.
func TestTheNextRunGoesOn(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	begun, cuts := 0, 0
	n := New(Options{
		Fleet: fleet.New(fleet.Options{Servers: 1}), Plan: []Fault{{Kind: Cut}, {Kind: Cut}, {Kind: Cut}},
		Database: Database{Cut: func() int { cuts++; return 1 }},
		Next: func(i int) {
			if begun = i; i == 2 {
				interrupt()
			}
		},
	})
	if err := n.Run(ctx); err != nil || begun != 2 || cuts != 1 {
		t.Errorf("interrupted: %d begun, %d cuts, %v", begun, cuts, err)
	}
	for range 2 {
		if err := n.Run(t.Context()); err != nil || begun != 3 || cuts != 2 {
			t.Errorf("in the end: %d begun, %d cuts, %v", begun, cuts, err)
		}
	}
}
