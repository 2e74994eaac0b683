package server_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// looks counts reads of the event log, with and without a wish for events.
type looks struct {
	server.Store
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

// silent is a store that sends no hints: writes are found by polling.
type silent struct{ server.Store }

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

// stuck is a store whose log's end stands still, as when a transaction is left
// open: one job's events can be read all the same.
type stuck struct{ server.Store }

func (s stuck) Events(ctx context.Context, q store.EventQuery) (store.EventPage, error) {
	page, err := s.Store.Events(ctx, q)
	page.End = 1
	return page, err
}

func TestOneJobsEventsPassAStuckEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		j := f.schedule(f.request("k"))
		s := overConnect(f).open(t, fromBeginning, onlyJobs(j.GetJobId()))
		s.changes(t, 1)
		<-time.After(5 * time.Second)
		begun := time.Now()
		f.arm()
		s.changes(t, 2)
		if waited := time.Since(begun); waited > 100*time.Millisecond {
			t.Errorf("the events came after %s", waited)
		}
	}, func(c *server.Config) { c.Store = stuck{c.Store} })
}

// TestStreamsReadTogether: 20 streams at the end of the log read new events once, not 20 times,
// and each of them gets all.
func TestStreamsReadTogether(t *testing.T) {
	const streams, jobs = 20, 10
	l := looks{mu: &sync.Mutex{}, ends: new(int), all: new(int)}
	inBubble(t, func(t *testing.T, f *fixture) {
		c := overConnect(f)
		var open []feed
		for range streams {
			s := c.open(t)
			s.first(t)
			open = append(open, s)
		}
		synctest.Wait()
		l.mu.Lock()
		*l.ends, *l.all = 0, 0
		l.mu.Unlock()
		var all sync.WaitGroup
		for _, s := range open {
			all.Go(func() {
				for seen := 0; seen < jobs; {
					e, err := s.next()
					if err != nil {
						t.Error(err)
						return
					}
					if e.GetJobChanged() != nil {
						seen++
					}
				}
			})
		}
		for i := range jobs {
			f.schedule(f.request(strconv.Itoa(i)))
			<-time.After(50 * time.Millisecond) // one generation of the tail each
		}
		all.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if own := *l.all - *l.ends; own > 2*jobs {
			t.Errorf("%d reads of the log by %d streams for %d events", own, streams, jobs)
		}
	}, func(c *server.Config) {
		l.Store = c.Store
		c.Store = l
	})
}
