//go:build unix

package profile

import (
	"os"
	"path/filepath"
	"syscall"
)

// lock waits until no other process changes the file. A holder only reads and writes the file,
// and the kernel unlocks when a process ends. The lock is on the directory, because the file
// is replaced.
func lock() (unlock func() error, err error) {
	path, err := Path()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR { //nolint:errorlint // the system call returns it bare
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f.Close, nil
}
