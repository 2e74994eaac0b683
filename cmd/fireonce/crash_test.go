//go:build failpoints

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/failpoint"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// Rules of this file: the server is the real binary, killed with SIGKILL, on a
// real SQLite file; the judge is a receiver in this process, which counts what
// took effect; nothing sleeps, every wait reads the event log.

const (
	crashJobs    = 4
	crashTimeout = time.Second
	crashGrace   = "2s"
	lastMoment   = 2 * time.Second
)

// crashBinary builds the server with failpoints, once.
var crashBinary = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(suiteDir, "fireonce-crash")
	out, err := exec.Command("go", "build", "-tags", "failpoints", "-o", binary, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
})

// crash is one server that is killed, and one receiver.
type crash struct {
	*testing.T
	dir, binary string
	class       fireoncev1.EffectClass
	receiver    *receiver.Receiver
	connection  string
	ids         map[string]string // job by subject
}

func newCrash(t *testing.T, class fireoncev1.EffectClass, plan func(receiver.Request) receiver.Answer) *crash {
	t.Helper()
	t.Parallel()
	binary, err := crashBinary()
	if err != nil {
		t.Fatal(err)
	}
	c := &crash{T: t, dir: t.TempDir(), binary: binary, class: class, ids: make(map[string]string)}
	c.receiver, err = receiver.Start(receiver.Options{Dedupes: c.keyed(), Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.receiver.Close() })
	return c
}

func (c *crash) keyed() bool { return c.class == fireoncev1.EffectClass_EFFECT_CLASS_KEYED }

// start runs the server, which dies at the failpoint; "": it does not.
func (c *crash) start(at string) (*process, *client.API) {
	c.Helper()
	env := append(os.Environ(), "FIREONCE_FAILPOINT="+at)
	p, err := startProcess(c.binary, c.dir, env, "--dev", "--listen", "127.0.0.1:0", "--database", "sqlite:crash.db", "--grace", crashGrace)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		p.kill()
		if c.Failed() {
			c.Logf("a server that was to die at %q said:\n%s", at, p.logs())
		}
	})
	return p, dial(c, p.url)
}

func crashSubject(i int) string { return fmt.Sprintf("job-%d", i) }

// submit schedules every job, as a client that repeats what was not answered:
// true if each call was answered OK.
func (c *crash) submit(ctx context.Context, p *process, api *client.API) bool {
	c.Helper()
	for i := range crashJobs {
		subject := crashSubject(i)
		resp, err := api.Jobs.ScheduleJob(ctx, hook(c.connection, subject, c.receiver.URL(subject), crashTimeout))
		if err != nil {
			<-p.done // only a dead server fails a call
			return false
		}
		id := resp.GetJob().GetJobId()
		if known := c.ids[subject]; known != "" && known != id {
			c.Errorf("%s was job %s and is now %s", subject, known, id)
		}
		c.ids[subject] = id
	}
	return true
}

// live runs one life of the server: until it dies, or everything is at rest. It
// tells whether the server died by itself.
func (c *crash) live(at string) (died bool) {
	c.Helper()
	p, api := c.start(at)
	defer p.kill()
	if c.connection == "" {
		c.connection = connect(c, api, c.keyed())
	}
	ctx, cancel := context.WithCancel(waiting(c))
	defer cancel()
	go func() { <-p.done; cancel() }()
	if !c.submit(ctx, p, api) {
		return true
	}
	if _, err := settle(ctx, c, api, crashJobs); err != nil {
		select {
		case <-p.done: // that ended the stream
		case <-waiting(c).Done():
			c.Fatalf("follow: %v", err)
		}
		return true
	}
	// The last job's end may be seen a moment before the kill that follows it.
	select {
	case <-p.done:
		return true
	case <-time.After(lastMoment):
		return false
	}
}

// recover starts the server once more and judges how everything ended.
func (c *crash) recover() {
	c.Helper()
	p, api := c.start("")
	if !c.submit(waiting(c), p, api) {
		c.Fatal("the server died without a failpoint")
	}
	h, err := settle(waiting(c), c, api, crashJobs)
	if err != nil {
		c.Fatalf("follow: %v", err)
	}
	if err := p.stop(); err != nil {
		c.Errorf("stop: %v", err)
	}
	for i := range crashJobs {
		subject := crashSubject(i)
		c.judge(subject, h)
	}
	if n := len(h.events); n != crashJobs {
		c.Errorf("%d jobs are stored, not %d", n, crashJobs)
	}
}

func (c *crash) judge(subject string, h *history) {
	c.Helper()
	state := h.state(c.ids[subject])
	effects, requests := c.receiver.Effects(subject), c.receiver.Requests(subject)
	ok := effects == 1 && state == fireoncev1.JobState_JOB_STATE_SUCCEEDED
	if !c.keyed() {
		unknown := state == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION
		ok = requests <= 1 && effects <= 1 && (unknown || ok)
	}
	if !ok {
		c.Errorf("%s is %v with %d requests and %d effects", subject, state, requests, effects)
		for _, e := range h.events[c.ids[subject]] {
			c.Logf("  #%d %v → %v %v attempt %d: %s", e.GetSequence(), e.GetOldState(), e.GetNewState(), e.GetCause(),
				e.GetAttempt().GetNumber(), e.GetDetail())
		}
	}
}

// firstLost loses the first answer for each subject.
func firstLost(r receiver.Request) receiver.Answer {
	if r.Number == 1 {
		return receiver.Reset
	}
	return receiver.Reply
}

var crashClasses = []fireoncev1.EffectClass{
	fireoncev1.EffectClass_EFFECT_CLASS_KEYED, fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE,
}

// TestCrashAtEveryPlace kills the server at every persisted boundary, at the
// first and at the third job that comes there.
func TestCrashAtEveryPlace(t *testing.T) {
	if len(failpoint.All) == 0 {
		t.Fatal("no places")
	}
	for _, place := range failpoint.All {
		for _, class := range crashClasses {
			for _, nth := range []int{1, 3} {
				at := fmt.Sprintf("%s:%d", place, nth)
				name := at + "/" + strings.TrimPrefix(class.String(), "EFFECT_CLASS_")
				t.Run(name, func(t *testing.T) { crashAt(t, place, at, nth, class) })
			}
		}
	}
}

func crashAt(t *testing.T, place, at string, nth int, class fireoncev1.EffectClass) {
	plan := firstLost
	if class == fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE && place != failpoint.LookTaken {
		plan = nil // answers that are lost by the crash alone
	}
	if place == failpoint.Swept && nth > 1 {
		t.Skip("one sweep takes all that is overdue")
	}
	c := newCrash(t, class, plan)
	if place == failpoint.Swept && !c.live(failpoint.Armed) {
		t.Fatal("nothing was left to be swept")
	}
	if !c.live(at) {
		t.Errorf("the server was not killed at %s", at)
	}
	c.recover()
}

// TestCrashTwice kills the server again while it recovers from the first kill.
func TestCrashTwice(t *testing.T) {
	for _, places := range [][2]string{
		{failpoint.Armed, failpoint.LookTaken}, {failpoint.Answered, failpoint.Armed},
		{failpoint.Answered, failpoint.Answered}, {failpoint.Claimed, failpoint.Prepared},
		{failpoint.Submitted, failpoint.Settled}, {failpoint.Armed, failpoint.Claimed},
	} {
		for _, class := range crashClasses {
			name := places[0] + " " + places[1] + "/" + strings.TrimPrefix(class.String(), "EFFECT_CLASS_")
			t.Run(name, func(t *testing.T) {
				plan := firstLost
				if class == fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE {
					plan = nil
				}
				c := newCrash(t, class, plan)
				for _, at := range places {
					// Not every pair is met in every run: the second kill is a bonus.
					t.Logf("killed at %s: %v", at, c.live(at))
				}
				c.recover()
			})
		}
	}
}

// TestKilledInMidSend kills the server while the receiver has acted on a
// request and not answered.
func TestKilledInMidSend(t *testing.T) {
	for _, class := range crashClasses {
		t.Run(strings.TrimPrefix(class.String(), "EFFECT_CLASS_"), func(t *testing.T) {
			underWay := make(chan struct{}, 1)
			var once sync.Once
			c := newCrash(t, class, func(r receiver.Request) receiver.Answer {
				answer := receiver.Reply
				once.Do(func() {
					underWay <- struct{}{}
					answer = receiver.Silence
				})
				return answer
			})
			p, api := c.start("")
			c.connection = connect(c, api, c.keyed())
			if !c.submit(waiting(c), p, api) {
				t.Fatal("the server died by itself")
			}
			select {
			case <-underWay:
			case <-waiting(c).Done():
				t.Fatal("no request came")
			}
			p.kill()
			c.recover()
		})
	}
}
