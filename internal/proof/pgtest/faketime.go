//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Clock is the clock of a cluster's server, which a test may set. The clocks of its
// clients are not touched, as if they were on other machines.
type Clock struct{ file string }

// StartWithClock runs a cluster whose clock can be set. It skips the test where libfaketime
// is missing, which .ci/need-postgres installs on Debian.
func StartWithClock(tb testing.TB, opts Options) (*Cluster, *Clock) {
	tb.Helper()
	library := ""
	for _, pattern := range []string{"/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			library = found[0]
		}
	}
	if library == "" {
		tb.Skip("libfaketime is not installed (apt-get install libfaketime): a server's clock cannot be set")
	}
	dir, err := os.MkdirTemp("", "fireonce-clock-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // the server runs as another user
		tb.Fatal(err)
	}
	c := &Clock{file: filepath.Join(dir, "offset")}
	c.Set(tb, 0)
	opts.Env = append(opts.Env, "LD_PRELOAD="+library, "FAKETIME_TIMESTAMP_FILE="+c.file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1")
	return Start(tb, opts), c
}

// Set makes the clock be off by a duration.
func (c *Clock) Set(tb testing.TB, off time.Duration) {
	tb.Helper()
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int(off.Seconds())), 0o644); err != nil { //nolint:gosec // the server runs as another user
		tb.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		tb.Fatal(err)
	}
}
