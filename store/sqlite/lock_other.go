//go:build !unix

package sqlite

import "errors"

type fileLock struct{}

// takeLock refuses: without a lock that dies with the process, two processes
// could send the same job.
func takeLock(string) (*fileLock, error) {
	return nil, errors.New("the sqlite store needs a Unix system; use postgres")
}

func (l *fileLock) release() error { return nil }

func (l *fileLock) mark() (lockMark, error) { return lockMark{}, nil }

func (l *fileLock) setMark(lockMark) error { return nil }

func fileIdentity(string) (string, error) { return "", nil }
