// Package memdir says where the tests keep databases: in memory, where there is room. A
// process that is killed loses no more there than on a disk, because the machine goes on; on
// a disk, each commit of a test waits until others have written.
package memdir

import (
	"fmt"
	"os"
	"testing"
)

// New makes a folder that is removed when the test ends. A benchmark's is on the disk: what a
// commit costs there is part of what it measures.
func New(tb testing.TB) string {
	tb.Helper()
	if _, ok := tb.(*testing.B); ok {
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp(Base(), fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// prefix begins the name of each folder of New. The process's number follows.
const prefix = "fireonce-test-"
