package server_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// waiting is a store whose jobs wait, each for what a test says.
type waiting struct {
	server.Store
	status func(*job.Status)
	conn   func(*store.Connection)
	hold   store.Hold
}

func (w waiting) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	snap, err := w.Store.Job(ctx, ref)
	w.status(&snap.Status)
	return snap, err
}

func (w waiting) Hold(context.Context, job.ID, string) (store.Hold, error) { return w.hold, nil }

func (w waiting) Connection(ctx context.Context, ref store.Ref) (store.Connection, error) {
	c, err := w.Store.Connection(ctx, ref)
	w.conn(&c)
	return c, err
}

// causesOf are what the kinds of TestBlockedReason say of the connection.
var causesOf = map[fireoncev1.BlockedReason_Kind]fireoncev1.ConnectionStateCause{
	fireoncev1.BlockedReason_KIND_CREDENTIAL:        fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_LOGIN_ENDED,
	fireoncev1.BlockedReason_KIND_CONNECTION_PAUSED: fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_PAUSED,
	fireoncev1.BlockedReason_KIND_RATE_LIMITED:      fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_RATE_LIMITED,
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
		"its time alone":         {},
		"a refused credential":   {func(s *job.Status) { s.Blocked = "Reconnect" }, func(c *store.Connection) { c.AuthHoldAt, c.PausedAt = now, now }, "Reconnect", fireoncev1.BlockedReason_KIND_CREDENTIAL, time.Time{}},
		"one that was replaced":  {func(s *job.Status) { s.Blocked = "Reconnect" }, nil, "Reconnect", fireoncev1.BlockedReason_KIND_PUT_OFF, now},
		"a missing sealing key":  {func(s *job.Status) { s.Blocked = seal.KeyMissing }, nil, "This server does not have the key", fireoncev1.BlockedReason_KIND_SEALING_KEY_MISSING, time.Time{}},
		"a broken seal":          {func(s *job.Status) { s.Blocked = seal.Broken }, nil, "The seal of this connection", fireoncev1.BlockedReason_KIND_SEAL_BROKEN, time.Time{}},
		"the same content":       {func(s *job.Status) { s.Blocked = job.WaitsForContent }, nil, job.WaitsForContent, fireoncev1.BlockedReason_KIND_SAME_CONTENT, time.Time{}},
		"a cool-down":            {func(s *job.Status) { s.Blocked = job.ConnectionCoolsDown }, nil, job.ConnectionCoolsDown, fireoncev1.BlockedReason_KIND_COOL_DOWN, now},
		"a schedule's cool-down": {func(s *job.Status) { s.Blocked = job.ScheduleCoolsDown }, nil, job.ScheduleCoolsDown, fireoncev1.BlockedReason_KIND_COOL_DOWN, now},
		"another job":            {func(s *job.Status) { s.WaitsFor, s.Blocked = other, "x" }, nil, "Waits for job " + other.String(), fireoncev1.BlockedReason_KIND_PREDECESSOR, time.Time{}},
		"its own reason":         {func(s *job.Status) { s.Blocked = "Reconnect this account" }, func(c *store.Connection) { c.PausedAt = now }, "Reconnect this account", fireoncev1.BlockedReason_KIND_PUT_OFF, now},
		"a pause":                {nil, func(c *store.Connection) { c.PausedAt = now }, "The connection is paused.", fireoncev1.BlockedReason_KIND_CONNECTION_PAUSED, time.Time{}},
		"a pause with a reason":  {nil, func(c *store.Connection) { c.PausedAt, c.PausedReason = now, "holiday" }, "The connection is paused: holiday", fireoncev1.BlockedReason_KIND_CONNECTION_PAUSED, time.Time{}},
		"a limit of its own": {func(s *job.Status) {
			s.State, s.Attempt, s.Misses, s.LastError = job.Retrying, 1, 1, &job.Failure{Kind: job.FailRateLimited, Message: "quoted"}
		}, nil, "The next attempt is not before 2026-07-01T12:00:00Z: the platform limited the rate of requests.", fireoncev1.BlockedReason_KIND_RATE_LIMITED, now},
		"its target":             {nil, func(c *store.Connection) { c.AuthHoldAt = now }, "Reconnect", fireoncev1.BlockedReason_KIND_CREDENTIAL, time.Time{}},
		"a limit":                {nil, func(c *store.Connection) { c.RateLimitedUntil = now.Add(time.Hour) }, "Nothing starts before 2026-07-01T13:00:00Z: the platform asked to wait, or cannot be asked.", fireoncev1.BlockedReason_KIND_RATE_LIMITED, now.Add(time.Hour)},
		"a limit that ends soon": {func(s *job.Status) { s.NextAt = now.Add(2 * time.Hour) }, func(c *store.Connection) { c.RateLimitedUntil = now.Add(time.Hour) }, "", 0, time.Time{}},
		"another host's hold":    {nil, func(c *store.Connection) { c.AuthHoldAt = now }, "", 0, time.Time{}},
		"another host's limit":   {nil, func(c *store.Connection) { c.RateLimitedUntil = now.Add(time.Hour) }, "", 0, time.Time{}},
		"nothing any more":       {func(s *job.Status) { s.State, s.WaitsFor = job.Canceled, other }, func(c *store.Connection) { c.PausedAt = now }, "", 0, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			// What holds the connection holds the job, but for another host's.
			w := waiting{status: func(*job.Status) {}, conn: func(*store.Connection) {}}
			if tt.conn != nil && !strings.HasPrefix(name, "another host") {
				var c store.Connection
				tt.conn(&c)
				w.hold = store.Hold{AuthAt: c.AuthHoldAt, Auth: job.AuthLoginEnded, Reason: "Reconnect", LimitedUntil: c.RateLimitedUntil}
			}
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
			if cause := causesOf[got.GetKind()]; got.GetConnectionCause() != cause {
				t.Errorf("cause %v, want %v", got.GetConnectionCause(), cause)
			}
			if id := got.GetJobId(); (id != "") != (tt.kind == fireoncev1.BlockedReason_KIND_PREDECESSOR) || id != "" && id != other.String() {
				t.Errorf("blocked by job %q", id)
			}
		})
	}
}

// TestConnectionSaysWhyItHolds: a refusal of each cause, written as the engine writes it,
// is read as its own cause, by the connection and by the jobs of its target alone.
func TestConnectionSaysWhyItHolds(t *testing.T) {
	seen := make(map[fireoncev1.ConnectionStateCause]bool)
	for auth := job.AuthRefused; auth.String() != "UNSPECIFIED"; auth++ {
		f := start(t)
		id := f.schedule(f.request("held")).GetJobId()
		f.learn(f.claim().ID, job.Deferred{Kind: job.FailAuth, Message: "Reconnect", Auth: auth})
		c := overGRPC(f)
		conn, blocked := f.connection(c, f.conn), f.read(c, id).GetBlockedReason()
		want := "CONNECTION_STATE_CAUSE_" + auth.String()
		if conn.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD || conn.GetStateCause().String() != want {
			t.Errorf("%s: the connection is %s for %s", auth, conn.GetState(), conn.GetStateCause())
		}
		if blocked.GetKind() != fireoncev1.BlockedReason_KIND_CREDENTIAL || blocked.GetConnectionCause().String() != want {
			t.Errorf("%s: the job is blocked by %v", auth, blocked)
		}
		seen[conn.GetStateCause()] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d causes", len(seen))
	}
}

// undescribed is a store that does not describe itself while the lock is held.
type undescribed struct {
	server.Store
	gate *sync.RWMutex
}

func (s undescribed) Meta(ctx context.Context) (store.Meta, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	return s.Store.Meta(ctx)
}

// TestOneReadOfTheDescription: calls that begin while the database does not describe itself share
// the wait for it, and leave nothing behind.
func TestOneReadOfTheDescription(t *testing.T) {
	var gate sync.RWMutex
	f := start(t, func(c *server.Config) { c.Store = undescribed{c.Store, &gate} })
	gate.Lock()
	defer gate.Unlock()
	before := runtime.NumGoroutine()
	for range 500 {
		f.server.BeginAnswer(t.Context())
	}
	if more := runtime.NumGoroutine() - before; more > 50 {
		t.Errorf("500 calls that have left: %d goroutines wait for the database", more)
	}
}

// TestServerIsGone: a job that is SENDING states that its server is gone and when it is decided, for
// every caller that may read it. While the server is there it states nothing.
func TestServerIsGone(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		f := start(t)
		c := overConnect(f)
		if !gone {
			f.must(f.store.Enlist(t.Context(), store.Process{Worker: "worker"}))
		}
		j := f.schedule(f.request("k"))
		sent := f.arm()
		got := f.read(c, j.GetJobId()).GetBlockedReason()
		list, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{})
		f.must(err)
		if listed := list.GetJobs()[0].GetBlockedReason(); !proto.Equal(listed, got) {
			t.Errorf("GetJob: %v, ListJobs: %v", got, listed)
		}
		if !gone {
			if got != nil {
				t.Errorf("at a live server: %v", got)
			}
			continue
		}
		want := "Under way at worker, which is gone (last sign of it: " + sent.Updated.UTC().Format(time.RFC3339) +
			"). Decided by " + sent.Fence.UTC().Format(time.RFC3339) + " at the latest."
		if got.GetKind() != fireoncev1.BlockedReason_KIND_SERVER_GONE || got.GetMessage() != want || !got.GetEndTime().AsTime().Equal(sent.Fence) {
			t.Errorf("%v, want %s", got, want)
		}
	}
}
