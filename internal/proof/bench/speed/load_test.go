//go:build unix

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

func TestConcurrentlyDoesEachPieceOnce(t *testing.T) {
	var mu sync.Mutex
	counts := make([]int, 100)
	err := concurrently(t.Context(), 7, len(counts), func(_ context.Context, i int) error {
		mu.Lock()
		defer mu.Unlock()
		counts[i]++
		return nil
	})
	if err != nil || slices.ContainsFunc(counts, func(n int) bool { return n != 1 }) {
		t.Errorf("%v, %v", counts, err)
	}
}

func TestConcurrentlyEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	done := 0
	err := concurrently(t.Context(), 1, 100, func(_ context.Context, i int) error {
		done++
		if i == 3 {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) || done != 4 {
		t.Errorf("%d pieces, %v", done, err)
	}
}

func TestBatchesCoverAllJobs(t *testing.T) {
	var mu sync.Mutex
	seen := make(map[int]int)
	err := batches(t.Context(), 3, 1007, 100, func(_ context.Context, from, to int) error {
		mu.Lock()
		defer mu.Unlock()
		if to-from > 100 {
			t.Errorf("a batch from %d to %d", from, to)
		}
		for i := from; i < to; i++ {
			seen[i]++
		}
		return nil
	})
	if err != nil || len(seen) != 1007 {
		t.Errorf("%d jobs, %v", len(seen), err)
	}
	for i, n := range seen {
		if n != 1 || i < 0 || i >= 1007 {
			t.Errorf("job %d came %d times", i, n)
		}
	}
}
