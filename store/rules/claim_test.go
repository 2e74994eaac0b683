package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

func TestFree(t *testing.T) {
	for _, tt := range []struct {
		bounds rules.Bounds
		want   int64
	}{
		{rules.Bounds{Default: 100}, 100},
		{rules.Bounds{Default: 100, Busy: 30}, 70},
		{rules.Bounds{Default: 100, MaxInFlight: 5, Busy: 5}, 0},
		{rules.Bounds{Default: 100, MaxInFlight: 5, Busy: 7}, -2},
		{rules.Bounds{Default: 1, MaxInFlight: 5}, 5},
	} {
		if got := tt.bounds.Free(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.bounds, got, tt.want)
		}
	}
}

// After any sequence of claims no more jobs are under way than the bound allows, and in any
// minute no more begin than the bucket has tokens.
func TestClaimsKeepTheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rules.Bounds{
			Default: 10, MaxInFlight: rapid.Int64Range(0, 20).Draw(t, "in flight"),
			Bucket: store.Bucket{PerMinute: rapid.Int64Range(0, 20).Draw(t, "per minute")},
		}
		limit := b.MaxInFlight
		if limit == 0 {
			limit = b.Default
		}
		at := now.UnixMicro()
		var begun []int64
		for range rapid.IntRange(1, 30).Draw(t, "claims") {
			at += rapid.Int64Range(0, int64(time.Minute/time.Microsecond)).Draw(t, "later")
			b.Busy -= rapid.Int64Range(0, b.Busy).Draw(t, "ended")
			n := max(0, b.Capacity(at))
			if n == 0 && b.Free() > 0 && !rules.Paced(b.Bucket, at) {
				t.Fatalf("nothing may be claimed of %+v", b)
			}
			b.Bucket, b.Busy = rules.Take(b.Bucket, at, n), b.Busy+n
			if b.Busy > limit {
				t.Fatalf("%d under way, at most %d", b.Busy, limit)
			}
			for range n {
				begun = append(begun, at)
			}
			// A full bucket, and what comes in within a minute.
			within := slices.DeleteFunc(slices.Clone(begun), func(was int64) bool { return was <= at-time.Minute.Microseconds() })
			if per := b.Bucket.PerMinute; per > 0 && int64(len(within)) > 2*per {
				t.Fatalf("%d began within a minute, at %d per minute", len(within), per)
			}
		}
	})
}

func TestShare(t *testing.T) {
	for _, tt := range []struct{ left, rows, want int64 }{{10, 1, 10}, {10, 3, 3}, {2, 3, 1}} {
		if got := rules.Share(tt.left, tt.rows); got != tt.want {
			t.Errorf("%d of %d rows: %d, want %d", tt.left, tt.rows, got, tt.want)
		}
	}
}

func TestClaimed(t *testing.T) {
	was := job.Job{Status: job.Status{State: job.Retrying, Version: 4, Claims: 2, Blocked: "why", NextAt: now, Worker: "before"}}
	p := &store.ClaimParams{Worker: "w", Lease: time.Minute}
	got := rules.Claimed(was, p, claim, now)
	if got.State != job.Claimed || got.Version != 5 || got.ClaimToken != claim || got.Worker != "w" ||
		!got.NextAt.Equal(now.Add(time.Minute)) || got.Blocked != "" || got.Claims != 2 || !got.Updated.Equal(now) {
		t.Errorf("%+v", got)
	}
	look := rules.Leased(was, p, claim, now)
	if look.State != job.Retrying || look.Version != 4 || look.ClaimToken != claim || look.Blocked != "why" || !look.Updated.IsZero() {
		t.Errorf("a look: %+v", look)
	}
}

func TestUntil(t *testing.T) {
	if got := rules.Until(job.HoldUntil{For: time.Minute + 1}, now); !got.Equal(now.Add(time.Minute)) {
		t.Errorf("until %v", got)
	}
}

func TestBatches(t *testing.T) {
	for limit, want := range map[int]int{-1: store.MaxBatch, 0: store.MaxBatch, 7: 7, store.MaxBatch + 1: store.MaxBatch} {
		if got := rules.Page(limit); got != want {
			t.Errorf("a page of %d: %d", limit, got)
		}
	}
	if rules.Bounded(store.MaxBatch) != nil || !errors.Is(rules.Bounded(store.MaxBatch+1), store.ErrIllegal) {
		t.Error("a batch")
	}
	if !rules.Verdict(fmt.Errorf("x: %w", store.ErrHeld)) || rules.Verdict(store.ErrUnavailable) || rules.Verdict(nil) {
		t.Error("verdicts")
	}
}

func TestTakeTurns(t *testing.T) {
	for _, tt := range []struct {
		most  int
		lists [][]int
		want  []int
	}{
		{9, nil, nil},
		{9, [][]int{{1, 2, 3}, {4}, {5, 6}}, []int{1, 4, 5, 2, 6, 3}},
		{9, [][]int{{1, 2}, {1, 3}}, []int{1, 2, 3}},
		{3, [][]int{{1, 2, 3}, {4, 5}}, []int{1, 4, 2}},
	} {
		if got := rules.Interleave(tt.most, tt.lists...); !slices.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.lists, got, tt.want)
		}
	}
}
