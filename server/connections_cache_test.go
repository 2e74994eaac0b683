package server_test

import (
	"sync"
	"testing"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/server"
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
