package sqlite

import (
	"context"
	"os"
)

// Rules of this file: SQLite starts its log file again only at a moment when
// nobody reads from it. Under steady reading such a moment never comes by
// itself, and the log grows until the disk is full. So when it is long, the
// writer makes one: it takes every reader, which are out for one short call
// each, and has the log written back.

const (
	// maxLog is the length of the log, in bytes, that is not waited out.
	maxLog = 32 << 20
	// writeBackPages is the length of the log, in pages of 4 KiB, at which SQLite
	// writes it back between two commits, as far as readers let it: half of maxLog.
	// A page that many commits change is so written back once, and the file is
	// synced less often.
	writeBackPages = 4096
)

// shorten writes the log back when it is too long. It runs between two groups.
func (w *writer) shorten() {
	if w.logSize() < w.logLimit {
		return
	}
	held, all := w.s.takeReaders(w.quit)
	defer w.s.giveReaders(held)
	if !all {
		return
	}
	// Whether it worked is told by the size.
	_, _ = w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	w.logLimit = maxLog
	if left := w.logSize(); left >= maxLog {
		// Another program reads the file, and waiting for it has cost us the busy
		// timeout: not again before the log is twice as long.
		w.logLimit = 2 * left
	}
}

// logSize returns the log's length, 0 when there is none.
func (w *writer) logSize() int64 {
	info, err := os.Stat(w.s.watched.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// takeReaders takes every reader as it comes back from its call. all is false
// when quit came first.
func (s *Store) takeReaders(quit <-chan struct{}) (held []*reader, all bool) {
	for range cap(s.readers) {
		select {
		case r := <-s.readers:
			held = append(held, r)
		case <-quit:
			return held, false
		}
	}
	return held, true
}

func (s *Store) giveReaders(held []*reader) {
	for _, r := range held {
		s.readers <- r
	}
}
