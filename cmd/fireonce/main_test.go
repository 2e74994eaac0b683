package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// parallel is how many tests run concurrently: they wait for other processes most of
// the time.
const parallel = 8

// suiteDir has the files that all tests of a run share.
var suiteDir string

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", strconv.Itoa(parallel)) // -parallel overrides it
	testscript.Main(suite{m}, map[string]func(){"fireonce": main})
}

type suite struct{ m *testing.M }

// Run runs the tests with a directory for all of them.
func (s suite) Run() int {
	dir, err := os.MkdirTemp("", "fireonce-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	suiteDir = dir
	// The tests must not use the profiles of the user who runs them.
	_ = os.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	_ = os.Unsetenv("FIREONCE_PROFILE")
	return s.m.Run()
}

// long leaves a test out of `go test -short`, which `make test` runs: it starts many programs,
// or needs some that are not Go's. `make test-crash` and `make test-clients` run it.
func long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("left out of the ordinary tests")
	}
}
