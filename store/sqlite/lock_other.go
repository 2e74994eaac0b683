//go:build !unix

package sqlite

import "errors"

// ErrLinked reports that a database file has more than one name.
var ErrLinked = errors.New("the database file has several names")

// ErrReplaced reports that a database which this process has open was replaced.
var ErrReplaced = errors.New("the database was replaced under this process")

type fileLock struct{ path string }

// takeLock refuses: without a lock that dies with the process, two processes could send the
// same job.
func takeLock(string, bool) (*fileLock, error) {
	return nil, errors.New("the sqlite store needs a Unix system; use postgres")
}

func (l *fileLock) release() error { return nil }

func (l *fileLock) mark() (lockMark, error) { return lockMark{}, nil }

func (l *fileLock) setMark(lockMark) error { return nil }

func (l *fileLock) sync() error { return nil }

type watched struct {
	lock  *fileLock
	log   string
	epoch int32
}

func (w *watched) check() error { return nil }

func fileIdentity(string) (string, error) { return "", nil }
