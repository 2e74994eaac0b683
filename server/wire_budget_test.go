package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

func limitsOf(small, large int) Limits {
	l := Limits{SmallWork: small, LargeWork: large}
	return l.withDefaults()
}

// TestBusy: a request that finds no memory in time is refused, may be repeated, and holds
// nothing; a small request finds memory beside large ones.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRequestBudget(limitsOf(16<<20, 4<<20))
		first := w.reserve("a", 2<<20)
		if err := first.growTo(t.Context(), 2<<20, true); err != nil {
			t.Fatal(err)
		}
		second := w.reserve("a", 2<<20)
		err := second.growTo(t.Context(), 1<<20, true)
		if f := new(fault); !errors.As(err, &f) || f.reason != fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY || retryIn[f.reason] == 0 {
			t.Errorf("a second large request: %v", err)
		}
		if err := second.growTo(t.Context(), 1000, true); err != nil {
			t.Errorf("a small request beside a large one: %v", err)
		}
		if err := w.reserve("b", 1<<20).growTo(t.Context(), 1<<20, true); err != nil {
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
	for _, n := range []int{0, 1, firstReservation - 1, firstReservation, firstReservation + 1, smallRequest, smallRequest + 1, limit - 1, limit, limit + 1} {
		for _, known := range []bool{true, false} {
			h := newRequestBudget(limitsOf(0, 0)).reserve("a", limit)
			size := int64(-1)
			if known {
				size = int64(n)
			}
			got, err := h.readAll(t.Context(), []byte("head"), io.LimitReader(strings.NewReader(strings.Repeat("x", n)), int64(n)), size, func() {})
			switch {
			case n > limit:
				if !errors.Is(err, errUnlimited) {
					t.Errorf("%d bytes: %v", n, err)
				}
			case err != nil || len(got) != n+4 || !bytes.HasPrefix(got, []byte("head")):
				t.Errorf("%d bytes, known %v: %d, %v", n, known, len(got), err)
			}
		}
	}
	h := newRequestBudget(limitsOf(0, 0)).reserve("a", limit)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := h.work.reserve("a", 16<<20)
	if err := other.growTo(t.Context(), 16<<20, true); err != nil {
		t.Fatal(err)
	}
	if _, err := h.readAll(ctx, nil, strings.NewReader(strings.Repeat("x", limit)), limit, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that ended: %v", err)
	}
}
