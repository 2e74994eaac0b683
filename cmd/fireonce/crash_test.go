//go:build failpoints

package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/failpoint"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// nths returns the hits of a failpoint at which servers die.
func nths() []int {
	if longRun {
		return []int{1, 2, 3, 5, 8}
	}
	return []int{1, 3}
}

// jobsEach returns how many jobs ensure that one server reaches the last of the nths of a
// failpoint, however the servers share the jobs: each may have had one hit fewer.
func jobsEach(d deployment) int { return (slices.Max(nths())-1)*d.servers + 1 }

// crash is a fleet whose servers are killed, and jobs for one target.
type crash struct {
	*fleet
	class      fireoncev1.EffectClass
	to         target
	connection string
	jobs       int
	ids        map[string]string // job by subject
}

// newCrash returns a crash. If url is empty, it makes a database.
func newCrash(t *testing.T, d deployment, url string, class fireoncev1.EffectClass, to target) *crash {
	t.Helper()
	return &crash{fleet: newFleet(t, d, url), class: class, to: to, jobs: jobsEach(d), ids: make(map[string]string)}
}

// eachOf runs a test for each deployment and class, all in parallel.
func eachOf(t *testing.T, test func(*testing.T, deployment, fireoncev1.EffectClass)) {
	for _, d := range deployments {
		for _, class := range classes {
			t.Run(d.name+"/"+className(class), func(t *testing.T) {
				t.Parallel()
				test(t, d, class)
			})
		}
	}
}

func subjectOf(i int) string { return fmt.Sprintf("job-%d", i) }

// submit schedules every job at the servers in turn, as a client that repeats
// unanswered calls.
func (c *crash) submit() {
	c.Helper()
	if c.connection == "" {
		c.connection = c.connect(c.to.connection())
	}
	for i := range c.jobs {
		subject := subjectOf(i)
		resp, err := c.schedule(i, jobFor(c.to, c.connection, subject))
		if err != nil {
			c.Fatalf("%s: %v", subject, err)
		}
		id := resp.GetJob().GetJobId()
		if known := c.ids[subject]; known != "" && known != id {
			c.Errorf("%s was job %s and is now %s", subject, known, id)
		}
		c.ids[subject] = id
	}
}

// run has every job done by servers that die at the given failpoints, one per life.
func (c *crash) run(deaths ...string) {
	c.Helper()
	c.start(deaths...)
	c.finish(deaths...)
}

// finish has every job done by the servers that were started.
func (c *crash) finish(deaths ...string) {
	c.Helper()
	c.submit()
	c.settle(c.jobs)
	c.judge(deaths...)
}

// judge stops the servers, and checks the results at a new one.
func (c *crash) judge(deaths ...string) {
	c.Helper()
	c.stop()
	c.startFirst(1)
	c.submit()
	h := c.settle(c.jobs)
	c.stop()
	for i := range c.jobs {
		judge(c.T, c.to, c.class, subjectOf(i), h.events[c.ids[subjectOf(i)]])
	}
	if n := len(h.events); n != c.jobs {
		c.Errorf("%d jobs are stored, not %d", n, c.jobs)
	}
	for _, at := range deaths {
		c.Logf("killed at %s: %d of %d servers", at, c.kills(at), len(c.slots))
	}
}

// TestCrashAtEveryPlace kills servers at every persisted boundary, at the first
// and at the third job that comes there.
func TestCrashAtEveryPlace(t *testing.T) {
	t.Parallel()
	if len(failpoint.All) == 0 {
		t.Fatal("no places")
	}
	for _, place := range failpoint.All {
		for _, nth := range nths() {
			if place == failpoint.Swept && nth > 1 {
				continue // one sweep takes all overdue jobs
			}
			at := fmt.Sprintf("%s:%d", place, nth)
			t.Run(at, func(t *testing.T) {
				t.Parallel()
				eachOf(t, func(t *testing.T, d deployment, class fireoncev1.EffectClass) { crashAt(t, place, at, d, class) })
			})
		}
	}
}

func crashAt(t *testing.T, place, at string, d deployment, class fireoncev1.EffectClass) {
	lost := lostFor(class)
	if place == failpoint.LookTaken {
		lost = firstLost // otherwise no job needs a look
	}
	deaths := []string{at}
	if place == failpoint.Swept {
		deaths = []string{failpoint.Armed, at} // leaves a job to sweep
	}
	c := newCrash(t, d, "", class, startTarget(t, class, lost))
	c.run(deaths...)
	if c.kills(at) == 0 {
		t.Errorf("no server was killed at %s", at)
	}
}

// TestCrashTwice kills a server again while it recovers from the first kill. There is only
// one server: if several die one after the other with the same jobs, a job becomes suspect
// (job.MaxClaims), and by design it then waits for minutes.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	for _, places := range [][]string{
		{failpoint.Armed, failpoint.LookTaken}, {failpoint.Answered, failpoint.Armed},
		{failpoint.Answered, failpoint.Answered}, {failpoint.Claimed, failpoint.Prepared},
		{failpoint.Submitted, failpoint.Settled}, {failpoint.Armed, failpoint.Claimed},
	} {
		t.Run(strings.Join(places, " "), func(t *testing.T) {
			t.Parallel()
			eachOf(t, func(t *testing.T, d deployment, class fireoncev1.EffectClass) {
				c := newCrash(t, d, "", class, startTarget(t, class, lostFor(class)))
				c.startFirst(1, places...)
				c.finish(places...) // not every run reaches every pair: the second kill is optional
				if c.kills(places[0]) == 0 {
					t.Errorf("no server was killed at %s", places[0])
				}
			})
		})
	}
}

// TestKilledUnderAClaim kills a server that has claimed a job and sent nothing. The claim must
// be released long before its lease ends, which is after the test.
func TestKilledUnderAClaim(t *testing.T) {
	t.Parallel()
	for _, place := range []string{failpoint.Claimed, failpoint.Prepared} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			eachOf(t, func(t *testing.T, d deployment, class fireoncev1.EffectClass) {
				c := newCrash(t, d, "", class, startTarget(t, class, nil))
				c.args = append(c.args, "--lease", time.Hour.String())
				c.jobs = 1
				c.startFirst(1, place)
				c.finish(place)
				if c.kills(place) != 1 {
					t.Fatalf("killed %d times", c.kills(place))
				}
				released := 0
				c.startFirst(1)
				for _, e := range c.settle(c.jobs).events[c.ids[subjectOf(0)]] {
					// On SQLite every lease ends as the database is opened, so either may come first.
					lost := e.GetCause() == fireoncev1.EventCause_EVENT_CAUSE_SENDER_LOST ||
						d == onSQLite && e.GetCause() == fireoncev1.EventCause_EVENT_CAUSE_LEASE_EXPIRED
					if lost && e.GetOldState() == fireoncev1.JobState_JOB_STATE_CLAIMED {
						released++
					}
				}
				if released != 1 {
					t.Errorf("%d claims were released", released)
				}
			})
		})
	}
}

// TestKilledInMidSend kills the server whose request has taken effect at the target and
// has no answer.
func TestKilledInMidSend(t *testing.T) {
	t.Parallel()
	eachOf(t, func(t *testing.T, d deployment, class fireoncev1.EffectClass) {
		underWay := make(chan string, 1)
		var once sync.Once
		silent := func(subject string) (is bool) {
			once.Do(func() {
				underWay <- subject
				is = true
			})
			return is
		}
		var to target
		if class == fireoncev1.EffectClass_EFFECT_CLASS_OBSERVABLE {
			to = startPosts(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
				if r.Method == http.MethodPost && silent(r.Text) {
					return feedtest.Silence
				}
				return feedtest.Reply
			}})
		} else {
			to = startHooks(t, class == fireoncev1.EffectClass_EFFECT_CLASS_KEYED, func(r receiver.Request) receiver.Answer {
				if silent(r.Subject) {
					return receiver.Silence
				}
				return receiver.Reply
			})
		}
		c := newCrash(t, d, "", class, to)
		c.start()
		c.submit()
		var subject string
		select {
		case subject = <-underWay:
		case <-waiting(t).Done():
			t.Fatal("no request came")
		}
		c.byWorker(c.sender(subject)).Kill()
		if d == onSQLite {
			c.start()
		}
		c.settle(c.jobs)
		c.judge()
	})
}

// sender returns the worker that sent a subject's request.
func (c *crash) sender(subject string) (worker string) {
	c.Helper()
	c.read(func(_ *history, e *fireoncev1.JobChanged) bool {
		if e.GetJobId() == c.ids[subject] && e.GetNewState() == fireoncev1.JobState_JOB_STATE_SENDING {
			worker = e.GetActor()
		}
		return worker != ""
	})
	return worker
}
