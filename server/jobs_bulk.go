package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a call on many jobs reads one page of what its filter
// selects, decides on each job alone and writes all decisions together. The
// pages go by the time of creation, which nothing moves, so none is skipped by
// what the call itself does. Retries go from the oldest job on: a reply comes
// after the job that it replies to. A job that moved between read and write is read
// again through the filter: one that is no longer selected is left alone.

// bulk is a change of many jobs that a client asks for.
type bulk struct {
	// item is the procedure that does the same to one job.
	item   string
	filter *fireoncev1.JobFilter
	// acts are the states that the call can act on; meant when the filter names none.
	acts []job.State
	// order of the pages: by creation.
	order     store.Order
	evidence  job.Evidence
	reason    string
	asOf      *timestamppb.Timestamp
	dryRun    bool
	pageToken string
	// request is the whole request without its page token.
	request proto.Message
}

// BulkCancelJobs implements the RPC.
func (s *jobService) BulkCancelJobs(ctx context.Context, req *fireoncev1.BulkCancelJobsRequest) (*fireoncev1.BulkCancelJobsResponse, error) {
	bound := proto.CloneOf(req)
	bound.PageToken = ""
	out, err := s.bulk(ctx, bulk{
		item:   fireoncev1connect.JobServiceCancelJobProcedure,
		filter: req.GetFilter(), evidence: job.CancelAsked{}, reason: req.GetReason(),
		acts: []job.State{
			job.Scheduled, job.Claimed, job.Sending, job.Accepted, job.Ambiguous, job.Retrying, job.NeedsResolution, job.Canceled,
		},
		order: store.ByCreatedDesc,
		asOf:  req.GetAsOfTime(), dryRun: req.GetDryRun(), pageToken: req.GetPageToken(), request: bound,
	})
	return &fireoncev1.BulkCancelJobsResponse{Result: out}, err
}

// BulkRetryJobs implements the RPC.
func (s *jobService) BulkRetryJobs(ctx context.Context, req *fireoncev1.BulkRetryJobsRequest) (*fireoncev1.BulkRetryJobsResponse, error) {
	bound := proto.CloneOf(req)
	bound.PageToken = ""
	out, err := s.bulk(ctx, bulk{
		item:   fireoncev1connect.JobServiceRetryJobProcedure,
		filter: req.GetFilter(), evidence: job.RetryAsked{}, acts: []job.State{job.Failed, job.Canceled, job.Expired},
		order: store.ByCreatedAsc,
		asOf:  req.GetAsOfTime(), dryRun: req.GetDryRun(), pageToken: req.GetPageToken(), request: bound,
	})
	return &fireoncev1.BulkRetryJobsResponse{Result: out}, err
}

// BulkResolveJobs implements the RPC.
func (s *jobService) BulkResolveJobs(ctx context.Context, req *fireoncev1.BulkResolveJobsRequest) (*fireoncev1.BulkResolveJobsResponse, error) {
	bound := proto.CloneOf(req)
	bound.PageToken = ""
	acts := []job.State{job.NeedsResolution}
	if req.GetOverrideReconciler() {
		acts = append(acts, job.Ambiguous)
	}
	out, err := s.bulk(ctx, bulk{
		item:   fireoncev1connect.JobServiceResolveJobProcedure,
		filter: req.GetFilter(), acts: acts, order: store.ByCreatedDesc, reason: req.GetNote(),
		evidence: job.Resolved{
			Ruling: job.Ruling(req.GetDecision()), Actor: callerOf(ctx).actor,
			Note: req.GetNote(), Override: req.GetOverrideReconciler(),
		},
		asOf: req.GetAsOfTime(), dryRun: req.GetDryRun(), pageToken: req.GetPageToken(), request: bound,
	})
	return &fireoncev1.BulkResolveJobsResponse{Result: out}, err
}

// bulk runs one call on one page.
func (s *jobService) bulk(ctx context.Context, b bulk) (*fireoncev1.BulkResult, error) {
	r, owner, err := s.newBulkRun(ctx, b)
	if err != nil {
		return nil, err
	}
	page, err := s.store.List(ctx, r.query)
	if err != nil {
		return nil, fmt.Errorf("select jobs: %w", err)
	}
	r.out.AsOfTime = timestamppb.New(job.Micros(s.cfg.Now()))
	if n := len(page.Jobs); n > 0 {
		r.out.AsOfTime = timeToWire(page.Jobs[n-1].Now)
	}
	if page.More {
		r.out.NextPageToken = token{kind: bulkPages, owner: owner, id: page.Next.ID, at: page.Next.At.UnixMicro()}.String()
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
	jobs  *jobService
	call  bulk
	who   caller
	query store.JobQuery
	asOf  time.Time
	out   *fireoncev1.BulkResult
}

func (s *jobService) newBulkRun(ctx context.Context, b bulk) (*bulkRun, [ownerLen]byte, error) {
	r := &bulkRun{jobs: s, call: b, who: callerOf(ctx), out: &fireoncev1.BulkResult{}}
	owner, err := s.tokens.pageOwner(r.who.project, b.request)
	if err != nil {
		return nil, owner, err
	}
	after, err := parsePage(bulkPages, owner, b.pageToken)
	if err != nil {
		return nil, owner, err
	}
	if r.asOf, err = timeFromWire("as_of_time", b.asOf); err != nil {
		return nil, owner, err
	}
	if r.asOf.Sub(s.cfg.Now()) > job.PastSlack {
		return nil, owner, badField("as_of_time", "not_in_future", "is in the future; take it from the answer of a dry run")
	}
	if r.query, err = s.selection(ctx, r.who.project, b.filter); err != nil {
		return nil, owner, err
	}
	if len(r.query.States) == 0 {
		// No client may take up other CANCELED jobs again.
		r.query.States, r.query.OnlyLeftBehind = b.acts, true
	}
	r.query.Order, r.query.Limit = b.order, maxPage
	r.query.AfterTime, r.query.AfterID = after.time(), after.id
	return r, owner, nil
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
	if r.call.dryRun {
		out := slices.Clone(jobs)
		for i := range out {
			if slices.Contains(r.out.ChangedJobIds, out[i].WaitsFor.String()) {
				out[i].PredecessorEnd = 0
			}
		}
		return out, nil
	}
	return r.reread(ctx, idsOf(jobs))
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
	if r.call.dryRun {
		for _, snap := range jobs {
			if r.decide(ctx, snap, &store.Change{}) {
				r.changed(snap.ID)
			}
		}
		return nil
	}
	moved, err := store.DecideAgain(ctx, r.jobs.store,
		func(moved []job.Snapshot) ([]job.Snapshot, error) {
			if moved == nil {
				return jobs, nil
			}
			return r.reread(ctx, idsOf(moved))
		},
		func(snap job.Snapshot, c *store.Change) (bool, error) { return r.decide(ctx, snap, c), nil },
		func(snap job.Snapshot, c *store.Change, a *store.Applied) error {
			switch a.Err {
			case nil:
				r.jobs.cfg.Metrics.Ended(snap.State, a.Snapshot)
				r.changed(snap.ID)
			default:
				r.refused(ctx, snap.ID, r.jobs.notWritten(ctx, store.Ref{ID: snap.ID}, snap, c, a.Err))
			}
			return nil
		})
	for _, snap := range moved {
		r.refused(ctx, snap.ID, err)
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
	write, err := r.jobs.decide(ctx, jobChange{ask: always(r.call.evidence), reason: r.call.reason}, snap, c)
	if err != nil {
		r.refused(ctx, snap.ID, err)
	}
	return write && err == nil
}

// idsOf returns the ids of jobs.
func idsOf(jobs []job.Snapshot) []job.ID {
	ids := make([]job.ID, len(jobs))
	for i, s := range jobs {
		ids[i] = s.ID
	}
	return ids
}

func (r *bulkRun) changed(id job.ID) {
	r.out.Changed++
	r.out.ChangedJobIds = append(r.out.ChangedJobIds, id.String())
}

func (r *bulkRun) refused(ctx context.Context, id job.ID, err error) {
	r.out.Failures = append(r.out.Failures, &fireoncev1.BulkFailure{JobId: id.String(), Error: r.jobs.itemError(ctx, r.call.item, err)})
}
