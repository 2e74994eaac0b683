//go:build failpoints

package main

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// TestRepeatedBeforeTheFence kills a server in mid-send whose fences are an hour away. So a
// job that ends in this test was repeated early. A job whose receiver does not dedupe in
// flight must not be repeated.
func TestRepeatedBeforeTheFence(t *testing.T) {
	t.Parallel()
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			const inFlight, plain = "in-flight", "plain"
			underWay := make(chan string, 2)
			hooks := startHooks(t, true, func(r receiver.Request) receiver.Answer {
				if r.Number > 1 {
					return receiver.Reply
				}
				underWay <- r.Subject
				return receiver.Silence // after the effect
			})
			f := newFleet(t, d, "", "--grace", "1h")
			f.startFirst(1)
			ids := make(map[string]string)
			for _, subject := range []string{inFlight, plain} {
				conn := hooks.connection()
				conn.GetWebhook().KeyWindow = durationpb.New(24 * time.Hour)
				conn.GetWebhook().DedupesInFlight = subject == inFlight
				ids[subject] = f.scheduleOn(conn, hooks, subject)
			}
			for range ids {
				select {
				case <-underWay:
				case <-waiting(t).Done():
					t.Fatal("a request did not come")
				}
			}
			f.at(0).Kill()
			f.startFirst(1)
			f.read(func(_ *history, e *fireoncev1.JobChanged) bool {
				return e.GetJobId() == ids[inFlight] && e.GetNewState() == fireoncev1.JobState_JOB_STATE_SUCCEEDED
			})
			if n := hooks.Requests(inFlight); n != 2 || hooks.Effects(inFlight) != 1 {
				t.Errorf("%d requests, %d effects where the receiver dedupes in flight", n, hooks.Effects(inFlight))
			}
			if n := hooks.Requests(plain); n != 1 || hooks.Effects(plain) != 1 {
				t.Errorf("%d requests, %d effects where it does not", n, hooks.Effects(plain))
			}
			f.isFenced(ids[plain])
		})
	}
}

// scheduleOn schedules a job on a connection of its own.
func (f *fleet) scheduleOn(conn *connectionsv1.Connection, to target, subject string) string {
	f.Helper()
	ctx := waiting(f.T)
	_, api, err := f.from(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	made, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{IdempotencyKey: subject, Connection: conn})
	if err != nil {
		f.Fatal(err)
	}
	req := jobFor(to, made.GetConnection().GetConnectionId(), subject)
	req.AttemptTimeout = durationpb.New(30 * time.Second)
	job, err := api.Jobs.ScheduleJob(ctx, req)
	if err != nil {
		f.Fatal(err)
	}
	return job.GetJob().GetJobId()
}

// isFenced checks that a job waits for its fence in SENDING.
func (f *fleet) isFenced(id string) {
	f.Helper()
	ctx := waiting(f.T)
	_, api, err := f.from(ctx, 0)
	if err != nil {
		f.Fatal(err)
	}
	got, err := api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
	if err != nil {
		f.Fatal(err)
	}
	if j := got.GetJob(); j.GetState() != fireoncev1.JobState_JOB_STATE_SENDING {
		f.Errorf("%v before its fence", j.GetState())
	}
}
