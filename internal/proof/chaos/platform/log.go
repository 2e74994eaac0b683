package platform

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
)

// errClosed is the error of a log that is closed.
var errClosed = errors.New("the platform's log is closed")

// log is the platform's memory of what happened: a file of its own, written in
// the order of append. Many records share one fsync.
type log struct {
	file   *os.File
	done   chan struct{} // closed when the writer has ended
	broken chan struct{} // closed when a record could not be made durable

	mu       sync.Mutex
	work     *sync.Cond // something was appended, or closing: for the writer
	settled  *sync.Cond // synced or err changed: for those who wait
	buf      []byte
	appended uint64 // records in the file or buf
	synced   uint64 // records that are durable
	err      error
	closing  bool
}

// createLog makes a log. A file that is there already is another platform's,
// whose keys and posts this one does not know: it is refused.
func createLog(path string) (*log, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &log{file: file, done: make(chan struct{}), broken: make(chan struct{})}
	l.work, l.settled = sync.NewCond(&l.mu), sync.NewCond(&l.mu)
	go l.write()
	return l, nil
}

// append puts a record behind all others and returns the ticket to wait with.
func (l *log) append(r Record) uint64 {
	line, err := json.Marshal(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(err)
	}
	l.buf = append(append(l.buf, line...), '\n')
	l.appended++
	l.work.Signal()
	return l.appended
}

// last returns the ticket of the last record.
func (l *log) last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appended
}

// wait returns when a record and all before it are durable, or never can be.
func (l *log) wait(ticket uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.synced < ticket && l.err == nil {
		l.settled.Wait()
	}
	if l.synced >= ticket {
		return nil
	}
	return l.err
}

// write takes what was appended to the disk until close.
func (l *log) write() {
	defer close(l.done)
	var spare []byte
	for {
		l.mu.Lock()
		for len(l.buf) == 0 && !l.closing {
			l.work.Wait()
		}
		batch, upTo := l.buf, l.appended
		l.buf = spare[:0]
		l.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		_, err := l.file.Write(batch)
		if err == nil {
			err = l.file.Sync()
		}
		l.mu.Lock()
		if err != nil {
			l.fail(err)
		}
		if l.err == nil {
			l.synced = upTo
		}
		l.settled.Broadcast()
		l.mu.Unlock()
		spare = batch
	}
}

// fail notes that the log is not whole any more; the caller holds mu.
func (l *log) fail(err error) {
	if l.err == nil {
		l.err = err
		close(l.broken)
		l.settled.Broadcast()
	}
}

// close makes durable what was appended. A later append waits without an end.
func (l *log) close() error {
	l.mu.Lock()
	l.closing = true
	l.work.Signal()
	l.mu.Unlock()
	<-l.done
	l.mu.Lock()
	defer l.mu.Unlock()
	err := errors.Join(l.err, l.file.Close())
	if l.err == nil {
		l.err = errClosed
	}
	l.settled.Broadcast()
	return err
}
