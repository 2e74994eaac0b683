package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a call on many jobs reads one page of what its filter
// selects, decides on each job alone and writes all decisions together. The
// pages go by the time of creation, which nothing moves, so none is skipped by
// what the call itself does. Retries go from the oldest job on: a reply comes
// after the job that it replies to. A job that moved between read and write is read
// again through the filter: one that is no longer selected is left alone.

// bulkService answers fireonce.admin.v1.BulkService, by what decides the calls on one job.
type bulkService struct {
	adminv1connect.UnimplementedBulkServiceHandler
	*jobService
}

// bulkJobsRequest is a request to change many jobs.
type bulkJobsRequest interface {
	bulkRequest[*fireoncev1.JobFilter]
	GetAsOfTime() *timestamppb.Timestamp
}

// bulkJobs is a change of many jobs that a client asks for.
type bulkJobs struct {
	// item is the procedure that does the same to one job.
	item string
	// acts are the states that the call can act on; meant when the filter names none.
	acts []job.State
	// order of the pages: by creation.
	order  store.Order
	ask    func(job.Snapshot) job.Evidence
	reason string
	// check, when set, is what a change must pass (see jobChange).
	check func(context.Context, job.Snapshot) (checkedChange, error)
}

// BulkCancelJobs implements the RPC.
func (s *bulkService) BulkCancelJobs(ctx context.Context, req *adminv1.BulkCancelJobsRequest) (*adminv1.BulkCancelJobsResponse, error) {
	out, err := s.bulk(ctx, req, bulkJobs{
		item: fireoncev1connect.JobServiceCancelJobProcedure, ask: always(job.CancelAsked{}), reason: req.GetReason(),
		acts: []job.State{
			job.Scheduled, job.Claimed, job.Sending, job.Accepted, job.Ambiguous, job.Retrying, job.NeedsResolution, job.Canceled,
		},
		order: store.ByCreatedDesc,
	})
	return &adminv1.BulkCancelJobsResponse{Result: out}, err
}

// BulkRetryJobs implements the RPC.
func (s *bulkService) BulkRetryJobs(ctx context.Context, req *adminv1.BulkRetryJobsRequest) (*adminv1.BulkRetryJobsResponse, error) {
	out, err := s.bulk(ctx, req, bulkJobs{
		item: fireoncev1connect.JobServiceRetryJobProcedure, ask: always(job.RetryAsked{}),
		acts: []job.State{job.Failed, job.Canceled, job.Expired}, order: store.ByCreatedAsc,
	})
	return &adminv1.BulkRetryJobsResponse{Result: out}, err
}

// BulkRescheduleJobs implements the RPC.
func (s *bulkService) BulkRescheduleJobs(ctx context.Context, req *adminv1.BulkRescheduleJobsRequest) (*adminv1.BulkRescheduleJobsResponse, error) {
	at, mark, err := s.requestedTime(req)
	if err != nil {
		return nil, err
	}
	field, delay, window := timeField(req), submit.Duration(req.GetDelay()), submit.Duration(req.GetStartWindow())
	timeOf := func(job.Snapshot) time.Time { return at }
	if req.GetDelay() != nil {
		timeOf = func(snap job.Snapshot) time.Time { return snap.ScheduleTime.Add(delay) }
	}
	move := func(at time.Time) job.Evidence { return job.RescheduleAsked{At: at, Window: window} }
	out, err := s.bulk(ctx, req, bulkJobs{
		item: fireoncev1connect.JobServiceRescheduleJobProcedure,
		acts: []job.State{job.Scheduled, job.Retrying}, order: store.ByCreatedDesc,
		ask: func(snap job.Snapshot) job.Evidence { return move(timeOf(snap)) },
		check: func(ctx context.Context, snap job.Snapshot) (checkedChange, error) {
			return s.checkedTime(field, timeOf(snap), pastMove, move)(ctx, snap)
		},
	})
	return &adminv1.BulkRescheduleJobsResponse{Result: out, LocalTimeMark: mark}, err
}

// BulkResolveJobs implements the RPC.
func (s *bulkService) BulkResolveJobs(ctx context.Context, req *adminv1.BulkResolveJobsRequest) (*adminv1.BulkResolveJobsResponse, error) {
	acts := []job.State{job.NeedsResolution}
	if req.GetOverrideReconciler() {
		acts = append(acts, job.Ambiguous)
	}
	out, err := s.bulk(ctx, req, bulkJobs{
		item: fireoncev1connect.JobServiceResolveJobProcedure,
		acts: acts, order: store.ByCreatedDesc, reason: req.GetNote(),
		ask: always(job.Resolved{
			Ruling: job.Ruling(req.GetDecision()), Actor: callerOf(ctx).actor,
			Note: req.GetNote(), Override: req.GetOverrideReconciler(),
		}),
	})
	return &adminv1.BulkResolveJobsResponse{Result: out}, err
}

// bulk runs one call on one page.
func (s *bulkService) bulk(ctx context.Context, req bulkJobsRequest, b bulkJobs) (*adminv1.BulkResult, error) {
	r := &bulkRun{jobs: s.jobService, call: b, dryRun: req.GetDryRun(), who: callerOf(ctx), out: &adminv1.BulkResult{}}
	p, err := s.tokens.readPage(bulkPages, r.who.project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if r.asOf, err = timeFromWire("as_of_time", req.GetAsOfTime()); err != nil {
		return nil, err
	}
	if r.asOf.Sub(s.cfg.Now()) > job.PastSlack {
		return nil, badField("as_of_time", "not_in_future", "is in the future; take it from the answer of a dry run")
	}
	if r.query, err = s.selection(ctx, r.who.project, req.GetFilter()); err != nil {
		return nil, err
	}
	if len(r.query.States) == 0 {
		// No client may take up other CANCELED jobs again.
		r.query.States, r.query.OnlyLeftBehind = b.acts, true
	}
	r.query.Order, r.query.Limit = b.order, maxPage
	r.query.AfterTime, r.query.AfterID = p.after.time(), p.after.id
	page, err := s.store.List(ctx, r.query)
	if err != nil {
		return nil, fmt.Errorf("select jobs: %w", err)
	}
	r.out.AsOfTime = timestamppb.New(job.Micros(s.cfg.Now()))
	if n := len(page.Jobs); n > 0 {
		r.out.AsOfTime = timeToWire(page.Jobs[n-1].Now)
	}
	if page.More {
		r.out.NextPageToken = p.nextToken(page.Next.ID, page.Next.At.UnixMicro())
	}
	for _, snap := range page.Jobs {
		if r.selects(snap) {
			r.out.Matched++
		}
	}
	return r.out, r.run(ctx, page.Jobs)
}

// bulkRun is one call on many under way.
type bulkRun struct {
	jobs   *jobService
	call   bulkJobs
	dryRun bool
	who    caller
	query  store.JobQuery
	asOf   time.Time
	out    *adminv1.BulkResult
}

// selects reports whether a job is meant, and has not changed since the client's dry run.
func (r *bulkRun) selects(snap job.Snapshot) bool {
	return r.asOf.IsZero() || !snap.Updated.After(r.asOf)
}

// run takes the jobs of a page, each after the one that it replies to.
func (r *bulkRun) run(ctx context.Context, jobs []job.Snapshot) error {
	for first := true; len(jobs) > 0; first = false {
		now, later := r.inTurn(jobs)
		if !first {
			var err error
			if now, err = r.again(ctx, now); err != nil {
				return err
			}
		}
		if err := r.runAll(ctx, now); err != nil {
			return err
		}
		jobs = later
	}
	return nil
}

// inTurn parts replies that were left behind by a job that is itself to be taken from
// the jobs that come before them.
func (r *bulkRun) inTurn(jobs []job.Snapshot) (now, later []job.Snapshot) {
	here := make(map[job.ID]bool, len(jobs))
	for _, s := range jobs {
		here[s.ID] = r.selects(s)
	}
	for _, s := range jobs {
		if s.PredecessorEnd != 0 && here[s.WaitsFor] {
			later = append(later, s)
		} else {
			now = append(now, s)
		}
	}
	return now, later
}

// again reads jobs again after the jobs that they reply to were written. A dry run writes
// nothing: there the replies are as they would be.
func (r *bulkRun) again(ctx context.Context, jobs []job.Snapshot) ([]job.Snapshot, error) {
	if r.dryRun {
		out := slices.Clone(jobs)
		for i := range out {
			if slices.Contains(r.out.ChangedJobIds, out[i].WaitsFor.String()) {
				out[i].PredecessorEnd = 0
			}
		}
		return out, nil
	}
	return r.reread(ctx, convertAll(jobs, idOf))
}

// reread reads jobs through the filter.
func (r *bulkRun) reread(ctx context.Context, ids []job.ID) ([]job.Snapshot, error) {
	again := r.query
	again.Jobs, again.AfterTime, again.AfterID = ids, time.Time{}, job.ID{}
	page, err := r.jobs.store.List(ctx, again)
	if err != nil {
		return nil, fmt.Errorf("select jobs again: %w", err)
	}
	return page.Jobs, nil
}

// runAll decides and writes, and repeats both for the jobs that changed meanwhile.
func (r *bulkRun) runAll(ctx context.Context, jobs []job.Snapshot) error {
	if r.dryRun {
		for _, snap := range jobs {
			if r.decide(ctx, snap, &store.Change{}) {
				r.changed(snap)
			}
		}
		return nil
	}
	moved, err := store.DecideAgain(ctx, r.jobs.store,
		func(moved []job.Snapshot) ([]job.Snapshot, error) {
			if moved == nil {
				return jobs, nil
			}
			return r.reread(ctx, convertAll(moved, idOf))
		},
		func(snap job.Snapshot, c *store.Change) (bool, error) { return r.decide(ctx, snap, c), nil },
		func(snap job.Snapshot, c *store.Change, a *store.Applied) error {
			switch a.Err {
			case nil:
				r.jobs.cfg.Metrics.Ended(snap.State, a.Snapshot)
				r.changed(snap)
			default:
				r.refused(ctx, snap, r.jobs.notWritten(ctx, store.Ref{ID: snap.ID}, snap, c, a.Err))
			}
			return nil
		})
	for _, snap := range moved {
		r.refused(ctx, snap, err)
	}
	if len(moved) > 0 {
		return nil // each of them has the error
	}
	return err
}

// decide judges a job, and notes one that is refused. It reports whether the job has to be
// changed.
func (r *bulkRun) decide(ctx context.Context, snap job.Snapshot, c *store.Change) bool {
	if !r.selects(snap) {
		return false
	}
	c.Actor = r.who.actor
	write, err := r.jobs.decide(ctx, jobChange{ask: r.call.ask, reason: r.call.reason, check: r.call.check}, snap, c)
	if err != nil {
		r.refused(ctx, snap, err)
	}
	return write && err == nil
}

func idOf(snap job.Snapshot) job.ID { return snap.ID }

func (r *bulkRun) changed(snap job.Snapshot) {
	r.out.Changed++
	r.out.ChangedJobIds = append(r.out.ChangedJobIds, snap.ID.String())
	r.out.ChangedKeys = append(r.out.ChangedKeys, snap.Key)
}

func (r *bulkRun) refused(ctx context.Context, snap job.Snapshot, err error) {
	r.out.Failures = append(r.out.Failures, &adminv1.BulkFailure{
		JobId: snap.ID.String(), IdempotencyKey: snap.Key, Error: r.jobs.itemError(ctx, r.call.item, err),
	})
}
