package store

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var minute = time.Minute.Microseconds()

func TestBucketByHand(t *testing.T) {
	// Twenty a minute: two together, then one every 60/19 s, rounded up.
	b := Bucket{PerMinute: 20}
	const now, every = 1_000_000_000, 3_157_895
	if got := b.Tokens(now); got != 2 {
		t.Fatalf("a full bucket holds %d", got)
	}
	b = b.Take(now, 2)
	for _, tt := range []struct{ after, want int64 }{
		{0, 0}, {every - 1, 0}, {every, 1}, {2*every - 1, 1}, {2 * every, 2}, {minute, 2},
	} {
		if got := b.Tokens(now + tt.after); got != tt.want {
			t.Errorf("%d µs later: %d tokens, want %d", tt.after, got, tt.want)
		}
	}
	if b.At != now+every {
		t.Errorf("an empty bucket has its next token at %d, want %d", b.At-now, every)
	}
	if got := (Bucket{PerMinute: 1}).Take(now, 1).At; got != now+minute {
		t.Errorf("one a minute: the next one after %d µs", got-now)
	}
}

// TestBucketNoMinuteSeesMore takes all available tokens, or fewer, at random times: no minute
// may see more than the bound, and a greedy caller gets tokens again.
func TestBucketNoMinuteSeesMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Bucket{PerMinute: rapid.Int64Range(1, 10_000).Draw(t, "per minute")}
		greedy := rapid.Bool().Draw(t, "greedy")
		type taken struct{ at, n int64 }
		var all []taken
		now := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		for range 100 {
			now += rapid.Int64Range(0, minute/4).Draw(t, "wait")
			n := b.Tokens(now)
			if n > b.size() {
				t.Fatalf("%d tokens in a bucket of %d", n, b.size())
			}
			if !greedy && n > 0 {
				n = rapid.Int64Range(0, n).Draw(t, "take")
			}
			if n == 0 {
				if next := b.At; greedy && next > now && b.PerMinute > 0 {
					if (Bucket{PerMinute: b.PerMinute, At: b.At}).Tokens(next) < 1 {
						t.Fatal("no token at the time that the bucket names")
					}
				}
				continue
			}
			b = b.Take(now, n)
			all = append(all, taken{now, n})
		}
		for i, first := range all {
			sum := int64(0)
			for _, x := range all[i:] {
				if x.at < first.at+minute {
					sum += x.n
				}
			}
			if sum > b.PerMinute {
				t.Fatalf("%d in a minute, of %d", sum, b.PerMinute)
			}
		}
	})
}

// TestBucketRepaced: another pace gets an empty bucket no token immediately, and no longer
// wait than that pace has.
func TestBucketRepaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := rapid.Int64Range(minute, 10*minute).Draw(t, "now")
		b := Bucket{PerMinute: rapid.Int64Range(1, 10_000).Draw(t, "per minute"), At: rapid.Int64Range(0, now).Draw(t, "at")}
		b = b.Take(now, b.Tokens(now))
		other := rapid.Int64Range(1, 10_000).Draw(t, "other")
		got := b.Repaced(now, other)
		if got.PerMinute != other || got.Tokens(now) != 0 || got.Tokens(now+got.every()) == 0 {
			t.Fatalf("%+v became %+v: %d tokens now, %d later", b, got, got.Tokens(now), got.Tokens(now+got.every()))
		}
	})
	if b := (Bucket{PerMinute: 5, At: 7}).Repaced(100, 0); b != (Bucket{At: 7}) {
		t.Errorf("without a pace: %+v", b)
	}
}
