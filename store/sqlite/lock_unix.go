//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// fileLock is the exclusive lock on PATH.lock. The kernel gives it back when
// the process ends, however it ends.
type fileLock struct{ file *os.File }

func takeLock(path string) (*fileLock, error) {
	name := path + ".lock"
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w (lock file %s)", ErrLocked, name)
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// SQLite makes a new database that everybody may read, and the files beside it like it.
	if err := touch(path); err != nil {
		_ = f.Close()
		return nil, err
	}
	return &fileLock{file: f}, nil
}

// touch makes an empty file, its owner's alone, if there is none.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return f.Close()
}

// release gives the lock back. The file stays: removing it would let two
// processes lock two files of one name.
func (l *fileLock) release() error { return l.file.Close() }

// mark reads what the lock file remembers.
func (l *fileLock) mark() (lockMark, error) {
	buf := make([]byte, 256)
	n, err := l.file.ReadAt(buf, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return lockMark{}, fmt.Errorf("read lock file: %w", err)
	}
	return parseLockMark(string(buf[:n])), nil
}

// setMark replaces what the lock file remembers. A shorter mark after a longer
// one leaves a tail, which reading ignores.
func (l *fileLock) setMark(m lockMark) error {
	if _, err := l.file.WriteAt([]byte(m.String()), 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	return nil
}

// fileIdentity names a file by device and inode: a copy has another one.
func fileIdentity(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("file identity: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("file identity: not known on this system")
	}
	return fmt.Sprintf("dev %d inode %d", st.Dev, st.Ino), nil
}
