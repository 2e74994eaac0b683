package sqlite

import (
	"context"
	"testing"
)

// Under steady reading SQLite never restarts its log by itself.
func TestALongLogIsWrittenBackThoughSomebodyAlwaysReads(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen, Readers: 2})
	conn := mustConnect(t, s)
	begun, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		_, err := read(context.Background(), s, "long", func(ctx context.Context, v view) (int, error) {
			_, err := v.q.GetMeta(ctx) // the state that it sees is fixed from here on
			close(begun)
			<-end
			return 0, err
		})
		ended <- err
	}()
	<-begun
	n := newJob(conn)
	n.Spec.Payload = make([]byte, 6<<20)
	mustCreate(t, s, n)
	if size := s.writer.logSize(); size < 6<<20 {
		t.Fatalf("the log has %d bytes", size)
	}
	turn := func(limit int64) {
		_, err := write(t.Context(), s, "limit", func(_ context.Context, tx *tx) (int, error) {
			if limit > 0 {
				tx.w.logLimit = limit
			}
			return 0, nil
		})
		must(t, err)
	}
	turn(1) // answered before the writer waits for the readers
	close(end)
	must(t, <-ended)
	turn(0)
	if size := s.writer.logSize(); size != 0 {
		t.Errorf("the log has %d bytes", size)
	}
	if _, err := s.Meta(t.Context()); err != nil {
		t.Error(err)
	}
}

// Closing the store while the writer waits for a reader succeeds.
func TestClosingEndsTheWaitForReaders(t *testing.T) {
	s := mustOpen(t, Options{Path: testPath(t), Now: frozen, Readers: 1})
	r := <-s.readers
	_, err := write(t.Context(), s, "limit", func(_ context.Context, tx *tx) (int, error) {
		tx.w.logLimit = 0
		return 0, nil
	})
	must(t, err)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-s.writer.queue.Ended
	s.readers <- r
	must(t, <-closed)
}
