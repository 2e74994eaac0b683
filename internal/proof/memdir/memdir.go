// Package memdir says where the tests keep databases: in memory, where there is room. A
// process that is killed loses no more there than on a disk, because the machine goes on; on
// a disk, each commit of a test waits until others have written.
package memdir

import (
	"os"
	"syscall"
	"testing"
)

const (
	// memory is where Linux keeps files in memory.
	memory = "/dev/shm"
	// leastRoom is the free space that it is used for, in bytes.
	leastRoom = 2 << 30
)

// Base is the folder to make temporary folders in: that of TMPDIR, if it is set.
func Base() string {
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || syscall.Statfs(memory, &fs) != nil {
		return os.TempDir()
	}
	if uint64(fs.Bavail)*uint64(fs.Bsize) < leastRoom { //nolint:unconvert // their types differ between systems
		return os.TempDir()
	}
	return memory
}

// New makes a folder that is removed when the test ends.
func New(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(Base(), "fireonce-test-")
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
