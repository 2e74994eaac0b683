//go:build failpoints

package main

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// atRestOf reads until a subject's job is at rest.
func (c *crash) atRestOf(subject string) {
	c.Helper()
	c.read(func(h *history, _ *fireoncev1.JobChanged) bool { return atRest(h.state(c.ids[subject])) })
}

// TestFrozenInMidSend stops a server whose request has taken effect at the target, until
// the other servers have finished the job, and then continues it.
func TestFrozenInMidSend(t *testing.T) {
	t.Parallel()
	for _, class := range classes {
		t.Run(className(class), func(t *testing.T) {
			t.Parallel()
			underWay, thawed := make(chan string, 1), make(chan struct{})
			var held atomic.Bool
			hold := func(subject string) {
				if held.CompareAndSwap(false, true) {
					underWay <- subject
					<-thawed
				}
			}
			var to target
			if class == fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE {
				to = startPosts(t, feedtest.Options{Committed: func(r feedtest.Request, _ feedtest.Post) { hold(r.Text) }})
			} else {
				to = startHooks(t, class == fireoncev1.EffectClass_EFFECT_CLASS_KEYED, func(r receiver.Request) receiver.Answer {
					hold(r.Subject)
					return receiver.Reply
				})
			}
			letGo := sync.OnceFunc(func() { close(thawed) })
			t.Cleanup(letGo)
			c := newCrash(t, onPostgres, "", class, to)
			c.start()
			c.submit()
			subject := <-underWay
			p := c.byWorker(c.sender(subject))
			c.freeze(p, true)
			c.atRestOf(subject)
			letGo() // the answer has arrived when the server wakes up
			c.freeze(p, false)
			c.settle(c.jobs)
			c.judge()
		})
	}
}

// TestFrozenBeforeTheArm stops a server that has claimed a job and prepares it, for longer
// than its lease. Other servers send the job meanwhile.
func TestFrozenBeforeTheArm(t *testing.T) {
	t.Parallel()
	underWay, thawed := make(chan struct{}), make(chan struct{})
	to := startPosts(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
		if r.Method == http.MethodGet && r.Number == 1 {
			close(underWay)
			<-thawed
		}
		return feedtest.Reply
	}})
	letGo := sync.OnceFunc(func() { close(thawed) })
	t.Cleanup(letGo)
	c := newCrash(t, onPostgres, "", fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE, to)
	c.jobs = 1
	c.start()
	c.submit()
	<-underWay
	worker := ""
	c.read(func(_ *history, e *fireoncev1.JobChanged) bool {
		if e.GetNewState() == fireoncev1.JobState_JOB_STATE_CLAIMED {
			worker = e.GetActor()
		}
		return worker != ""
	})
	p := c.byWorker(worker)
	c.freeze(p, true)
	c.atRestOf(subjectOf(0))
	letGo()
	c.freeze(p, false)
	c.judge()
	if n := to.Requests(subjectOf(0)); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestPostgresCrashes crashes PostgreSQL under load, twice.
func TestPostgresCrashes(t *testing.T) {
	t.Parallel()
	for _, class := range classes {
		t.Run(className(class), func(t *testing.T) {
			t.Parallel()
			const crashes = 2
			jobs := scaled(12 * (crashes + 1))
			c := pgtest.Start(t, pgtest.Options{})
			reached := make(chan struct{}, crashes)
			to := startTarget(t, class, everyTwelfth(reached, lostFor(class)))
			f := newCrash(t, onPostgres, c.URL(c.NewDatabase(t)), class, to)
			f.jobs = jobs
			f.start()
			f.connection = f.connect(to.connection())
			var submitting sync.WaitGroup
			submitting.Go(f.submit)
			for range crashes {
				select {
				case <-reached:
				case <-waiting(t).Done():
					t.Fatal("the load has stopped")
				}
				c.Restart(t, pgtest.Immediate)
			}
			submitting.Wait()
			f.settle(jobs)
			f.judge()
			t.Logf("PostgreSQL crashed %d times; %d requests for %d jobs", crashes, requestsOf(to, jobs), jobs)
		})
	}
}

// everyTwelfth signals each twelfth subject's first request, if the channel has space.
func everyTwelfth(reached chan<- struct{}, lost lose) lose {
	var mu sync.Mutex
	seen := 0
	return func(subject string, number int) bool {
		mu.Lock()
		defer mu.Unlock()
		if number == 1 {
			if seen++; seen%12 == 0 {
				select {
				case reached <- struct{}{}:
				default:
				}
			}
		}
		return lost != nil && lost(subject, number)
	}
}

func requestsOf(to target, jobs int) int {
	n := 0
	for i := range jobs {
		n += to.Requests(subjectOf(i))
	}
	return n
}
