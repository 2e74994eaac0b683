//go:build failpoints

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

// backup is a way to back up a database and to restore it. Both happen while no server
// runs, unless live is set.
type backup struct {
	name string
	on   deployment
	live bool // it is restored under running servers
	// whole is a base backup of the whole cluster, which is restored without an archive.
	whole bool
}

var backups = []backup{
	{name: "sqlite file", on: onSQLite}, {name: "postgres dump", on: onPostgres},
	{name: "postgres dump, servers running", on: onPostgres, live: true},
	{name: "postgres base backup", on: onPostgres, whole: true},
}

// beforeDue is how far ahead the jobs are scheduled that are unsent in a backup: enough
// time to schedule them and to back up the database, even on a busy machine.
const beforeDue = 30 * time.Second

// TestRestored sends jobs, and then restores the database to a state from before. No job
// may be sent until an operator has decided about them.
func TestRestored(t *testing.T) {
	t.Parallel()
	for _, b := range backups {
		for _, as := range []string{"hold", "retry"} {
			t.Run(b.name+"/"+as, func(t *testing.T) {
				t.Parallel()
				restored(t, b, as)
			})
		}
	}
}

func restored(t *testing.T, b backup, as string) {
	to := startHooks(t, true, nil)
	var url string
	var aside func() (back func())
	switch {
	case b.whole:
		cluster := pgtest.Start(t, pgtest.Options{})
		url = cluster.URL(cluster.NewDatabase(t))
		aside = func() func() {
			restore := cluster.BaseBackup(t)
			return func() {
				cluster.Stop(t, pgtest.Fast)
				restore()
				cluster.Start(t)
			}
		}
	case b.on == onPostgres:
		cluster := pgtest.Shared(t)
		database := cluster.NewDatabase(t)
		url = cluster.URL(database)
		aside = func() func() {
			dump := cluster.Dump(t, database)
			return func() { cluster.Restore(t, database, dump) }
		}
	default:
		url = b.on.database(t)
		aside = func() func() { return copyAside(t, strings.TrimPrefix(url, "sqlite:")) }
	}
	c := newCrash(t, b.on, url, fireoncev1.EffectClass_EFFECT_CLASS_KEYED, to)
	c.jobs = 3
	c.start()
	c.connection = c.connect(to.connection())
	var cursor string
	for i := range c.jobs {
		req := jobFor(to, c.connection, subjectOf(i))
		req.ScheduleTime = timestamppb.New(time.Now().Add(beforeDue))
		resp, err := c.schedule(i, req)
		if err != nil {
			t.Fatal(err)
		}
		c.ids[subjectOf(i)] = resp.GetJob().GetJobId()
	}
	cursor = c.cursor(subjectOf(0))
	c.stop()
	since := time.Now()
	back := aside()
	if n := requestsOf(to, c.jobs); n != 0 {
		t.Fatalf("%d requests before the backup", n)
	}
	c.start()
	c.settle(c.jobs)
	if n := requestsOf(to, c.jobs); n != c.jobs {
		t.Fatalf("%d requests before the restore", n)
	}
	if !b.live {
		c.stop()
	}
	back()
	c.start()
	c.quarantined(cursor, !b.live)

	// A job that is submitted during the quarantine waits for its end.
	late := jobFor(to, c.connection, "late")
	resp, err := c.schedule(0, late)
	if err != nil || !resp.GetCreated() {
		t.Fatalf("a submit during the quarantine: %v, %v", resp, err)
	}
	c.ids["late"] = resp.GetJob().GetJobId()
	if b.on == onSQLite {
		c.stop()
	}
	out, code := command(t, "recover", "--database", url, "--since", since.Format(time.RFC3339Nano), "--as", as)
	if code != 0 || !strings.Contains(out, "is released") {
		t.Fatalf("recover: exit %d\n%s", code, out)
	}
	if b.on == onSQLite {
		c.start()
	}
	h := c.settle(c.jobs + 1)
	c.stop()
	c.judgeRestored(h, as)
}

// judgeRestored checks how the jobs of a restored database ended.
func (c *crash) judgeRestored(h *history, as string) {
	c.Helper()
	want, requests, fresh := fireoncev1.JobState_JOB_STATE_SUCCEEDED, 2, 1
	if as == "hold" {
		// Jobs since the time of the backup are held too: a clock cannot distinguish them
		// from jobs that the backup just missed.
		want, requests, fresh = fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION, 1, 0
	}
	for i := range c.jobs {
		subject := subjectOf(i)
		if got := h.state(c.ids[subject]); got != want || c.to.Requests(subject) != requests || c.to.Effects(subject) != 1 {
			c.Errorf("%s is %v with %d requests and %d effects", subject, got, c.to.Requests(subject), c.to.Effects(subject))
		}
	}
	if got := h.state(c.ids["late"]); got != want || c.to.Requests("late") != fresh {
		c.Errorf("a job of the quarantine is %v with %d requests", got, c.to.Requests("late"))
	}
	c.Logf("%d jobs sent, restored, and %v; %d requests, %d effects", c.jobs, want, requestsOf(c.to, c.jobs), c.jobs)
}

// cursor returns the present position of the log.
func (c *crash) cursor(subject string) string {
	c.Helper()
	_, api, err := c.from(waiting(c), 0)
	if err != nil {
		c.Fatal(err)
	}
	resp, err := api.Jobs.GetJob(waiting(c), &fireoncev1.GetJobRequest{
		Job: &fireoncev1.GetJobRequest_JobId{JobId: c.ids[subject]},
	})
	if err != nil {
		c.Fatal(err)
	}
	return resp.GetEventsCursor()
}

// quarantined checks that the servers report the quarantine everywhere, that cursors from
// before are refused, and that no job has been sent.
func (c *crash) quarantined(cursor string, started bool) {
	c.Helper()
	for i := range c.slots {
		p := c.at(i)
		if started {
			p.says(c, "QUARANTINED: nothing will be sent")
			if !strings.Contains(p.line, "QUARANTINED") {
				c.Errorf("the ready line is %q", p.line)
			}
		}
		api := dial(c, p.url)
		var stats *adminv1.GetStatsResponse
		for stats == nil {
			got, err := api.Stats.GetStats(waiting(c), &adminv1.GetStatsRequest{})
			switch {
			case err == nil:
				stats = got
			case final(err): // a server recovers after a restore has cut its sessions
				c.Fatal(err)
			}
		}
		if stats.GetQuarantineReason() == "" {
			c.Errorf("GetStats gives no reason")
		}
		stream, err := api.Jobs.StreamJobEvents(waiting(c), &fireoncev1.StreamJobEventsRequest{
			Start: &fireoncev1.StreamJobEventsRequest_AfterCursor{AfterCursor: cursor},
		})
		if err == nil {
			for stream.Receive() {
				c.Errorf("a cursor from before gave %v", stream.Msg())
			}
			err = stream.Err()
		}
		if reasonOf(err) != fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED {
			c.Errorf("a cursor from before: %v", err)
		}
	}
	if n := requestsOf(c.to, c.jobs); n != c.jobs {
		c.Errorf("%d requests for %d jobs in the quarantine", n, c.jobs)
	}
}

// copyAside copies a file that no process uses, and returns a function that restores the copy.
func copyAside(t *testing.T, path string) (back func()) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		// As a person does it: the copy replaces the file.
		if err := os.WriteFile(path+".copy", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".copy", path); err != nil {
			t.Fatal(err)
		}
	}
}
