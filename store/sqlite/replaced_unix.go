//go:build unix

package sqlite

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrReplaced reports that a database which this process has open was replaced.
var ErrReplaced = errors.New("the database was replaced under this process")

// watched has the files that a running process compares with those it opened: the names that
// the next process would open.
type watched struct {
	lock *fileLock
	log  string
	// logID is the log's file; zero: not known yet.
	logID fileID
	// epoch is the number that this process wrote into the database's header. It is in the
	// file once the log was first written back, and stays there.
	epoch   int32
	settled bool
}

// check fails with ErrReplaced when the names lead to other files than the open ones, or when
// the files were overwritten with older ones. It is cheap enough to run before every commit.
func (w *watched) check() error {
	id, _, err := statFile(w.lock.path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	if id != w.lock.data.id {
		return fmt.Errorf("%w: %s is another file now", ErrReplaced, w.lock.path)
	}
	if err := w.checkLog(); err != nil {
		return err
	}
	return w.checkContent()
}

// checkLog compares SQLite's log. Commits to a log that no path leads to any more are lost
// with this process.
func (w *watched) checkLog() error {
	id, _, err := statFile(w.log)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	if w.logID == (fileID{}) {
		w.logID = id
	}
	if id != w.logID {
		return fmt.Errorf("%w: %s is another file now", ErrReplaced, w.log)
	}
	return nil
}

// checkContent detects a copy that was written over the files in place.
func (w *watched) checkContent() error {
	version, err := w.lock.data.userVersion()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	w.settled = w.settled || version == w.epoch
	if w.settled && version != w.epoch {
		return fmt.Errorf("%w: %s was overwritten", ErrReplaced, w.lock.path)
	}
	text, err := w.lock.content()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrReplaced, err)
	}
	if !bytes.HasPrefix(text, w.lock.written) {
		return fmt.Errorf("%w: %s.lock was overwritten", ErrReplaced, w.lock.path)
	}
	return nil
}
