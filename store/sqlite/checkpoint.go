package sqlite

import (
	"context"
	"os"
)

// Rules of this file: SQLite restarts its log file only at a moment without readers. Under
// steady reading such a moment never comes by itself, and the log grows until the disk is
// full. So when the log is long, the writer makes such a moment: it takes every reader, each
// of which is out for one short call, and has the log written back.

const (
	// maxLog is the length of the log, in bytes, above which the writer does not wait for
	// SQLite to write it back.
	maxLog = 32 << 20
	// writeBackPages is the length of the log, in pages of 4 KiB, at which SQLite writes it
	// back between two commits, as far as readers allow: half of maxLog. So a page that many
	// commits change is written back once, and the file is synced less often.
	writeBackPages = 4096
)

// shorten writes the log back when it is too long. It runs between two groups.
func (w *writer) shorten() {
	if w.logSize() < w.logLimit {
		return
	}
	held, all := w.s.takeReaders(w.queue.Quit)
	defer w.s.giveReaders(held)
	if !all {
		return
	}
	// The size shows whether it worked.
	_, _ = w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(TRUNCATE)")
	w.logLimit = maxLog
	if left := w.logSize(); left >= maxLog {
		// Another program reads the file, and waiting for it took the busy timeout. The next
		// try waits until the log is twice as long.
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

// takeReaders takes every reader as it returns from its call. all is false when quit came
// first.
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
