package server_test

import (
	"context"
	"strings"
	"testing"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
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

func (w waiting) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	c, err := w.Store.Connection(ctx, ref)
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
		kind   fireoncev1.BlockedReason_Kind
		until  time.Time
	}{
		"its time alone": {},
		"a refused credential": {func(s *job.Status) {
			s.Blocked, s.LastError = "Reconnect", &job.Failure{Kind: job.FailAuth, Message: "Reconnect"}
		}, nil, "Reconnect", fireoncev1.BlockedReason_KIND_CREDENTIAL, time.Time{}},
		"the same content":       {func(s *job.Status) { s.Blocked = job.WaitsForContent }, nil, job.WaitsForContent, fireoncev1.BlockedReason_KIND_SAME_CONTENT, time.Time{}},
		"another job":            {func(s *job.Status) { s.WaitsFor, s.Blocked = other, "x" }, nil, "Waits for job " + other.String(), fireoncev1.BlockedReason_KIND_PREDECESSOR, time.Time{}},
		"its own reason":         {func(s *job.Status) { s.Blocked = "Reconnect this account" }, func(c *store.Connection) { c.PausedAt = now }, "Reconnect this account", fireoncev1.BlockedReason_KIND_PUT_OFF, now},
		"a pause":                {nil, func(c *store.Connection) { c.PausedAt = now }, "The connection is paused.", fireoncev1.BlockedReason_KIND_CONNECTION_PAUSED, time.Time{}},
		"a pause with a reason":  {nil, func(c *store.Connection) { c.PausedAt, c.PausedReason = now, "holiday" }, "The connection is paused: holiday", fireoncev1.BlockedReason_KIND_CONNECTION_PAUSED, time.Time{}},
		"the account":            {nil, func(c *store.Connection) { c.AccountIdentity, c.AuthHoldAt, c.AuthHoldReason = "a", now, "Reconnect" }, "Reconnect", fireoncev1.BlockedReason_KIND_CREDENTIAL, time.Time{}},
		"a limit":                {nil, func(c *store.Connection) { c.AccountIdentity, c.RateLimitedUntil = "a", now.Add(time.Hour) }, "Nothing starts before 2026-07-01T13:00:00Z: the platform asked to wait, or cannot be asked.", fireoncev1.BlockedReason_KIND_RATE_LIMITED, now.Add(time.Hour)},
		"a limit that ends soon": {func(s *job.Status) { s.NextAt = now.Add(2 * time.Hour) }, func(c *store.Connection) { c.AccountIdentity, c.RateLimitedUntil = "a", now.Add(time.Hour) }, "", 0, time.Time{}},
		"another host's limit":   {nil, func(c *store.Connection) { c.RateLimitedUntil = now.Add(time.Hour) }, "", 0, time.Time{}},
		"nothing any more":       {func(s *job.Status) { s.State, s.WaitsFor = job.Canceled, other }, func(c *store.Connection) { c.PausedAt = now }, "", 0, time.Time{}},
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
			got := f.read(overGRPC(f), j.GetJobId()).GetBlockedReason()
			if msg := got.GetMessage(); msg != tt.want && (tt.want == "" || !strings.HasPrefix(msg, tt.want)) {
				t.Errorf("blocked_reason %q, want %q", msg, tt.want)
			}
			if (got == nil) != (tt.want == "") || got.GetKind() != tt.kind || got.GetEndTime().IsValid() && got.GetEndTime().AsTime() != tt.until || got.GetEndTime() == nil && !tt.until.IsZero() {
				t.Errorf("blocked_reason %v, want %v until %v", got, tt.kind, tt.until)
			}
			if id := got.GetJobId(); (id != "") != (tt.kind == fireoncev1.BlockedReason_KIND_PREDECESSOR) || id != "" && id != other.String() {
				t.Errorf("blocked by job %q", id)
			}
		})
	}
}
