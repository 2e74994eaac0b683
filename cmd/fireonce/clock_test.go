//go:build failpoints

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// Rules of this file: real servers run with their own clock or their database's clock set
// wrong. Only the true time decides whether an effect is early, late or duplicated.

// clocked is one server at a time on one database, and a receiver.
type clocked struct {
	*testing.T
	args     []string
	dir      string
	receiver *receiver.Receiver
	process  *process
	api      *client.API
	conn     string
}

func newClocked(t *testing.T, database string, opts receiver.Options, args ...string) *clocked {
	t.Helper()
	r, err := receiver.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	dir := memdir.New(t)
	if database == "" {
		database = "sqlite:" + filepath.Join(dir, "test.db")
	}
	c := &clocked{T: t, dir: dir, receiver: r, args: append([]string{
		"--dev", "--listen", "127.0.0.1:0", "--key-file", "test.key", "--database", database, "--grace", "1s", "--lease", "2s",
	}, args...)}
	t.Cleanup(c.kill)
	return c
}

// start starts the server with an environment and further arguments.
func (c *clocked) start(env []string, args ...string) {
	c.Helper()
	binary, err := crashBinary()
	if err != nil {
		c.Fatal(err)
	}
	env = append(append(os.Environ(), "FIREONCE_CLOCK_SYNCHRONIZED=false"), env...)
	if c.process, err = startProcess(binary, c.dir, env, append(c.args, args...)...); err != nil {
		c.Fatal(err)
	}
	c.api = dial(c, c.process.url)
	if c.conn == "" {
		c.conn = connect(c, c.api, true)
	}
}

func (c *clocked) kill() {
	if c.process != nil {
		c.process.Kill()
		c.process = nil
	}
}

// set moves on to the next offset of FIREONCE_CLOCK_OFFSET.
func (c *clocked) set() {
	c.Helper()
	if err := c.process.Signal(syscall.SIGUSR1); err != nil {
		c.Fatal(err)
	}
}

// answerTime is long enough that even a busy machine has all jobs of a test under way before
// the first of them is repeated.
const answerTime = 10 * time.Second

// schedule submits a job for a time; zero: now.
func (c *clocked) schedule(subject string, at time.Time) string {
	c.Helper()
	req := hook(c.conn, subject, c.receiver.URL(subject), answerTime)
	if !at.IsZero() {
		req.ScheduleTime = timestamppb.New(at)
	}
	resp, err := c.api.Jobs.ScheduleJob(waiting(c), req)
	if err != nil {
		c.Fatal(err)
	}
	return resp.GetJob().GetJobId()
}

func (c *clocked) job(id string) *fireoncev1.Job {
	c.Helper()
	resp, err := c.api.Jobs.GetJob(waiting(c), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
	if err != nil {
		c.Fatal(err)
	}
	return resp.GetJob()
}

// ends waits until n jobs in all are at rest.
func (c *clocked) ends(n int) *history {
	c.Helper()
	h, err := settle(waiting(c), c, c.api, n)
	if err != nil {
		c.Fatalf("%v; still under way:\n%s%s", err, h.undone(), c.process.logs())
	}
	return h
}

const (
	doubtStands = "THE TIME IS IN DOUBT"
	doubtGoesOn = "the clock has jumped"
	believes    = "the clock is believed again"
)

// TestAClockThatWasAheadLeavesNoMark checks that a clock that was an hour ahead for a moment
// starts no job of the next hour, and has no effect on the jobs that were served meanwhile, in
// this process or the next.
func TestAClockThatWasAheadLeavesNoMark(t *testing.T) {
	t.Parallel()
	c := newClocked(t, "", receiver.Options{Dedupes: true})
	c.start([]string{"FIREONCE_CLOCK_OFFSET=0s,1h,0s"})
	later := c.schedule("later", time.Now().Add(10*time.Minute))
	c.schedule("before", time.Time{})
	c.ends(1)
	c.set()
	c.process.says(t, doubtGoesOn)
	c.schedule("meanwhile", time.Time{})
	c.ends(2)
	c.set()
	c.process.says(t, believes)
	c.schedule("after", time.Time{})
	c.ends(3)
	c.kill()
	c.start(nil)
	c.schedule("next", time.Time{})
	c.ends(4)
	if j := c.job(later); j.GetState() != fireoncev1.JobState_JOB_STATE_SCHEDULED || c.receiver.Requests("later") > 0 {
		t.Errorf("the job for in ten minutes is %v", j.GetState())
	}
	if strings.Contains(c.process.logs(), "clock") {
		t.Errorf("the next process doubts:\n%s", c.process.logs())
	}
}

// TestAClockThatStaysAheadIsBelieved checks that a clock that stays an hour ahead is trusted after
// the bound.
func TestAClockThatStaysAheadIsBelieved(t *testing.T) {
	t.Parallel()
	c := newClocked(t, "", receiver.Options{Dedupes: true}, "--clock-doubt", "2s")
	c.start([]string{"FIREONCE_CLOCK_OFFSET=0s,1h"})
	c.schedule("soon", time.Now().Add(30*time.Minute))
	c.set()
	c.process.says(t, doubtGoesOn)
	c.process.says(t, believes)
	c.ends(1)
}

// TestASynchronizedClockIsBelieved checks that a clock that the kernel considers synchronized is
// trusted immediately.
func TestASynchronizedClockIsBelieved(t *testing.T) {
	t.Parallel()
	c := newClocked(t, "", receiver.Options{Dedupes: true})
	c.start([]string{"FIREONCE_CLOCK_OFFSET=0s,1h", "FIREONCE_CLOCK_SYNCHRONIZED=true"})
	c.schedule("soon", time.Now().Add(30*time.Minute))
	c.set()
	c.process.says(t, believes)
	c.ends(1)
}

const crashedKeys = 10

// crashed starts ten jobs that take effect without an answer, and kills the server.
func crashed(t *testing.T, database string) *clocked {
	t.Helper()
	var acted sync.WaitGroup
	acted.Add(crashedKeys)
	c := newClocked(t, database, receiver.Options{Dedupes: true, Plan: func(r receiver.Request) receiver.Answer {
		if r.Number > 1 || !strings.HasPrefix(r.Subject, "job-") {
			return receiver.Reply
		}
		acted.Done()
		return receiver.Silence
	}})
	c.start(nil)
	for i := range crashedKeys {
		c.schedule(subjectOf(i), time.Time{})
	}
	acted.Wait()
	c.kill()
	return c
}

// repeats counts the jobs whose request was repeated.
func (c *clocked) repeats() (n int) {
	for i := range crashedKeys {
		if c.receiver.Requests(subjectOf(i)) > 1 {
			n++
		}
	}
	return n
}

// TestAnEarlierTimeAtTheStartRepeatsNoKey checks a machine that starts with an earlier time: it does
// not know the age of the keys that it has sent, so it repeats none of them.
func TestAnEarlierTimeAtTheStartRepeatsNoKey(t *testing.T) {
	t.Parallel()
	c := crashed(t, "")
	// The clock is suspect for longer than it takes to submit and read a job. The waiting job
	// is due when the time at which it was submitted comes again.
	c.start([]string{"FIREONCE_CLOCK_OFFSET=-40s", "FIREONCE_BOOT_ID=another"}, "--clock-doubt", "15s")
	c.process.says(t, doubtStands)
	waits := c.schedule("waits", time.Time{})
	if j := c.job(waits); !strings.Contains(j.GetBlockedReason().GetMessage(), "until the time is believed again") {
		t.Errorf("%v, blocked: %q", j.GetState(), j.GetBlockedReason().GetMessage())
	}
	c.process.says(t, believes)
	h := c.ends(crashedKeys + 1)
	c.asksForEachKey(h, waits)
}

// asksForEachKey fails the test unless no request of crashed was repeated, each of their jobs waits
// for a person, and a job that was submitted while the clock was suspect has succeeded.
func (c *clocked) asksForEachKey(h *history, waits string) {
	c.Helper()
	if n := c.repeats(); n > 0 {
		c.Errorf("%d of %d requests were repeated", n, crashedKeys)
	}
	unsure := 0
	for id := range h.events {
		if h.state(id) == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION {
			unsure++
		}
	}
	if unsure != crashedKeys || h.state(waits) != fireoncev1.JobState_JOB_STATE_SUCCEEDED || c.receiver.Requests("waits") != 1 {
		c.Errorf("%d of %d jobs ask a person, and the other one is %v after %d requests",
			unsure, crashedKeys, h.state(waits), c.receiver.Requests("waits"))
	}
}

// TestAnEarlierTimeInOneRunOfTheMachineIsSeenThrough checks that the boot clock shows the age of the
// keys if the machine was not restarted.
func TestAnEarlierTimeInOneRunOfTheMachineIsSeenThrough(t *testing.T) {
	t.Parallel()
	c := crashed(t, "")
	c.start([]string{"FIREONCE_CLOCK_OFFSET=-110s"})
	c.process.says(t, doubtGoesOn)
	c.ends(crashedKeys)
	if n := c.repeats(); n != crashedKeys {
		t.Errorf("%d of %d requests were repeated", n, crashedKeys)
	}
}

// TestAStepMovesNoLook kills a server while a post is on its way. The clock of the next server is an
// hour off, and it trusts that clock. The look still waits until the post can no longer take effect,
// by the true time and no longer, and finds the post.
func TestAStepMovesNoLook(t *testing.T) {
	long(t)
	t.Parallel()
	for _, offset := range []string{"1h", "-1h"} {
		t.Run(offset, func(t *testing.T) {
			t.Parallel()
			lookAfterAStep(t, offset)
		})
	}
}

func lookAfterAStep(t *testing.T, offset string) {
	t.Helper()
	const timeout = 20 * time.Second
	var posted atomic.Int64 // when the post came, in Unix microseconds
	reached, leave := make(chan struct{}), make(chan struct{})
	var early atomic.Int64
	to := startPosts(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
		switch {
		case r.Method == http.MethodPost && r.Number == 1:
			posted.Store(time.Now().UnixMicro())
			close(reached)
			<-leave
			return feedtest.Reset
		case posted.Load() != 0 && time.Since(time.UnixMicro(posted.Load())) < timeout/2:
			early.Add(1)
		}
		return feedtest.Reply
	}})
	let := sync.OnceFunc(func() { close(leave) })
	t.Cleanup(let)
	c := newClocked(t, "", receiver.Options{Dedupes: true}, "--clock-doubt", "2s")
	c.start(nil)
	made, err := c.api.Connections.CreateConnection(waiting(t), &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "posts", Connection: to.connection(),
	})
	if err != nil {
		t.Fatal(err)
	}
	req := jobFor(to, made.GetConnection().GetConnectionId(), "post")
	req.AttemptTimeout = durationpb.New(timeout)
	if _, err := c.api.Jobs.ScheduleJob(waiting(t), req); err != nil {
		t.Fatal(err)
	}
	<-reached
	c.kill()
	c.start([]string{"FIREONCE_CLOCK_OFFSET=" + offset})
	c.process.says(t, doubtGoesOn)
	c.process.says(t, believes)
	let()
	h := c.ends(1)
	if n := early.Load(); n > 0 {
		t.Errorf("the platform was asked %d times while the post could still take effect", n)
	}
	for id := range h.events {
		if h.state(id) != fireoncev1.JobState_JOB_STATE_SUCCEEDED || to.Effects("post") != 1 || to.Requests("post") != 1 {
			t.Errorf("the job is %v, with %d posts of %d requests", h.state(id), to.Effects("post"), to.Requests("post"))
		}
	}
}

// TestADowntimeAndAnOperatorsWord checks that a downtime does not make the clock suspect, and that
// an operator's command makes a suspect clock trusted.
func TestADowntimeAndAnOperatorsWord(t *testing.T) {
	t.Parallel()
	c := crashed(t, "")
	c.start([]string{"FIREONCE_CLOCK_OFFSET=1m", "FIREONCE_BOOT_ID=another"})
	c.ends(crashedKeys)
	if logs := c.process.logs(); strings.Contains(logs, doubtStands) || c.repeats() != crashedKeys {
		t.Errorf("%d repeats, and it said:\n%s", c.repeats(), logs)
	}
	c.kill()
	c.start([]string{"FIREONCE_CLOCK_OFFSET=-1h", "FIREONCE_BOOT_ID=a third"}, "--trust-clock")
	c.process.says(t, believes)
	c.schedule("trusted", time.Time{})
	c.ends(crashedKeys + 1)
}

// clockedPostgres is a database whose server's clock can be set.
func clockedPostgres(t *testing.T) (url string, clock *pgtest.Clock) {
	t.Helper()
	cluster, clock := pgtest.StartWithClock(t, pgtest.Options{})
	return cluster.URL(cluster.NewDatabase(t)), clock
}

// TestADatabaseClockThatWasAheadStartsNothing checks a database whose clock is an hour ahead for a
// moment: no job starts meanwhile, and all jobs continue once the clock is right again.
func TestADatabaseClockThatWasAheadStartsNothing(t *testing.T) {
	t.Parallel()
	url, clock := clockedPostgres(t)
	c := newClocked(t, url, receiver.Options{Dedupes: true})
	c.start(nil)
	later := c.schedule("later", time.Now().Add(10*time.Minute))
	c.schedule("before", time.Time{})
	c.ends(1)
	clock.Set(t, time.Hour)
	c.process.says(t, doubtStands)
	waits := c.schedule("waits", time.Time{})
	if j := c.job(waits); j.GetState() != fireoncev1.JobState_JOB_STATE_SCHEDULED {
		t.Errorf("a job is %v while the time is in doubt", j.GetState())
	}
	clock.Set(t, 0)
	c.process.says(t, believes)
	c.ends(2)
	c.kill()
	c.start(nil)
	c.schedule("next", time.Time{})
	c.ends(3)
	if j := c.job(later); j.GetState() != fireoncev1.JobState_JOB_STATE_SCHEDULED || c.receiver.Requests("later") > 0 {
		t.Errorf("the job for in ten minutes is %v", j.GetState())
	}
}

// TestADatabaseClockThatStaysBehindIsBelieved checks a failover to a machine whose clock is an hour
// behind: the clock is trusted after the bound, and the jobs that were served before continue.
func TestADatabaseClockThatStaysBehindIsBelieved(t *testing.T) {
	t.Parallel()
	url, clock := clockedPostgres(t)
	c := newClocked(t, url, receiver.Options{Dedupes: true}, "--clock-doubt", "3s")
	c.start(nil)
	c.schedule("before", time.Time{})
	c.ends(1)
	clock.Set(t, -time.Hour)
	c.process.says(t, doubtStands)
	c.process.says(t, believes)
	c.schedule("after", time.Time{})
	c.ends(2)
}

// TestADatabaseClockThatIsSetRightIsBelieved checks a database whose clock was wrong and is set
// right: it then agrees with the clock of this machine, which is a different machine.
func TestADatabaseClockThatIsSetRightIsBelieved(t *testing.T) {
	t.Parallel()
	url, clock := clockedPostgres(t)
	clock.Set(t, time.Hour)
	c := newClocked(t, url, receiver.Options{Dedupes: true})
	c.start(nil)
	c.schedule("before", time.Time{})
	c.ends(1)
	clock.Set(t, 0)
	c.process.says(t, doubtStands)
	c.process.says(t, "this machine's clock agrees")
	c.schedule("after", time.Time{})
	c.ends(2)
}

// TestAnEarlierTimeOfTheDatabaseRepeatsNoKey checks a database that starts with an earlier time
// while no server runs.
func TestAnEarlierTimeOfTheDatabaseRepeatsNoKey(t *testing.T) {
	t.Parallel()
	url, clock := clockedPostgres(t)
	c := crashed(t, url)
	clock.Set(t, -110*time.Second)
	c.start(nil, "--clock-doubt", "3s")
	c.process.says(t, doubtStands)
	waits := c.schedule("waits", time.Time{})
	c.process.says(t, believes)
	c.asksForEachKey(c.ends(crashedKeys+1), waits)
}

// TestServersFollowADatabaseClockTogether checks that two servers on one database react once to a
// change of its clock.
func TestServersFollowADatabaseClockTogether(t *testing.T) {
	t.Parallel()
	url, clock := clockedPostgres(t)
	servers := make([]*clocked, 2)
	for i := range servers {
		servers[i] = newClocked(t, url, receiver.Options{Dedupes: true}, "--clock-doubt", "3s")
		if i > 0 {
			servers[i].dir, servers[i].conn = servers[0].dir, servers[0].conn
		}
		servers[i].start(nil)
	}
	clock.Set(t, time.Hour)
	for _, s := range servers {
		s.process.says(t, doubtStands)
	}
	for _, s := range servers {
		s.process.says(t, believes)
	}
	for i, s := range servers {
		s.schedule(fmt.Sprintf("by-%d", i), time.Time{})
	}
	servers[0].ends(2)
}
