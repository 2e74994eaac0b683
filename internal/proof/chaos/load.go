package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/meter"
)

const (
	clients = 16
	// mostAtOnce is how many jobs a client submits in one call at most.
	mostAtOnce = 20
	// mostWaiting bounds the jobs that are submitted and not at rest: clients wait
	// for the servers, as they would where there are quotas.
	mostWaiting = 1500
	// usualRepeats is the repeatShare of a campaign.
	usualRepeats = 20
)

// load is the clients: they submit jobs, repeat what was not answered, and
// sometimes what was.
type load struct {
	seed  uint64
	specs func(i int) spec
	jobs  int
	fleet *fleet.Fleet
	to    targets
	// repeatShare is which part of what was answered is submitted once more, as one in so
	// many calls.
	repeatShare int
	// meter measures the calls; nil: nothing does. answered is called with the first answer
	// to each submit; nil: not.
	meter    *meter.Calls
	answered func(job string)

	mu      sync.Mutex
	changed *sync.Cond
	quota   int // jobs that may be submitted now
	next    int // the first that no client has taken
	resting int // jobs that are at rest, as far as known
	open    int // taken, and not answered
	submits []submitted
	calls   int   // all that were made
	repeats int   // those of them for what was not answered before
	failed  error // what ends the campaign: an answer that cannot be
	stopped bool
	stalled bool // nothing comes to rest, and the load does not wait for it
}

// submitted is what a client knows of a job.
type submitted struct {
	at   time.Time
	acks []judge.Ack
}

func newLoad(seed uint64, jobs int, specs func(i int) spec, f *fleet.Fleet, to targets) *load {
	l := &load{seed: seed, specs: specs, jobs: jobs, fleet: f, to: to, repeatShare: usualRepeats, submits: make([]submitted, jobs)}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// run submits every job that may be, until all are acknowledged.
func (l *load) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.stop)()
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() { l.client(ctx, n) })
	}
	all.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// allow lets clients submit that many jobs in all.
func (l *load) allow(jobs int) { l.change(func() { l.quota = max(l.quota, min(jobs, l.jobs)) }) }

// rests returns how many jobs are at rest.
func (l *load) rests(n int) { l.change(func() { l.resting = n }) }

// stop ends the submitting; calls under way are finished.
func (l *load) stop() { l.change(func() { l.stopped = true }) }

func (l *load) change(what func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what()
	l.changed.Broadcast()
}

// stall reports whether nothing comes to rest for now.
func (l *load) stall(is bool) { l.change(func() { l.stalled = is }) }

// reaches waits until so many jobs are at rest, but not longer than some come to rest.
func (l *load) reaches(jobs int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.resting < min(jobs, l.jobs) && !l.stopped && !l.stalled && l.failed == nil {
		l.changed.Wait()
	}
}

// take returns a client its next jobs; none: it is done.
func (l *load) take(most int) (from, to int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.stopped && l.failed == nil && l.next < l.jobs && (l.next >= l.quota || l.next-l.resting > mostWaiting) {
		l.changed.Wait()
	}
	if l.stopped || l.failed != nil || l.next >= l.jobs {
		return 0, 0
	}
	from, to = l.next, min(l.next+most, l.quota)
	l.next = to
	l.open += to - from
	now := time.Now()
	for i := from; i < to; i++ {
		l.submits[i].at = now
	}
	l.changed.Broadcast()
	return from, to
}

// client is one client. What it has taken it submits until it is acknowledged,
// whatever becomes of ctx: a lost answer proves nothing.
func (l *load) client(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(l.seed, uint64(n)<<32)) //nolint:gosec // repeatable is what it must be
	for {
		most := 1
		if random.IntN(4) == 0 {
			most = 1 + random.IntN(mostAtOnce)
		}
		from, to := l.take(most)
		if from == to {
			return
		}
		for at := from; at < to; {
			end := l.together(at, to)
			if err := l.submit(ctx, n, at, end); err != nil {
				l.change(func() { l.failed = fmt.Errorf("submit %d to %d: %w", at, end-1, err) })
				return
			}
			at = end
		}
		l.change(func() { l.open -= to - from })
		if random.IntN(l.repeatShare) == 0 { // one that is acknowledged, again
			if i := random.IntN(to); l.acknowledged(i) {
				if err := l.submit(ctx, n+1, i, i+1); err != nil {
					l.change(func() { l.failed = fmt.Errorf("submit %d again: %w", i, err) })
					return
				}
			}
		}
	}
}

// together returns the end of the jobs from one on that can go in one call: a reply goes
// with none that comes before it.
func (l *load) together(from, to int) int {
	for i := from + 1; i < to; i++ {
		if s := l.specs(i); s.kind != nil && s.after >= 0 {
			return i
		}
	}
	return to
}

func (l *load) acknowledged(i int) bool { return l.idOf(i) != "" }

// idOf returns the job's id; empty: no answer has told it yet.
func (l *load) idOf(i int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if acks := l.submits[i].acks; len(acks) > 0 {
		return acks[0].JobID
	}
	return ""
}

// kindOf names the call that submits some jobs.
func (l *load) kindOf(from, to int) string {
	switch {
	case to-from > 1:
		return callBatch
	case l.acknowledged(from):
		return callRepeat
	default:
		return callSubmit
	}
}

// submit submits jobs until they are acknowledged.
func (l *load) submit(ctx context.Context, server, from, to int) error {
	reqs := make([]*fireoncev1.ScheduleJobRequest, 0, to-from)
	for i := from; i < to; i++ {
		l.mu.Lock()
		at := l.submits[i].at
		l.mu.Unlock()
		reqs = append(reqs, l.specs(i).request(l.to, at))
	}
	if err := l.thread(ctx, from, reqs); err != nil {
		return err
	}
	var answers []*fireoncev1.ScheduleJobResponse
	again := 0
	err := timed(ctx, l.meter, l.kindOf(from, to), l.fleet, server, func(ctx context.Context, api *fleet.API) (err error) {
		l.change(func() { l.calls, l.repeats, again = l.calls+1, l.repeats+again, 1 })
		answers, err = schedule(ctx, api, reqs)
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	for i, a := range answers {
		s := &l.submits[from+i]
		if len(s.acks) == 0 && l.answered != nil {
			l.answered(a.GetJob().GetJobId())
		}
		s.acks = append(s.acks, judge.Ack{
			JobID: a.GetJob().GetJobId(), ScheduleTime: a.GetJob().GetScheduleTime().AsTime(), Created: a.GetCreated(),
		})
	}
	return nil
}

// thread has jobs reply to those that they are to, once these have an id. It is
// called before reqs, which begin with job from, are sent for the first time.
func (l *load) thread(ctx context.Context, from int, reqs []*fireoncev1.ScheduleJobRequest) error {
	defer context.AfterFunc(ctx, func() { l.change(func() {}) })()
	for i, req := range reqs {
		s := l.specs(from + i)
		if s.kind == nil || s.after < 0 {
			continue
		}
		l.mu.Lock()
		for len(l.submits[s.after].acks) == 0 && l.failed == nil && ctx.Err() == nil {
			l.changed.Wait()
		}
		if acks := l.submits[s.after].acks; len(acks) > 0 {
			req.ReplyTo = &fireoncev1.ScheduleJobRequest_ReplyToJobId{ReplyToJobId: acks[0].JobID}
		}
		l.mu.Unlock()
		if req.GetReplyToJobId() == "" {
			return fmt.Errorf("job %d, which job %d replies to, has no id: %w", s.after, from+i, ctx.Err())
		}
	}
	return nil
}

// schedule makes one call for one job or several.
func schedule(ctx context.Context, api *fleet.API, reqs []*fireoncev1.ScheduleJobRequest) ([]*fireoncev1.ScheduleJobResponse, error) {
	if len(reqs) == 1 {
		resp, err := api.Jobs.ScheduleJob(ctx, reqs[0])
		return []*fireoncev1.ScheduleJobResponse{resp}, err
	}
	resp, err := api.Jobs.BatchScheduleJobs(ctx, &fireoncev1.BatchScheduleJobsRequest{Requests: reqs})
	if err != nil {
		return nil, err
	}
	var out []*fireoncev1.ScheduleJobResponse
	for i, r := range resp.GetResults() {
		if e := r.GetError(); e != nil {
			return nil, itemError(e, reqs[i].GetIdempotencyKey())
		}
		out = append(out, r.GetSuccess())
	}
	if len(out) != len(reqs) {
		return nil, fmt.Errorf("%d answers for %d jobs", len(out), len(reqs))
	}
	return out, nil
}

// submitsOf is the judge's input about submits.
func (l *load) submitsOf() []judge.Submit {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]judge.Submit, 0, l.next)
	for i, s := range l.submits[:l.next] {
		j := l.specs(i)
		submit := judge.Submit{Key: j.key, Subject: j.subject, Class: j.class, Delivery: j.policy, Acks: s.acks}
		if j.kind != nil {
			submit.Group, submit.Blind = j.kind.name, j.kind.blind
		}
		out = append(out, submit)
	}
	return out
}

// progress returns how far the clients are.
func (l *load) progress() (taken, open, resting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next, l.open, l.resting
}

// called counts the calls, and those that repeated one without an answer.
func (l *load) called() (calls, repeats int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls, l.repeats
}
