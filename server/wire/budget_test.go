package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fireonce/fireonce/internal/inflight"
)

// TestBusy: a request that finds no memory in time is refused, may be repeated, and holds
// nothing; a small request finds memory beside large ones.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewBudget(16<<20, 4<<20)
		first := w.Reserve("a", 2<<20)
		if err := first.growTo(t.Context(), 2<<20, true); err != nil {
			t.Fatal(err)
		}
		second := w.Reserve("a", 2<<20)
		err := second.growTo(t.Context(), 1<<20, true)
		if !errors.Is(err, inflight.ErrBusy) {
			t.Errorf("a second large request: %v", err)
		}
		if err := second.growTo(t.Context(), 1000, true); err != nil {
			t.Errorf("a small request beside a large one: %v", err)
		}
		if err := w.Reserve("b", 1<<20).growTo(t.Context(), 1<<20, true); err != nil {
			t.Errorf("another project: %v", err)
		}
		first.Release()
		if err := second.growTo(t.Context(), 2<<20, true); err != nil {
			t.Errorf("after the release: %v", err)
		}
	})
}

// TestReadAll reads to the end and not beyond the limit, and reserves the bytes that it has.
func TestReadAll(t *testing.T) {
	const limit = 1 << 20
	for _, n := range []int{0, 1, FirstReservation - 1, FirstReservation, FirstReservation + 1, SmallRequest, SmallRequest + 1, limit - 1, limit, limit + 1} {
		for _, known := range []bool{true, false} {
			h := NewBudget(16<<20, 32<<20).Reserve("a", limit)
			size := int64(-1)
			if known {
				size = int64(n)
			}
			got, err := h.ReadAll(t.Context(), []byte("head"), io.LimitReader(strings.NewReader(strings.Repeat("x", n)), int64(n)), size, func() {})
			switch {
			case n > limit:
				if !errors.Is(err, ErrTooLarge) {
					t.Errorf("%d bytes: %v", n, err)
				}
			case err != nil || len(got) != n+4 || !bytes.HasPrefix(got, []byte("head")):
				t.Errorf("%d bytes, known %v: %d, %v", n, known, len(got), err)
			}
		}
	}
	h := NewBudget(16<<20, 32<<20).Reserve("a", limit)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := h.work.Reserve("a", 16<<20)
	if err := other.growTo(t.Context(), 16<<20, true); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ReadAll(ctx, nil, strings.NewReader(strings.Repeat("x", limit)), limit, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that ended: %v", err)
	}
}
