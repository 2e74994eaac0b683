package server_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// TestConnectionsAreReadLately: submits that follow each other share one read of
// their connection, for a moment; one that was not found is looked for again.
func TestConnectionsAreReadLately(t *testing.T) {
	calls := map[string]int{}
	inBubble(t, func(t *testing.T, f *fixture) {
		c := overConnect(f)
		f.schedule(f.request("first"))
		clear(calls)
		for _, key := range []string{"a", "b", "c"} {
			f.schedule(f.request(key))
		}
		if calls["Connection"] > 1 {
			t.Errorf("%d reads of the connection for 3 submits in a row", calls["Connection"])
		}
		<-time.After(time.Second)
		clear(calls)
		f.schedule(f.request("later"))
		if calls["Connection"] == 0 {
			t.Error("a second later the connection was not read again")
		}
		clear(calls)
		for n := 1; n <= 2; n++ {
			err := c.call(t.Context(), scheduleJob, f.request("k", func(r *scheduleRequest) { r.Connection = onConnection(absent) }),
				&fireoncev1.ScheduleJobResponse{})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
			if calls["Connection"] != n {
				t.Errorf("%d reads for %d submits to no connection", calls["Connection"], n)
			}
		}
	}, func(c *server.Config) { c.Store = counting{Store: c.Store, mu: &sync.Mutex{}, calls: calls} })
}

// stalling is a store whose first read of a connection ends with its context.
type stalling struct {
	server.Store
	reads *atomic.Int64
}

func (s stalling) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	if s.reads.Add(1) == 1 {
		<-ctx.Done()
		return store.Connection{}, ctx.Err()
	}
	return s.Store.Connection(ctx, ref)
}

// TestAReadOfAnotherCallTimesOut: a call that joins another call's read of a connection is
// not failed by the time limit of that read.
func TestAReadOfAnotherCallTimesOut(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s := stalling{Store: f.store, reads: &atomic.Int64{}}
		get := server.ConnectionCacheGet(s, time.Second)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if conn, err := get(ctx, server.DefaultProject, f.id(f.conn)); err != nil || conn.ID != f.id(f.conn) {
					t.Errorf("%v, %v", conn, err)
				}
			})
		}
		wg.Wait()
		if got := s.reads.Load(); got != 3 {
			t.Errorf("%d reads, want the shared one and one for each call", got)
		}
	})
}
