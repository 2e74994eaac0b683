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

// fileLock is the exclusive use of a database: a lock on PATH.lock, which also protects a
// database file that does not exist yet, and one on the file itself. The kernel releases both
// when the process ends, however it ends.
type fileLock struct {
	// path is the database's, without symbolic links.
	path string
	file *os.File
	data *databaseFile
	// written is what setMark wrote last.
	written []byte
	read    [markSize]byte
}

// markSize is more than the bytes of a lock record.
const markSize = 256

// takeLock takes a database for this process. It fails with ErrLocked, ErrLinked
// or ErrDangling.
//
// With isNew a lost database may be replaced by a new one; without it that fails with ErrLost.
func takeLock(path string, isNew bool) (*fileLock, error) {
	path, err := Resolve(path)
	if err != nil {
		return nil, err
	}
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
	if !isNew {
		if err := notLost(path, f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	data, err := openFile(path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileLock{path: path, file: f, data: data}, nil
}

// notLost fails with ErrLost when a lock file has the record of a database, and the database is not
// there, or empty. A record is written once its database is durable.
func notLost(path string, lock *os.File) error {
	info, err := os.Stat(path)
	if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l := &fileLock{file: lock}
	mark, err := l.mark()
	if err != nil || mark.store.IsZero() {
		return err
	}
	return fmt.Errorf("%w: %s records the database %s: put it back or restore a backup; or begin a new one with the namespace of the lost one "+
		"(serve --namespace NAME; its log has it at each start), so that a repeated request keeps its effect key; or, if no client repeats a request of before, remove %[2]s",
		ErrLost, lock.Name(), mark.store)
}

// release unlocks the database, which SQLite must have closed. The lock file stays: removing
// it would let two processes lock two files of one name.
func (l *fileLock) release() error {
	return errors.Join(l.data.release(), l.file.Close())
}

// mark reads the record in the lock file.
func (l *fileLock) mark() (lockMark, error) {
	text, err := l.content()
	if err != nil {
		return lockMark{}, err
	}
	return parseLockMark(string(text)), nil
}

// content reads the lock file. Its result is valid until the next call.
func (l *fileLock) content() ([]byte, error) {
	n, err := l.file.ReadAt(l.read[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read lock file: %w", err)
	}
	return l.read[:n], nil
}

// setMark replaces the record in the lock file. A shorter record after a longer one leaves a
// tail, which reading ignores.
func (l *fileLock) setMark(m lockMark) error {
	text := []byte(m.String())
	if _, err := l.file.WriteAt(text, 0); err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	l.written = text
	return nil
}

// sync makes the record survive a crash of the machine.
func (l *fileLock) sync() error {
	return named("write lock file", l.file.Sync())
}
