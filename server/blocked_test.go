package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// waiting is a store whose jobs wait, each for what a test says.
type waiting struct {
	store.Store
	status func(*job.Status)
	conn   func(*store.Connection)
}

func (w waiting) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	snap, err := w.Store.Job(ctx, ref)
	w.status(&snap.Status)
	return snap, err
}

func (w waiting) Connection(ctx context.Context, project string, id job.ID) (store.Connection, error) {
	c, err := w.Store.Connection(ctx, project, id)
	w.conn(&c)
	return c, err
}

// TestBlockedReason: the widest cause is named, and none where none is known.
func TestBlockedReason(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	other := job.ID{5, 15: 5}
	for name, tt := range map[string]struct {
		status func(*job.Status)
		conn   func(*store.Connection)
		want   string
	}{
		"its time alone":         {},
		"another job":            {func(s *job.Status) { s.WaitsFor, s.Blocked = other, "x" }, nil, "Waits for job " + other.String()},
		"its own reason":         {func(s *job.Status) { s.Blocked = "Reconnect this account" }, func(c *store.Connection) { c.PausedAt = now }, "Reconnect this account"},
		"a pause":                {nil, func(c *store.Connection) { c.PausedAt = now }, "The connection is paused."},
		"a pause with a reason":  {nil, func(c *store.Connection) { c.PausedAt, c.PausedReason = now, "holiday" }, "The connection is paused: holiday"},
		"the account":            {nil, func(c *store.Connection) { c.AccountIdentity, c.AuthHoldAt, c.AuthHoldReason = "a", now, "Reconnect" }, "Reconnect"},
		"a limit":                {nil, func(c *store.Connection) { c.AccountIdentity, c.RateLimitedUntil = "a", now.Add(time.Hour) }, "Nothing starts before 2026-07-01T13:00:00Z: the platform asked to wait, or cannot be asked."},
		"a limit that ends soon": {func(s *job.Status) { s.NextAt = now.Add(2 * time.Hour) }, func(c *store.Connection) { c.AccountIdentity, c.RateLimitedUntil = "a", now.Add(time.Hour) }, ""},
		"another host's limit":   {nil, func(c *store.Connection) { c.RateLimitedUntil = now.Add(time.Hour) }, ""},
		"nothing any more":       {func(s *job.Status) { s.State, s.WaitsFor = job.Canceled, other }, func(c *store.Connection) { c.PausedAt = now }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := waiting{status: func(*job.Status) {}, conn: func(*store.Connection) {}}
			if tt.status != nil {
				w.status = tt.status
			}
			if tt.conn != nil {
				w.conn = tt.conn
			}
			f := start(t, func(c *server.Config) {
				w.Store = c.Store
				c.Store = w
			})
			j := f.schedule(f.request("k"))
			if got := f.read(overGRPC(f), j.GetJobId()).GetBlockedReason(); got != tt.want && (tt.want == "" || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("blocked_reason %q, want %q", got, tt.want)
			}
		})
	}
}
