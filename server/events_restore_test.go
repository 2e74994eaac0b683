package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// restored is a store whose incarnation a test sets.
type restored struct {
	server.Store
	incarnation *atomic.Int64
}

func (r restored) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	after := q.Incarnation
	q.Incarnation = 0
	page, err := r.Store.Events(ctx, q)
	now := r.incarnation.Load() // after the read: an event that it has may be of after a restore
	if after != 0 && after != now {
		return store.EventPage{}, store.ErrCursorExpired
	}
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
			got, err := ask[fireoncev1.GetJobResponse](t, c, jobsPath+"GetJob", &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: j.GetJobId()}})
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
	var shared server.Store
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
