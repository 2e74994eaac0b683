package bluesky

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestKeyIsStable: a key that changed between two versions of this program would
// make a second post of a replay.
func TestKeyIsStable(t *testing.T) {
	for effectKey, want := range map[string]string{
		"0199c0de-0000-7000-8000-000000000001":   "3m2n6mkmrdp3n",
		"0199c0de-0000-7000-8000-000000000001.2": "3m2n7g5fqvb5m",
		"0199c0de-0000-7000-8000-000000000002":   "3m2n6nzymjmzn",
		"another form":                           "7ushja5gfqjrf",
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

func TestKeyTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(1<<spreadBits, 1<<43-1).Draw(t, "ms")
		id := uuid7(ms, rapid.Uint64().Draw(t, "random"))
		at, ok := keyTime(id)
		if !ok || at.UnixMilli() != ms {
			t.Fatalf("%s: time %v, want %d", id, at, ms)
		}
		key := keyOf(id)
		if !validTID(key) {
			t.Fatalf("%s: %q is no TID", id, key)
		}
		made, _ := decode(t, key)
		if behind := at.Sub(made); behind < 0 || behind > 18*time.Minute {
			t.Fatalf("%s: the key's time is %v before the id's", id, behind)
		}
	})
}

// TestKeysDoNotMeet: jobs of one millisecond have keys of their own.
func TestKeysDoNotMeet(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 20000 {
		key := keyOf(uuid7(1763712000000, uint64(i)))
		if seen[key] {
			t.Fatalf("two of %d jobs have key %s", i, key)
		}
		seen[key] = true
	}
}

func uuid7(ms int64, random uint64) string {
	return fmt.Sprintf("%08x-%04x-7%03x-8%03x-%012x", ms>>16, ms&0xffff, random>>52, random>>40&0xfff, random&(1<<40-1))
}
