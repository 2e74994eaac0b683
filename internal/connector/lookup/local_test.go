package lookup_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
)

// TestLocalClock: a wall clock that is an hour ahead, and rightly disbelieved, changes no look.
func TestLocalClock(t *testing.T) {
	at := time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC)
	wall := func() time.Time { return at.Add(time.Hour) }
	steady := connector.Opening{Steady: func(context.Context) (time.Time, error) { return at, nil }}
	local, err := lookup.LocalClock(t.Context(), steady, wall)
	if err != nil {
		t.Fatal(err)
	}
	if got := local(); got.Before(at) || got.Sub(at) > 30*time.Minute {
		t.Errorf("the local clock shows %v: this machine's wall clock", got)
	}
	local, err = lookup.LocalClock(t.Context(), connector.Opening{}, wall)
	if err != nil || !local().Equal(wall()) {
		t.Errorf("without a steady clock: %v", err)
	}
	lost := errors.New("lost")
	_, err = lookup.LocalClock(t.Context(), connector.Opening{Steady: func(context.Context) (time.Time, error) { return at, lost }}, wall)
	if _, ok := errors.AsType[*connector.Refusal](err); !ok || !errors.Is(err, lost) {
		t.Errorf("a store that cannot be read: %v", err)
	}
}
