package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
)

const (
	// firingFor is how long schedules fire under faults at least: two times of each interval
	// have no meaning, four do.
	firingFor = time.Minute
	// Hands trigger, fill and pause this often, each schedule by itself.
	triggerEach, itemEach, pauseEach = 9 * time.Second, 12 * time.Second, 17 * time.Second
	// pausedFor is longer than the interval of most: times pass meanwhile.
	pausedFor = 8 * time.Second
	// hasty is the longest that a client waits who then breaks off.
	hasty = 40 * time.Millisecond
	// refusedPause is a client's before it repeats a call that was refused for now: an earlier
	// job has not ended, or a clock is doubted.
	refusedPause = 500 * time.Millisecond
	// decidedBy bounds the time until every time is decided once all faults are over.
	decidedBy = 2 * time.Minute
)

// recurring is the schedules of a campaign and the hands of their owners: they trigger, pause
// and resume them and fill their queues, with calls that break off and are repeated.
type recurring struct {
	campaign *campaign
	to       targets
	begun    time.Time
	all      []*watched
	control  *naiveCron
	// hasties counts the calls that clients broke off, refused those that were repeated
	// because the service did not take them for now.
	hasties, refused atomic.Int64
}

// watched is one schedule, and what its owner knows of it.
type watched struct {
	recurrence
	mu   sync.Mutex
	know judge.Recurring
	// etag is the schedule's, which only its owner changes. With it, a call that a frozen
	// server carries out late undoes none that came after it.
	etag string
}

// newRecurring makes the schedules.
func newRecurring(ctx context.Context, c *campaign) (*recurring, error) {
	making, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	to, err := connectAs(making, c.fleet, c.to, "recurring-", accounts, recurringAccounts)
	if err != nil {
		return nil, err
	}
	r := &recurring{campaign: c, to: to, begun: time.Now(), control: newNaiveCron(c.fleet, c.platform.URL)}
	for i := range schedules {
		w := &watched{recurrence: recurrenceOf(c.seed, i)}
		asked := time.Now()
		var resp *schedulesv1.CreateScheduleResponse
		if err := r.persist(making, i, func(ctx context.Context, api *fleet.API) (err error) {
			resp, err = api.Schedules.CreateSchedule(ctx, w.request(to))
			return err
		}); err != nil {
			return nil, fmt.Errorf("create schedule %s: %w", w.key, err)
		}
		w.etag = resp.GetSchedule().GetEtag()
		w.know = judge.Recurring{
			Key: w.key, ID: resp.GetSchedule().GetScheduleId(), Prefix: w.prefix(), Class: w.job.class, Delivery: w.job.policy,
			Every: w.every, Phase: w.phase, Cron: w.cron, Jitter: w.jitter, CoolDown: w.coolDown, Act: attemptTimeout + grace, Queue: w.queue,
			Blocks: w.overlap != allow || w.unresolved != allow, Buffers: w.overlap == bufferOne || w.unresolved == bufferOne,
			// With SKIP, ALL does the same as LATEST.
			CatchesUp: w.catchUp == schedulesv1.CatchUpPolicy_CATCH_UP_POLICY_ALL && w.overlap != skip,
			Spans:     []judge.Span{{Asked: asked, Begun: time.Now()}},
		}
		r.all = append(r.all, w)
	}
	return r, nil
}

// persist makes a call until it is answered, also when it is refused for now.
func (r *recurring) persist(ctx context.Context, server int, do func(context.Context, *fleet.API) error) error {
	for {
		err := r.campaign.fleet.Call(ctx, server, do)
		if connect.CodeOf(err) != connect.CodeFailedPrecondition {
			return err
		}
		if fleet.Pause(ctx, refusedPause); ctx.Err() != nil {
			return err
		}
		r.refused.Add(1)
	}
}

// insist makes a call as a client does whose network is bad: some calls break off in the
// middle, or two servers have the same one, before one of them is waited for.
func (r *recurring) insist(ctx context.Context, random *rand.Rand, do func(context.Context, *fleet.API) error) error {
	server := random.IntN(r.campaign.fleet.Size())
	for range random.IntN(3) {
		short, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(hasty))))
		_ = r.campaign.fleet.Call(short, server, do) // whatever it says, the client has gone
		cancel()
		r.hasties.Add(1)
	}
	if random.IntN(2) == 0 {
		return r.persist(ctx, server, do)
	}
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		both.Go(func() { errs[i] = r.persist(ctx, server+i, do) })
	}
	both.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// run has the hands at work until ctx ends, and the naive scheduler beside them.
func (r *recurring) run(ctx context.Context) error {
	var all sync.WaitGroup
	var once sync.Once
	var failed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hand := func(i int, what uint64, each time.Duration, do func(context.Context, *rand.Rand, int) error) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(r.campaign.seed, what<<32|uint64(i))) //nolint:gosec // repeatable is what it must be
			fleet.Pause(ctx, time.Duration(random.Int64N(int64(each))))
			for n := 0; ctx.Err() == nil; n++ {
				if err := do(ctx, random, n); err != nil && ctx.Err() == nil {
					once.Do(func() { failed = fmt.Errorf("%s: %w", r.all[i].key, err) })
					cancel()
				}
				fleet.Pause(ctx, each/2+time.Duration(random.Int64N(int64(each))))
			}
		})
	}
	for i, w := range r.all {
		if w.trigger && !w.queue {
			hand(i, 1, triggerEach, func(ctx context.Context, random *rand.Rand, n int) error { return r.triggers(ctx, w, random, n) })
		}
		if w.queue {
			hand(i, 2, itemEach, func(ctx context.Context, random *rand.Rand, n int) error { return r.adds(ctx, w, random, n) })
		}
		if w.paused {
			hand(i, 3, pauseEach, func(ctx context.Context, random *rand.Rand, _ int) error { return r.pauses(ctx, w, random) })
		}
	}
	all.Go(func() { r.control.run(ctx) })
	all.Wait()
	return failed
}

// lasts waits until schedules have fired under faults for long enough.
func (r *recurring) lasts(ctx context.Context) { fleet.Pause(ctx, time.Until(r.begun.Add(firingFor))) }

// triggers asks for a job now, under a key of its own, and sometimes again under the last one.
func (r *recurring) triggers(ctx context.Context, w *watched, random *rand.Rand, n int) error {
	w.mu.Lock()
	at := len(w.know.Triggers)
	if at > 0 && random.IntN(4) == 0 {
		at = random.IntN(at)
	} else {
		w.know.Triggers = append(w.know.Triggers, judge.Trigger{Key: fmt.Sprintf("by-hand-%d", n)})
	}
	key := w.know.Triggers[at].Key
	w.mu.Unlock()
	overlapping := random.IntN(4) > 0
	return r.insist(ctx, random, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Schedules.TriggerSchedule(ctx, &schedulesv1.TriggerScheduleRequest{
			Schedule: &schedulesv1.TriggerScheduleRequest_IdempotencyKey{IdempotencyKey: w.key}, TriggerKey: key, AllowOverlap: overlapping,
		})
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.know.Triggers[at].Acks = append(w.know.Triggers[at].Acks, judge.Ack{JobID: resp.GetFiring().GetJobId(), Created: resp.GetCreated()})
		return nil
	})
}

// adds puts an item into the queue.
func (r *recurring) adds(ctx context.Context, w *watched, random *rand.Rand, n int) error {
	key := fmt.Sprintf("item-%d", n)
	payload := w.content(r.to, key).GetPayload()
	front := random.IntN(3) == 0
	w.mu.Lock()
	at := len(w.know.Items)
	w.know.Items = append(w.know.Items, judge.Item{Key: key, Subject: w.prefix() + key})
	w.mu.Unlock()
	return r.insist(ctx, random, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Schedules.AddScheduleItem(ctx, &schedulesv1.AddScheduleItemRequest{
			Schedule: &schedulesv1.AddScheduleItemRequest_ScheduleKey{ScheduleKey: w.key}, IdempotencyKey: key, Payload: payload, AtFront: front,
		})
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.know.Items[at].IDs = append(w.know.Items[at].IDs, resp.GetItem().GetItemId())
		return nil
	})
}

// pauses pauses the schedule and resumes it after a while, also when the campaign ends
// meanwhile: it is to fire in the end.
func (r *recurring) pauses(ctx context.Context, w *watched, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stuckAfter)
	defer cancel()
	span := func() *judge.Span { return &w.know.Spans[len(w.know.Spans)-1] }
	w.mu.Lock()
	span().Ending = time.Now()
	w.mu.Unlock()
	var paused, resumed string // etags
	if err := r.persist(ctx, random.IntN(r.campaign.fleet.Size()), func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Schedules.PauseSchedule(ctx, &schedulesv1.PauseScheduleRequest{
			Schedule: &schedulesv1.PauseScheduleRequest_IdempotencyKey{IdempotencyKey: w.key}, Etag: w.etag, Note: "by hand",
		})
		paused = resp.GetSchedule().GetEtag()
		return err
	}); err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	w.mu.Lock()
	span().Ended = time.Now()
	w.mu.Unlock()
	fleet.Pause(ctx, time.Duration(random.Int64N(int64(pausedFor))))
	asked := time.Now()
	if err := r.persist(ctx, random.IntN(r.campaign.fleet.Size()), func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Schedules.ResumeSchedule(ctx, &schedulesv1.ResumeScheduleRequest{
			Schedule: &schedulesv1.ResumeScheduleRequest_IdempotencyKey{IdempotencyKey: w.key}, Etag: paused,
		})
		resumed = resp.GetSchedule().GetEtag()
		return err
	}); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.etag = resumed
	w.know.Spans = append(w.know.Spans, judge.Span{Asked: asked, Begun: time.Now()})
	return nil
}

// atRest counts the jobs of schedules that are at rest.
func (r *recurring) atRest(ctx context.Context) (n int, err error) {
	ids := slices.Clone(r.to.feeds)
	for _, id := range r.to.hooks {
		ids = append(ids, id)
	}
	err = r.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		n = 0
		for _, id := range ids {
			resp, err := api.Stats.GetStats(ctx, &adminv1.GetStatsRequest{Connection: &adminv1.GetStatsRequest_ConnectionId{ConnectionId: id}})
			if err != nil {
				return err
			}
			_, resting := counted(resp)
			n += resting
		}
		return nil
	})
	return n, err
}

// finish waits until every time up to now is decided, notes where each schedule stands, and
// ends their firing, so that their jobs come to rest.
func (r *recurring) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stuckAfter)
	defer cancel()
	healed := time.Now()
	for {
		open, err := r.read(ctx, healed)
		if err != nil {
			return err
		}
		if open == 0 || time.Since(healed) > decidedBy {
			break // what is open then is the judge's
		}
		fleet.Pause(ctx, refusedPause)
	}
	pausing := &schedulesv1.BulkPauseSchedulesRequest{Filter: &schedulesv1.ScheduleFilter{Labels: map[string]string{recurringLabel: "yes"}}}
	err := r.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		_, err := api.Schedules.BulkPauseSchedules(ctx, pausing) // fewer than one call takes
		return err
	})
	for _, w := range r.all {
		w.know.Stopped = time.Now()
	}
	return err
}

// read notes where the schedules stand, and counts those that fire and have something due.
func (r *recurring) read(ctx context.Context, healed time.Time) (open int, err error) {
	for _, w := range r.all {
		s, err := r.schedule(ctx, w)
		if err != nil {
			return 0, err
		}
		w.know.Healed, w.know.Read = healed, time.Now()
		w.know.State = strings.TrimPrefix(s.GetState().String(), "SCHEDULE_STATE_")
		w.know.Next = time.Time{}
		if s.GetNextFireTime() != nil {
			w.know.Next = s.GetNextFireTime().AsTime()
		}
		if w.know.State == judge.StateActive && !w.know.Next.After(healed) {
			open++
		}
	}
	return open, nil
}

func (r *recurring) schedule(ctx context.Context, w *watched) (s *schedulesv1.Schedule, err error) {
	err = r.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		resp, err := api.Schedules.GetSchedule(ctx, &schedulesv1.GetScheduleRequest{
			Schedule: &schedulesv1.GetScheduleRequest_ScheduleId{ScheduleId: w.know.ID}, OmitPayload: true,
		})
		s = resp.GetSchedule()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get schedule %s: %w", w.key, err)
	}
	return s, nil
}

// accounts reads what the service says of the schedules, which fire no more.
func (r *recurring) accounts(ctx context.Context) ([]judge.Recurring, error) {
	out := make([]judge.Recurring, 0, len(r.all))
	for _, w := range r.all {
		s, err := r.schedule(ctx, w)
		if err != nil {
			return nil, err
		}
		w.know.Counts = countsOf(s.GetCounts())
		if err := r.readLedger(ctx, w); err != nil {
			return nil, fmt.Errorf("list the firings of %s: %w", w.key, err)
		}
		if err := r.readJobs(ctx, w); err != nil {
			return nil, fmt.Errorf("list the jobs of %s: %w", w.key, err)
		}
		if w.queue {
			if err := r.readItems(ctx, w); err != nil {
				return nil, fmt.Errorf("list the items of %s: %w", w.key, err)
			}
		}
		out = append(out, w.know)
	}
	return out, nil
}

// pages reads pages until there is none after one.
func (r *recurring) pages(ctx context.Context, page func(ctx context.Context, api *fleet.API, token string) (next string, take func(), err error)) error {
	for token := ""; ; {
		var next string
		var take func()
		if err := r.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) (err error) {
			next, take, err = page(ctx, api, token)
			return err
		}); err != nil {
			return err
		}
		take()
		if token = next; token == "" {
			return nil
		}
	}
}

func (r *recurring) readLedger(ctx context.Context, w *watched) error {
	return r.pages(ctx, func(ctx context.Context, api *fleet.API, token string) (string, func(), error) {
		resp, err := api.Schedules.ListFirings(ctx, &schedulesv1.ListFiringsRequest{
			Schedule: &schedulesv1.ListFiringsRequest_ScheduleId{ScheduleId: w.know.ID}, PageSize: pageSize, PageToken: token,
		})
		return resp.GetNextPageToken(), func() {
			for _, f := range resp.GetFirings() {
				w.know.Ledger = append(w.know.Ledger, ledgerRowOf(f))
			}
		}, err
	})
}

func (r *recurring) readJobs(ctx context.Context, w *watched) error {
	w.know.Jobs, w.know.Retried = make(map[string]string), make(map[string]judge.Retried)
	err := r.pages(ctx, func(ctx context.Context, api *fleet.API, token string) (string, func(), error) {
		resp, err := api.Jobs.ListJobs(ctx, &fireoncev1.ListJobsRequest{
			Filter: &fireoncev1.JobFilter{ScheduleId: w.know.ID}, Order: fireoncev1.JobOrder_JOB_ORDER_CREATE_TIME_DESC, PageSize: pageSize, PageToken: token,
		})
		return resp.GetNextPageToken(), func() {
			for _, j := range resp.GetJobs() {
				w.know.Jobs[j.GetJobId()] = j.GetIdempotencyKey()
				if n := j.GetAttemptCount(); n > 1 {
					w.know.Retried[j.GetJobId()] = judge.Retried{Attempts: int(n)}
				}
			}
		}, err
	})
	if err != nil || w.coolDown == 0 {
		return err
	}
	for id, retried := range w.know.Retried {
		if err := r.campaign.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
			resp, err := api.Jobs.ListJobAttempts(ctx, &fireoncev1.ListJobAttemptsRequest{
				Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: id}, PageSize: 1,
			})
			for _, a := range resp.GetAttempts() {
				retried.FirstArm = a.GetIntentTime().AsTime()
			}
			return err
		}); err != nil {
			return fmt.Errorf("list the attempts of %s: %w", id, err)
		}
		w.know.Retried[id] = retried
	}
	return nil
}

func (r *recurring) readItems(ctx context.Context, w *watched) error {
	return r.pages(ctx, func(ctx context.Context, api *fleet.API, token string) (string, func(), error) {
		resp, err := api.Schedules.ListScheduleItems(ctx, &schedulesv1.ListScheduleItemsRequest{
			Schedule: &schedulesv1.ListScheduleItemsRequest_ScheduleId{ScheduleId: w.know.ID}, PageSize: pageSize, PageToken: token,
		})
		return resp.GetNextPageToken(), func() {
			for _, i := range resp.GetItems() {
				w.know.Kept = append(w.know.Kept, judge.ItemFinal{
					ID: i.GetItemId(), Key: i.GetIdempotencyKey(), Used: i.GetState() == schedulesv1.ScheduleItemState_SCHEDULE_ITEM_STATE_USED,
					FiringName: i.GetFiringName(), JobID: i.GetJobId(),
				})
			}
		}, err
	})
}
