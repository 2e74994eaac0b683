package sqlite

import (
	"testing"

	"github.com/fireonce/fireonce/internal/job"
)

// TestLockMarkVector holds the content of the lock file: a server must read what an older
// one wrote.
func TestLockMarkVector(t *testing.T) {
	m := lockMark{store: job.ID{15: 1}, generation: 2, position: 1 << 40}
	const want = "fireonce-lock-1 00000000-0000-0000-0000-000000000001 2 1099511627776\n"
	if m.String() != want {
		t.Errorf("%q, want %q", m.String(), want)
	}
	if got := parseLockMark(want); got != m {
		t.Errorf("read back %+v", got)
	}
}
