package platforms_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/mastodon/mastodontest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
	"github.com/fireonce/fireonce/store"
)

// turnstile stands before a platform and counts the requests that come through: a limit is
// about what the platform sees.
type turnstile struct {
	shut bool // a request that comes waits inside until one is let out

	mu       sync.Mutex
	cond     *sync.Cond
	inside   int
	let      int // out, of those inside; the first come goes first
	first    int // of the arrivals that are inside
	worst    int
	arrivals []time.Time
}

// behind puts a turnstile before the platform's sends.
func (d *turnstile) behind(t *testing.T, p platforms.Platform) platforms.Platform {
	t.Helper()
	to, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	d.cond = sync.NewCond(&d.mu)
	pass := httputil.NewSingleHostReverseProxy(to)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.Commits(faultproxy.Request{Method: r.Method, Path: r.URL.Path}) {
			d.enter()
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p.URL = server.URL
	return p
}

// open lets out all who are inside, and lets through who comes.
func (d *turnstile) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = false
	d.cond.Broadcast()
}

// enter counts a request until it may go on. It is out before its answer can be, so that no
// request is counted beside its successor.
func (d *turnstile) enter() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside++
	d.worst = max(d.worst, d.inside)
	turn := len(d.arrivals)
	d.arrivals = append(d.arrivals, time.Now())
	d.cond.Broadcast()
	for d.shut && (d.let == 0 || d.first < turn) {
		d.cond.Wait()
	}
	d.first++
	d.let = max(0, d.let-1)
	d.inside--
	d.cond.Broadcast()
}

// letOut waits until as many are inside as may be, and lets one of them out.
func (d *turnstile) letOut(inside int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.inside < inside {
		d.cond.Wait()
	}
	d.let++
	d.cond.Broadcast()
	for d.let > 0 {
		d.cond.Wait()
	}
}

// came waits for the n-th to arrive, and returns when each came.
func (d *turnstile) came(n int) []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.arrivals) < n {
		d.cond.Wait()
	}
	return append([]time.Time(nil), d.arrivals...)
}

// A connection's limits are one for all servers, counted where they matter.
func TestLimitsOfAFleet(t *testing.T) {
	t.Parallel()
	fleet := func(t *testing.T, d *turnstile, limits func(*store.Connection)) *platforms.World {
		t.Helper()
		w := platforms.NewFleet(t, d.behind(t, mastodonOf(t, mastodontest.Mastodon, job.Keyed)), limits)
		t.Cleanup(d.open) // before the engines end: of a test that failed, requests may be inside
		return w
	}
	// No attempt ends while its request waits inside.
	patient := func(n *store.NewJob) { n.Spec.Retry.AttemptTimeout = 10 * time.Minute }
	submit := func(t *testing.T, w *platforms.World, n int) (ids []job.ID) {
		t.Helper()
		p := mastodonOf(t, mastodontest.Mastodon, job.Keyed)
		for i := range n {
			ids = append(ids, w.Submit(fmt.Sprint("job ", i), p.Payload(fmt.Sprint("words ", i)), patient))
		}
		return ids
	}
	t.Run("as many at once", func(t *testing.T) {
		t.Parallel()
		const most, jobs = 3, 24 // more than one server sends concurrently, less than both
		d := &turnstile{shut: true}
		w := fleet(t, d, func(c *store.Connection) { c.MaxInFlight = most })
		ids := submit(t, w, jobs)
		for i := range jobs {
			d.letOut(min(most, jobs-i))
		}
		servers := make(map[string]bool)
		for _, id := range ids {
			if s := w.UntilState(id, job.Succeeded); s.Attempt != 1 {
				t.Errorf("%d attempts\n%s", s.Attempt, w.Story(id))
			}
			servers[w.Attempts(id)[0].Worker] = true
		}
		if d.worst != most || len(servers) != 2 {
			t.Errorf("%d at once, at most %d are allowed; sent by %v", d.worst, most, servers)
		}
	})
	t.Run("as many a minute", func(t *testing.T) {
		t.Parallel()
		const perMinute, burst, jobs = 60, 6, 9 // a tenth as a burst
		d := &turnstile{}
		began := time.Now()
		w := fleet(t, d, func(c *store.Connection) { c.MaxPerMinute = perMinute })
		submit(t, w, jobs)
		for i, at := range d.came(jobs) {
			if least := time.Duration(i+1-burst) * time.Minute / perMinute; at.Sub(began) < least {
				t.Errorf("arrival %d came %v after the beginning, not before %v was allowed", i+1, at.Sub(began), least)
			}
		}
	})
	t.Run("a rate limit is everybody's", func(t *testing.T) {
		t.Parallel()
		const wait, jobs = 3 * time.Second, 10
		d := &turnstile{}
		w := fleet(t, d, func(*store.Connection) {})
		limited := make(chan time.Time, 1)
		w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
			if r.Method != http.MethodPost || r.Number > 1 {
				return faultproxy.Fate{}
			}
			limited <- time.Now()
			return faultproxy.RetryAfter(wait)
		})
		first := submit(t, w, 1)[0]
		w.Until(first, "limited", func(s job.Snapshot) bool { return s.State == job.Retrying })
		p := mastodonOf(t, mastodontest.Mastodon, job.Keyed)
		for i := range jobs {
			w.Submit(fmt.Sprint("other ", i), p.Payload(fmt.Sprint("other words ", i)))
		}
		at := <-limited
		for i, came := range d.came(jobs + 1) {
			if came.Sub(at) < wait {
				t.Errorf("arrival %d came %v after the platform asked to wait %v", i+1, came.Sub(at), wait)
			}
		}
		if s := w.UntilState(first, job.Succeeded); s.Failures != 0 || s.Attempt != 2 {
			t.Errorf("%d failures, %d attempts\n%s", s.Failures, s.Attempt, w.Story(first))
		}
	})
}
