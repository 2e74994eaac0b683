package server_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// restored is a store whose incarnation a test sets.
type restored struct {
	store.Store
	incarnation *atomic.Int64
}

func (r restored) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	now := r.incarnation.Load()
	if q.Incarnation != 0 && q.Incarnation != now {
		return store.EventPage{}, store.ErrCursorExpired
	}
	q.Incarnation = 0
	page, err := r.Store.Events(ctx, q)
	page.Incarnation = now
	return page, err
}

func (r restored) List(ctx context.Context, q store.JobQuery) (store.JobPage, error) {
	page, err := r.Store.List(ctx, q)
	page.Incarnation = r.incarnation.Load()
	return page, err
}

func (r restored) Meta(ctx context.Context) (store.Meta, error) {
	meta, err := r.Store.Meta(ctx)
	meta.Incarnation = r.incarnation.Load()
	return meta, err
}

// restorable makes a server whose database can be restored, by the number.
func restorable(t *testing.T) (*fixture, *atomic.Int64) {
	n := &atomic.Int64{}
	n.Store(1)
	return start(t, func(c *server.Config) { c.Store = restored{c.Store, n} }), n
}

// TestCursorsOfAnEarlierIncarnation: every way to a cursor, in every protocol.
func TestCursorsOfAnEarlierIncarnation(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f, incarnation := restorable(t)
			c := dial(f)
			j := f.schedule(f.request("k"))
			page, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{})
			f.must(err)
			got, err := ask[fireoncev1.GetJobResponse](t, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{By: &fireoncev1.GetJobRequest_JobId{JobId: j.GetJobId()}})
			f.must(err)
			_, ofEvent := c.open(t, fromBeginning).changes(t, 1)
			_, ofJob := c.open(t, fromBeginning, onlyJobs(j.GetJobId())).changes(t, 1)
			beat := c.open(t).first(t).GetCursor()
			cursors := []string{page.GetEventsCursor(), got.GetEventsCursor(), ofEvent, ofJob, beat}
			for range 2 { // before the restore all are good, after it none
				for i, cursor := range cursors {
					stream := c.open(t, afterCursor(cursor), onlyJobs(j.GetJobId()))
					if incarnation.Load() == 1 {
						stream.first(t)
						continue
					}
					_, err := stream.next()
					e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED)
					if !strings.Contains(e.msg, "restored") || !strings.Contains(e.msg, "ListJobs") {
						t.Errorf("cursor %d: the error does not say what to do: %s", i, e.msg)
					}
				}
				incarnation.Store(2)
			}
			page, err = ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{})
			f.must(err)
			c.open(t, afterCursor(page.GetEventsCursor())).first(t)
		})
	}
}

// TestStreamEndsAtARestore: a stream under way must not go on as if nothing
// were.
func TestStreamEndsAtARestore(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f, incarnation := restorable(t)
			s := dial(f).open(t)
			s.first(t)
			incarnation.Store(2)
			f.schedule(f.request("k")) // wakes it
			_, err := s.next()
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED)
		})
	}
}

// TestTokensOfAnotherServer of the same database are as good as one's own.
func TestTokensOfAnotherServer(t *testing.T) {
	var shared store.Store
	one := start(t, func(c *server.Config) { shared = c.Store })
	two := start(t, func(c *server.Config) { c.Store = shared })
	one.schedule(one.request("a"))
	one.schedule(one.request("b"))
	last := one.schedule(one.request("c"))
	first, err := ask[fireoncev1.ListJobsResponse](t, overConnect(one), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{PageSize: 2})
	one.must(err)
	rest, err := ask[fireoncev1.ListJobsResponse](t, overGRPC(two), jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{PageToken: first.GetNextPageToken()})
	if err != nil || len(rest.GetJobs()) != 1 {
		t.Errorf("the second page from the other server: %v, %v", rest, err)
	}
	_, cursor := overConnect(one).open(t, fromBeginning).changes(t, 2)
	got, _ := overGRPC(two).open(t, afterCursor(cursor)).changes(t, 1)
	if got[0].GetJobId() != last.GetJobId() {
		t.Errorf("the stream went on with %v, want %s", got, last.GetJobId())
	}
}

// looks counts reads of the event log, with and without a wish for events.
type looks struct {
	store.Store
	mu   *sync.Mutex
	ends *int // looks at the log's end
	all  *int
}

func (l looks) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	l.mu.Lock()
	*l.all++
	if q.Limit == 1 {
		*l.ends++
	}
	l.mu.Unlock()
	return l.Store.Events(ctx, q)
}

// TestIdleStreamsShareTheLook: 20 streams that nothing happens on look at the
// log no oftener than one does, less their heartbeats.
func TestIdleStreamsShareTheLook(t *testing.T) {
	const streams, seconds = 20, 60
	l := looks{mu: &sync.Mutex{}, ends: new(int), all: new(int)}
	inBubble(t, func(t *testing.T, f *fixture) {
		c := overConnect(f)
		for range streams {
			s := c.open(t)
			s.first(t)
			go func() {
				for err := error(nil); err == nil; {
					_, err = s.next()
				}
			}()
		}
		synctest.Wait()
		l.mu.Lock()
		*l.ends, *l.all = 0, 0
		l.mu.Unlock()
		<-time.After(seconds*time.Second + 500*time.Millisecond)
		l.mu.Lock()
		defer l.mu.Unlock()
		if *l.ends > seconds+1 || *l.ends < seconds-1 {
			t.Errorf("%d looks at the log's end in %d s", *l.ends, seconds)
		}
		if own := *l.all - *l.ends; own > streams*(seconds/15+1) {
			t.Errorf("%d reads by %d idle streams in %d s", own, streams, seconds)
		}
	}, func(c *server.Config) {
		l.Store = c.Store
		c.Store = l
	})
}

// silent is a store that gives no hints: what is written is found by polling.
type silent struct{ store.Store }

func (silent) Watch(store.WatchKind) (<-chan struct{}, func()) { return nil, func() {} }

func TestEventsComeWithoutHints(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		s := overConnect(f).open(t)
		s.first(t)
		for _, key := range []string{"a", "b"} {
			<-time.After(10 * time.Second)
			begun := time.Now()
			f.schedule(f.request(key))
			s.changes(t, 1)
			if waited := time.Since(begun); waited > time.Second {
				t.Errorf("the event came after %s", waited)
			}
		}
	}, func(c *server.Config) { c.Store = silent{c.Store} })
}

// TestQuarantineShowsEverywhere, and refuses nothing but the sending.
func TestQuarantineShowsEverywhere(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		healthy := f.schedule(f.request("before"))
		if healthy.GetBlockedReason() != "" {
			t.Errorf("blocked while all is well: %q", healthy.GetBlockedReason())
		}
		f.must(f.store.Quarantine(t.Context(), "restored from last night"))
		f.clock.advance(time.Minute)
		const words = "fireonce recover"
		j := f.schedule(f.request("after"))
		list, err := ask[fireoncev1.ListJobsResponse](t, c, jobsPath+"ListJobs", &fireoncev1.ListJobsRequest{})
		f.must(err)
		changed, _ := c.open(t, fromBeginning, func(r *streamRequest) { r.IncludeJob = true }).changes(t, 2)
		for name, reason := range map[string]string{
			"ScheduleJob": j.GetBlockedReason(), "GetJob": f.read(c, j.GetJobId()).GetBlockedReason(),
			"ListJobs": list.GetJobs()[0].GetBlockedReason(), "event": changed[1].GetJob().GetBlockedReason(),
			"BatchScheduleJobs": f.batch(c, f.request("batch"))[0].GetSuccess().GetJob().GetBlockedReason(),
		} {
			if !strings.Contains(reason, words) || strings.Contains(reason, "last night") {
				t.Errorf("%s: blocked_reason %q", name, reason)
			}
		}
		if _, text := f.do("GET", "/", "", nil); !strings.Contains(text, "QUARANTINED") || !strings.Contains(text, words) {
			t.Errorf("landing page: %s", text)
		}
		if _, text := f.do("GET", "/status", "", nil); !strings.Contains(text, "restored from last night") {
			t.Errorf("status: %s", text)
		}
		_, err = f.cancel(&fireoncev1.CancelJobRequest{JobId: j.GetJobId()})
		f.must(err)
		if got := f.read(c, j.GetJobId()); got.GetBlockedReason() != "" {
			t.Errorf("a job that has ended waits: %q", got.GetBlockedReason())
		}
		f.must(f.store.Release(t.Context()))
		f.clock.advance(time.Minute)
		if got := f.read(c, healthy.GetJobId()); got.GetBlockedReason() != "" {
			t.Errorf("still blocked after the release: %q", got.GetBlockedReason())
		}
	})
}

func TestStatus(t *testing.T) {
	f := start(t, func(c *server.Config) { c.APIKey = "open-sesame" })
	res, _ := f.do("GET", "/status", "", nil)
	if res.StatusCode != 401 {
		t.Errorf("without the key: %d", res.StatusCode)
	}
	res, text := f.do("GET", "/status", "", map[string]string{"Authorization": "Bearer open-sesame"})
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	for _, part := range []string{`"engine":"sqlite"`, `"version":"test"`, `"quarantine_reason":""`, `"event_lag_seconds":0`, `"stopping":false`, `"store_id":"`} {
		if !strings.Contains(text, part) {
			t.Errorf("status %s lacks %s", text, part)
		}
	}
	if res, _ := f.do("POST", "/status", "", map[string]string{"Authorization": "Bearer open-sesame"}); res.StatusCode != 405 {
		t.Errorf("POST: %d", res.StatusCode)
	}
	f = start(t, func(c *server.Config) { c.Store = unreadable{c.Store, &atomic.Bool{}} })
	if res, text := f.do("GET", "/status", "", nil); res.StatusCode != 503 || strings.Contains(text, "secret") {
		t.Errorf("without a database: %d %s", res.StatusCode, text)
	}
	if res, text := f.do("GET", "/", "", nil); res.StatusCode != 200 || !strings.Contains(text, "cannot be reached") {
		t.Errorf("landing page without a database: %d %s", res.StatusCode, text)
	}
}

// unreadable is a store that describes itself once, at the start.
type unreadable struct {
	store.Store
	asked *atomic.Bool
}

func (u unreadable) Meta(ctx context.Context) (store.Meta, error) {
	if u.asked.Swap(true) {
		return store.Meta{}, store.ErrUnavailable
	}
	return u.Store.Meta(ctx)
}

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
		"a limit":                {nil, func(c *store.Connection) { c.AccountIdentity, c.RateLimitedUntil = "a", now.Add(time.Hour) }, "The platform asked to wait until 2026-07-01T13:00:00Z."},
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
