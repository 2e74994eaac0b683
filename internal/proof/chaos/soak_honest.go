package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
)

// Kinds of honest calls, as they are measured. The kind event is the time from the answer
// to a submit to the job's first event.
const (
	callSubmit = "submit"
	callBatch  = "batch"
	callRepeat = "repeat"
	callGet    = "get"
	callList   = "list"
	callEvent  = "event"
)

const (
	// honestRate is how many jobs a second honest clients submit.
	honestRate = 20
	paceEach   = 250 * time.Millisecond
	// soakRepeats is the repeatShare of honest clients: enough repeats for a percentile.
	soakRepeats = 4
	// Honest clients read one job and one page of jobs this often.
	getEach  = 50 * time.Millisecond
	listEach = 200 * time.Millisecond
	listPage = 50
)

// timed makes an honest call as a client does, with repeats, and measures it whole.
func timed(ctx context.Context, calls *meter.Calls, kind string, f *fleet.Fleet, server int, do func(context.Context, *fleet.API) error) error {
	end := calls.Begin(kind)
	err := f.Call(ctx, server, func(ctx context.Context, api *fleet.API) error {
		err := do(ctx, api)
		if err != nil {
			calls.Failed(connect.CodeOf(err).String())
		}
		return err
	})
	if err == nil {
		end()
	}
	return err
}

// paces lets the clients submit at a steady rate, until ctx ends.
func (s *soak) paces(ctx context.Context) {
	begun := time.Now()
	_ = every(ctx, paceEach, func() error { // it does not fail
		s.load.allow(int(time.Since(begun).Seconds() * honestRate))
		return nil
	})
}

// every does something at a steady pace until ctx ends or it fails.
func every(ctx context.Context, pace time.Duration, do func() error) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := do(); err != nil {
				if ctx.Err() != nil {
					return nil // it was interrupted
				}
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// gets reads jobs by their keys, and compares each with the answer that its submitter got.
func (s *soak) gets(ctx context.Context) error {
	random := rand.New(rand.NewPCG(s.seed, 0x676574)) //nolint:gosec // repeatable is what it must be
	return every(ctx, getEach, func() error {
		taken, _, _ := s.load.progress()
		if taken == 0 {
			return nil
		}
		i := random.IntN(taken)
		id := s.load.idOf(i)
		if id == "" {
			return nil // it is not acknowledged yet
		}
		var got *fireoncev1.GetJobResponse
		err := timed(ctx, s.calls, callGet, s.fleet, random.IntN(s.fleet.Size()), func(ctx context.Context, api *fleet.API) (err error) {
			got, err = api.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: s.load.specs(i).key}})
			return err
		})
		if err != nil {
			return fmt.Errorf("get job %d: %w", i, err)
		}
		if got.GetJob().GetJobId() != id {
			return fmt.Errorf("get job %d: the answer is job %s, the submit was answered with %s", i, got.GetJob().GetJobId(), id)
		}
		return nil
	})
}

// lists reads pages of jobs, which may hold none of another project.
func (s *soak) lists(ctx context.Context) error {
	random, token := rand.New(rand.NewPCG(s.seed, 0x6c697374)), "" //nolint:gosec // repeatable is what it must be
	return every(ctx, listEach, func() error {
		var page *fireoncev1.ListJobsResponse
		err := timed(ctx, s.calls, callList, s.fleet, random.IntN(s.fleet.Size()), func(ctx context.Context, api *fleet.API) (err error) {
			page, err = api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{
				Order: fireoncev1.JobOrder_JOB_ORDER_CREATE_TIME_DESC, PageSize: listPage, PageToken: token,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		for _, j := range page.GetJobs() {
			if !ours(j.GetIdempotencyKey()) {
				return fmt.Errorf("list jobs: %s is a job of another project", j.GetIdempotencyKey())
			}
		}
		token = page.GetNextPageToken()
		return nil
	})
}

// deliveries measures the time from the answer to a submit to the job's first event.
type deliveries struct {
	calls *meter.Calls

	mu      sync.Mutex
	waiting map[string]func() // by job: ends the measurement
	early   map[string]bool   // whose event came before the answer
}

func newDeliveries(calls *meter.Calls) *deliveries {
	return &deliveries{calls: calls, waiting: make(map[string]func()), early: make(map[string]bool)}
}

// answered notes the first answer to the submit of a job.
func (d *deliveries) answered(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	end := d.calls.Begin(callEvent)
	if d.early[job] {
		end()
		return
	}
	d.waiting[job] = end
}

// delivered notes an event.
func (d *deliveries) delivered(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end := d.waiting[job]; end != nil {
		end()
		delete(d.waiting, job)
	}
	d.early[job] = true
}
