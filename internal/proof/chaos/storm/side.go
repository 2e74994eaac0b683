package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
)

const (
	clients = 8
	// together is how many jobs one call submits.
	together = 100
	// askEach is how often a server is asked how far it is.
	askEach = 100 * time.Millisecond
	// longest bounds the end of one part.
	longest = 10 * time.Minute
)

// side is one server, and what was measured of it.
type side struct {
	name       string
	to         *receivers
	fleet      *fleet.Fleet
	memory     *meter.Memory
	connection string
	// subscription is empty on the side without one.
	subscription string
	jobs         int // submitted so far

	submits, ends []float64 // a second, by part
}

func newSide(name string, to *receivers, o fleet.Options) *side {
	return &side{name: name, to: to, fleet: fleet.New(o), memory: meter.NewMemory()}
}

// start starts the server, and makes the subscription.
func (s *side) start(ctx context.Context, subscribes bool) error {
	if err := s.fleet.Start(ctx, 0, fleet.Life{}); err != nil {
		return err
	}
	connect := func(key, callback string) (id string, err error) {
		err = s.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
			resp, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
				IdempotencyKey: key, Connection: &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{
					Webhook: &connectionsv1.WebhookSettings{
						ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(24 * time.Hour),
						DedupesInFlight: true, CallbackUrl: callback,
					},
				}},
			})
			id = resp.GetConnection().GetConnectionId()
			return err
		})
		return id, err
	}
	var err error
	if s.connection, err = connect("jobs", ""); err != nil || !subscribes {
		return err
	}
	told, err := connect("told", s.to.http.URL+toldPath)
	if err != nil {
		return err
	}
	return s.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Subscriptions.CreateSubscription(ctx, &subscriptionsv1.CreateSubscriptionRequest{
			IdempotencyKey: "told", Connection: &subscriptionsv1.CreateSubscriptionRequest_ConnectionId{ConnectionId: told},
		})
		s.subscription = resp.GetSubscription().GetSubscriptionId()
		return err
	})
}

// part submits jobs and waits until all have failed.
func (s *side) part(ctx context.Context, jobs int) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	sampling, enough := context.WithCancel(ctx)
	var samples sync.WaitGroup
	samples.Go(func() { s.samples(sampling) })
	defer samples.Wait()
	defer enough()
	begun := time.Now()
	if err := s.submit(ctx, jobs); err != nil {
		return err
	}
	s.submits = append(s.submits, float64(jobs)/time.Since(begun).Seconds())
	s.jobs += jobs
	for {
		open, err := s.open(ctx)
		if err != nil {
			return err
		}
		if open == 0 {
			break
		}
		if fleet.Pause(ctx, askEach); ctx.Err() != nil {
			return fmt.Errorf("%d of %d jobs have not ended: %w", open, s.jobs, ctx.Err())
		}
	}
	s.ends = append(s.ends, float64(jobs)/time.Since(begun).Seconds())
	return nil
}

func (s *side) submit(ctx context.Context, jobs int) error {
	errs := make([]error, clients)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for from := c * together; from < jobs && errs[c] == nil; from += clients * together {
				errs[c] = s.batch(ctx, s.jobs+from, s.jobs+min(from+together, jobs))
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *side) batch(ctx context.Context, from, to int) error {
	req := &fireoncev1.BatchScheduleJobsRequest{}
	for i := from; i < to; i++ {
		req.Requests = append(req.Requests, &fireoncev1.ScheduleJobRequest{
			IdempotencyKey: fmt.Sprint("job-", i), Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: s.connection},
			Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
				Url: s.to.http.URL + jobPath + s.name, Content: &fireoncev1.Webhook_BodyText{BodyText: "{}"},
			}}},
		})
	}
	return s.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Jobs.BatchScheduleJobs(ctx, req)
		for _, r := range resp.GetResults() {
			if e := r.GetError(); e != nil {
				return errors.New(e.GetMessage())
			}
		}
		return err
	})
}

// open counts the jobs that have not ended. GetStats is older by seconds.
func (s *side) open(ctx context.Context) (n int64, err error) {
	err = s.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Stats.CountJobs(ctx, &adminv1.CountJobsRequest{Filter: &fireoncev1.JobFilter{States: []fireoncev1.JobState{
			fireoncev1.JobState_JOB_STATE_SCHEDULED, fireoncev1.JobState_JOB_STATE_CLAIMED, fireoncev1.JobState_JOB_STATE_SENDING,
			fireoncev1.JobState_JOB_STATE_RETRYING, fireoncev1.JobState_JOB_STATE_AMBIGUOUS,
		}}})
		n = resp.GetCount()
		return err
	})
	return n, err
}

// samples reads the server's memory until ctx ends. Where it cannot be read, none is reported.
func (s *side) samples(ctx context.Context) {
	for ctx.Err() == nil {
		for _, at := range s.fleet.Listeners() {
			_ = s.memory.Sample(0, at.PID)
		}
		fleet.Pause(ctx, askEach)
	}
}

// peak is the most that the server had resident, in MiB.
func (s *side) peak() (mib int64) {
	for _, l := range s.memory.Lives() {
		mib = max(mib, l.Peak>>20)
	}
	return mib
}

// ratio is the middle of the quotients of the parts.
func ratio(with, without []float64) float64 {
	var all []float64
	for i := range with {
		all = append(all, with[i]/without[i])
	}
	return middle(all)
}

func middle(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// report prints what was measured.
func report(w io.Writer, engine string, jobs int, sides [2]*side, t tally) {
	plain, told := sides[0], sides[1]
	fmt.Fprintf(w, "%s: %d failures were reported in %d notices (%d with events in full, %d digests that count %d), each once, in order, as the log has them\n",
		engine, jobs, t.notices, t.lists, t.digests, t.counted)
	fmt.Fprintf(w, "  behind: a notice came %v after its first event at most, %v in the middle; the last one %v after the last failure\n",
		t.longest.Round(time.Millisecond), t.middle.Round(time.Millisecond), t.last.Round(time.Millisecond))
	fmt.Fprintf(w, "  largest notice: %d bytes; largest resident memory: %d MiB with the subscription, %d MiB without\n", t.largest, told.peak(), plain.peak())
	fmt.Fprintf(w, "  stored: %.0f jobs/s with, %.0f without (middle of %d parts); with/without in the same part: %.2f\n",
		middle(told.submits), middle(plain.submits), parts, ratio(told.submits, plain.submits))
	fmt.Fprintf(w, "  ended: %.0f jobs/s with, %.0f without; with/without in the same part: %.2f\n",
		middle(told.ends), middle(plain.ends), ratio(told.ends, plain.ends))
}

// byDuration is the order of durations.
func byDuration(a, b time.Duration) int { return cmp.Compare(a, b) }
