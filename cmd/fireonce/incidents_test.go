package main

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/manyjobs"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store/storetest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// incidentJobs is how many jobs the receiver of TestIncidentIsDecided loses the answers of.
const incidentJobs = 300

// TestIncidentIsDecided: a receiver acts on each request and loses each answer, so the outcome of every
// job is unknown, and no look can find it. Three commands find that as one incident, explain it, and
// decide it, for the jobs that were shown: one that a person decided meanwhile stays as it is.
// FIREONCE_INCIDENT_JOBS is another number of jobs, and FIREONCE_INCIDENT_OTHERS one of ended jobs at 50
// other connections beside them. Then it prints the time and the output of each command, and the most
// memory that the server has had by its end.
func TestIncidentIsDecided(t *testing.T) {
	jobs, measured, others := incidentJobs, os.Getenv("FIREONCE_INCIDENT_JOBS"), 0
	if measured != "" {
		var err error
		if jobs, err = strconv.Atoi(measured); err != nil {
			t.Fatal(err)
		}
		others, _ = strconv.Atoi(os.Getenv("FIREONCE_INCIDENT_OTHERS"))
	}
	onEach(t, func(t *testing.T, d deployment) {
		if measured == "" {
			t.Parallel()
		}
		binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
		if err != nil {
			t.Fatal(err)
		}
		r, err := receiver.Start(receiver.Options{Plan: func(receiver.Request) receiver.Answer { return receiver.Reset }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		dir, database := memdir.New(t), d.database(t)
		// A circuit breaker would send one of these jobs in ten minutes.
		serve := func() *process {
			p, err := startProcess(binary, dir, os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--shutdown-delay", "0s",
				"--database", database, "--key-file", "key", "--breaker-after", "0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Kill)
			return p
		}
		p := serve()
		loseAnswers(t, p, r, jobs)
		if others > 0 {
			f := storetest.SearchFixture{Jobs: others, Connections: otherConnections(t, p), Now: time.Now(), Ended: true}
			if err := p.Stop(patience); err != nil {
				t.Fatal(err)
			}
			if file, ok := strings.CutPrefix(database, "sqlite:"); ok {
				manyjobs.SQLite(t, file, f)
			} else {
				u, err := url.Parse(database)
				if err != nil {
					t.Fatal(err)
				}
				manyjobs.PostgreSQL(t, pgtest.Shared(t).AdminURL(strings.TrimPrefix(u.Path, "/")), f)
			}
			p = serve()
		}

		run := func(args ...string) string {
			t.Helper()
			cmd := exec.Command(binary, append([]string{"incidents"}, args...)...)
			cmd.Env = append(os.Environ(), "FIREONCE_SERVER="+p.url)
			began := time.Now()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("fireonce incidents %s: %v\n%s", strings.Join(args, " "), err, out)
			}
			if measured != "" {
				fmt.Fprintf(os.Stderr, "%-8s  %5d beside %7d jobs  %6d ms  server %s  $ fireonce incidents %s\n%.4000s\n",
					d.name, jobs, others, time.Since(began).Milliseconds(), mostMemory(p), strings.Join(args, " "), out)
			}
			t.Logf("fireonce incidents %s\n%s", strings.Join(args, " "), out)
			return string(out)
		}
		all := strconv.Itoa(jobs)
		list := run()
		id := regexp.MustCompile(`inc_[a-z2-7]{16}`).FindString(list)
		expect(t, list, id+"  UNKNOWN: "+all+" jobs may have been sent, and there is no proof: no complete answer arrived$", "keys: job-[0-9]{5}, job-[0-9]{5}, job-[0-9]{5} and "+strconv.Itoa(jobs-3)+" more$")
		expect(t, run("get", id), "^UNKNOWN: "+all+" jobs may have been sent", "Jobs +"+all+" jobs: all NEEDS_RESOLUTION, all OPAQUE",
			"no look at "+all+" jobs was made", "Next +no look will come", "and "+strconv.Itoa(jobs-20)+" more", "sent again: if the first request acted")
		plan := run("resolve", id, "--decision", "sent", "--note", "the receiver's own list has them all")
		expect(t, plan, all+" of "+all+" jobs would change", "would change: job-[0-9]{5}$", "and "+strconv.Itoa(jobs-20)+" more$", "  sent +nothing more is sent", "Nothing was changed")
		alone := decideAlone(t, p, "job-00007")
		done := run("resolve", "--confirm", regexp.MustCompile(`--confirm ([0-9a-f-]{36})`).FindStringSubmatch(plan)[1])
		expect(t, done, strconv.Itoa(jobs-1)+" of "+all+" jobs changed", "^Left out after all, because they have changed since or do not allow it: 1; ")
		expect(t, run("list", "--kind", "unknown"), "No incidents")

		states := map[fireoncev1.JobState]int{}
		for _, j := range stored(t, p, jobs) {
			states[j.GetState()]++
			if j.GetIdempotencyKey() == alone.GetIdempotencyKey() && j.GetSequence() != alone.GetSequence() {
				t.Errorf("the plan changed %s, which it did not list as it is: %v", alone.GetIdempotencyKey(), j)
			}
		}
		if states[fireoncev1.JobState_JOB_STATE_SUCCEEDED] != jobs-1 || states[fireoncev1.JobState_JOB_STATE_CANCELED] != 1 {
			t.Errorf("%v, want %d SUCCEEDED and 1 CANCELED", states, jobs-1)
		}
		if got := r.Totals(); got.Requests != jobs || got.Duplicates != 0 {
			t.Errorf("the receiver: %+v, want each of %d requests once", got, jobs)
		}
	})
}

// expect compares a command's output with patterns.
func expect(t *testing.T, out string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(out) {
			t.Errorf("no %q in:\n%s", pattern, out)
		}
	}
}

// loseAnswers schedules jobs for a receiver, in batches, and waits until each needs a person.
func loseAnswers(t *testing.T, p *process, r *receiver.Receiver, jobs int) {
	t.Helper()
	const batch = 500
	api := dial(t, p.url)
	connection := connect(t, api, false)
	due := timestamppb.New(time.Now())
	for made := 0; made < jobs; made += batch {
		req := &fireoncev1.BatchScheduleJobsRequest{}
		for i := made; i < min(made+batch, jobs); i++ {
			key := fmt.Sprintf("job-%05d", i)
			one := hook(connection, key, r.URL(key), 10*time.Second)
			one.ScheduleTime = due
			req.Requests = append(req.Requests, one)
		}
		resp, err := api.Jobs.BatchScheduleJobs(waiting(t), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range resp.GetResults() {
			if one.GetSuccess() == nil {
				t.Fatal(one)
			}
		}
	}
	h, err := settle(t.Context(), t, api, jobs)
	if err != nil {
		t.Fatal(err)
	}
	for id := range h.events {
		if state := h.state(id); state != fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION {
			t.Fatalf("job %s is %v", id, state)
		}
	}
}

// decideAlone decides one job as a person does who looks at it alone.
func decideAlone(t *testing.T, p *process, key string) *fireoncev1.Job {
	t.Helper()
	api := dial(t, p.url)
	got, err := api.Jobs.GetJob(waiting(t), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: key}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := api.Jobs.ResolveJob(waiting(t), &fireoncev1.ResolveJobRequest{
		Job: &fireoncev1.ResolveJobRequest_IdempotencyKey{IdempotencyKey: key}, Etag: got.GetJob().GetEtag(),
		Decision: fireoncev1.Resolution_DECISION_CANCEL, Note: "not wanted any more",
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetJob()
}

// otherConnections makes those of storetest.SearchFixture.
func otherConnections(t *testing.T, p *process) (out []job.ID) {
	t.Helper()
	api := dial(t, p.url)
	for i := range 50 {
		resp, err := api.Connections.CreateConnection(waiting(t), &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: fmt.Sprintf("other-%d", i), Connection: &connectionsv1.Connection{
				Connector: "webhook",
				Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
					ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO,
				}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		id, err := job.ParseID(resp.GetConnection().GetConnectionId())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, id)
	}
	return out
}

// mostMemory is the most resident memory that a process has had, where Linux shows it.
func mostMemory(p *process) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	found := regexp.MustCompile(`VmHWM:\s+([0-9]+) kB`).FindSubmatch(status)
	if err != nil || found == nil {
		return "? MB"
	}
	kb, _ := strconv.Atoi(string(found[1]))
	return fmt.Sprintf("%d MB", kb>>10)
}

// stored reads all jobs of the receiver.
func stored(t *testing.T, p *process, jobs int) (out []*fireoncev1.Job) {
	t.Helper()
	api, req := dial(t, p.url), &fireoncev1.ListJobsRequest{PageSize: 500, Filter: &fireoncev1.JobFilter{ConnectionKeys: []string{"test"}}}
	for {
		page, err := api.Jobs.ListJobs(waiting(t), req)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page.GetJobs()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	if len(out) != jobs {
		t.Errorf("%d jobs are stored, want %d", len(out), jobs)
	}
	return out
}
