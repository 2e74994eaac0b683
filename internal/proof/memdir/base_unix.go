//go:build unix

package memdir

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	sweep()
	if uint64(fs.Bavail)*uint64(fs.Bsize) < leastRoom { //nolint:unconvert // their types differ between systems
		return os.TempDir()
	}
	return memory
}

// sweep removes the folders of tests that were killed. They would fill memory until the machine
// restarts.
var sweep = sync.OnceFunc(func() {
	left, err := filepath.Glob(filepath.Join(memory, prefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		pid, err := strconv.Atoi(number)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(dir)
		}
	}
})
