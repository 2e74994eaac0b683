package server

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestMemoIsBounded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := newMemo[int, int](func() time.Time { return now }, time.Second, time.Minute, 3, 1)
	measure := func(n int) func(context.Context) (int, error) {
		return func(context.Context) (int, error) { return n, nil }
	}
	for n := range 10 {
		now = now.Add(time.Millisecond)
		if got, err := m.get(t.Context(), n, measure(n)); got != n || err != nil {
			t.Errorf("%d: %d, %v", n, got, err)
		}
		if len(m.entries) > 3 {
			t.Fatalf("%d entries", len(m.entries))
		}
	}
	for n, want := range map[int]int{7: 7, 8: 8, 9: 9} { // the newest are kept
		if got, _ := m.get(t.Context(), n, measure(-1)); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
	if got, _ := m.get(t.Context(), 6, measure(106)); got != 106 {
		t.Errorf("the one before them: %d, want it measured again", got)
	}
	now = now.Add(-time.Hour) // a clock that is set back makes nothing young
	if got, _ := m.get(t.Context(), 9, measure(109)); got != 109 {
		t.Errorf("an answer from the future: %d", got)
	}
}

// TestMemoRefusesWhenFull of measurements that have not ended; who waits for
// one leaves by its own deadline.
func TestMemoRefusesWhenFull(t *testing.T) {
	m := newMemo[int, int](time.Now, time.Minute, time.Minute, 2, 1)
	gate := make(chan struct{})
	slow := func(context.Context) (int, error) { <-gate; return 1, nil }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 2 {
		if _, err := m.get(ctx, n, slow); !errors.Is(err, context.Canceled) {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := m.get(t.Context(), 2, slow); !errors.As(err, new(*fault)) {
		t.Errorf("a third: %v", err)
	}
	close(gate)
	for n := range 2 {
		if got, err := m.get(t.Context(), n, slow); got != 1 || err != nil {
			t.Errorf("%d: %d, %v", n, got, err)
		}
	}
}

func TestMemoSurvivesAPanic(t *testing.T) {
	m := newMemo[int, int](time.Now, time.Minute, time.Minute, 2, 1)
	_, err := m.get(t.Context(), 1, func(context.Context) (int, error) { panic("a bug") })
	if err == nil {
		t.Error("no error")
	}
	if got, err := m.get(t.Context(), 1, func(context.Context) (int, error) { return 2, nil }); got != 2 || err != nil {
		t.Errorf("after it: %d, %v", got, err)
	}
}
