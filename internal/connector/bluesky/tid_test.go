package bluesky

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/job"
)

// TestKeyIsStable: a key that changed between two versions of this program would
// make a second post of a replay.
func TestKeyIsStable(t *testing.T) {
	for effectKey, want := range map[string]string{
		"fo1_243qfgxysh2dxqo6sbmovnblm522e7udjad4jht3qtpngqbivaqa": "3jtuke3tv2xz4",
		"0199c0de-0000-7000-8000-000000000001":                     "3khkj35bsqf3n",
		"another form":                                             "3kjlcusbi6brf",
	} {
		if got := keyOf(effectKey); got != want || !validTID(got) {
			t.Errorf("%s: key %q, want %q", effectKey, got, want)
		}
	}
}

// decode is the TID's number, by its specification.
func decode(t interface{ Fatalf(string, ...any) }, tid string) (at time.Time, clock uint64) {
	var n uint64
	for _, r := range tid {
		i := -1
		for j, c := range tidAlphabet {
			if c == r {
				i = j
			}
		}
		if i < 0 {
			t.Fatalf("%q is no TID", tid)
		}
		n = n<<5 | uint64(i)
	}
	if n>>63 != 0 {
		t.Fatalf("the highest bit of %q is set", tid)
	}
	return time.UnixMicro(int64(n >> clockBits)), n & (1<<clockBits - 1)
}

// TestKeyLiesInThePast: whatever the effect key, and whenever the post is due.
func TestKeyLiesInThePast(t *testing.T) {
	from := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		key := keyOf(rapid.String().Draw(t, "effect key"))
		if !validTID(key) {
			t.Fatalf("%q is no TID", key)
		}
		if at, _ := decode(t, key); at.Before(from) || at.After(from.Add(408*24*time.Hour)) {
			t.Fatalf("%q is of %v", key, at)
		}
	})
}

// TestKeysDoNotMeet: each of many jobs has a key of its own.
func TestKeysDoNotMeet(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 20000 {
		key := keyOf(job.EffectKey("namespace", "default", fmt.Sprint("order-", i), 1))
		if seen[key] {
			t.Fatalf("two of %d jobs have key %s", i, key)
		}
		seen[key] = true
	}
}
