package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: each item of a batch is decided on its own, as if they came one after
// another. One write stores all that pass, or several where one replies to another. An item that
// fails a check, or is only validated, is looked up by its key as in jobs_schedule.go; the
// look-up waits for the write when an earlier item of the batch may bind that key.

// batch is one BatchScheduleJobs under way.
type batch struct {
	server    *Server
	validator *validator
	results   []*fireoncev1.BatchScheduleJobsResponse_Result
	// passed go to the store, later are looked up after it.
	passed, later []batchItem
	binds         map[string]bool // keys that passed may bind
	broken        int             // items that break the contract's rules
}

type batchItem struct {
	request scheduleRequest
	index   int
	refused error
}

// BatchScheduleJobs implements the RPC.
func (s *jobService) BatchScheduleJobs(ctx context.Context, req *fireoncev1.BatchScheduleJobsRequest) (*fireoncev1.BatchScheduleJobsResponse, error) {
	b := &batch{
		server: s.Server, validator: s.newValidator(ctx), binds: make(map[string]bool, len(req.GetRequests())),
		results: make([]*fireoncev1.BatchScheduleJobsResponse_Result, len(req.GetRequests())),
		passed:  make([]batchItem, 0, len(req.GetRequests())),
	}
	defer b.validator.settle()
	for i, item := range req.GetRequests() {
		if err := b.take(ctx, i, item); err != nil {
			return nil, err
		}
	}
	if err := b.write(ctx); err != nil {
		return nil, err
	}
	for _, item := range b.later {
		res, err := b.validator.lookUp(ctx, item.request, item.refused)
		if err := b.answer(ctx, item.index, res, err); err != nil {
			return nil, err
		}
	}
	return &fireoncev1.BatchScheduleJobsResponse{Results: b.results}, nil
}

// take checks one item. It fails with errors that every other item would have, too.
func (b *batch) take(ctx context.Context, i int, req *fireoncev1.ScheduleJobRequest) error {
	broken, err := accept(b.server.rules, req, b.broken < maxViolations)
	if err != nil {
		return err
	}
	if broken != nil {
		b.broken++
		b.fail(ctx, i, broken.fault())
		return nil
	}
	if b.binds[req.GetReplyToKey()] {
		// The job that it replies to is an earlier item: that is stored first.
		if err := b.write(ctx); err != nil {
			return err
		}
	}
	request, err := b.validator.newRequest(ctx, req)
	if err != nil {
		return b.answer(ctx, i, nil, err)
	}
	item := batchItem{request: request, index: i}
	item.refused = b.validator.check(ctx, &item.request)
	switch {
	case item.refused != nil && !ofItem(item.refused):
		return item.refused
	case item.refused == nil && !item.request.validate:
		b.passed = append(b.passed, item)
		b.binds[item.request.spec.Key] = true
		return nil
	case b.binds[item.request.spec.Key]:
		b.later = append(b.later, item)
		return nil
	}
	res, err := b.validator.lookUp(ctx, item.request, item.refused)
	return b.answer(ctx, i, res, err)
}

// write stores the items that have passed.
func (b *batch) write(ctx context.Context) error {
	if len(b.passed) == 0 {
		return nil
	}
	items := make([]store.NewJob, len(b.passed))
	for i, item := range b.passed {
		items[i] = item.request.newJob()
	}
	created, err := b.validator.create(ctx, items)
	if err != nil {
		return fmt.Errorf("store the jobs: %w", err)
	}
	failpoint.Hit(failpoint.Submitted)
	for i, item := range b.passed {
		res, err := b.validator.stored(ctx, item.request, created[i])
		if err != nil && !ofItem(err) {
			// The others are stored: this one must not take their answers away.
			b.fail(ctx, item.index, err)
			continue
		}
		if err := b.answer(ctx, item.index, res, err); err != nil {
			return err
		}
	}
	b.passed = b.passed[:0]
	clear(b.binds)
	clear(b.validator.beforeByKey) // a key that named nothing may be bound now
	return nil
}

// answer notes an item's result. It fails when the whole call has to.
func (b *batch) answer(ctx context.Context, i int, res *fireoncev1.ScheduleJobResponse, err error) error {
	switch {
	case err == nil:
		res.GetJob().Payload = nil // 500 of them exceed what gRPC clients read
		b.results[i] = &fireoncev1.BatchScheduleJobsResponse_Result{
			Result: &fireoncev1.BatchScheduleJobsResponse_Result_Success{Success: res},
		}
		return nil
	case ofItem(err):
		b.fail(ctx, i, err)
		return nil
	default:
		return err
	}
}

// fail records the error that the item's own call would have failed with.
func (b *batch) fail(ctx context.Context, i int, err error) {
	b.results[i] = &fireoncev1.BatchScheduleJobsResponse_Result{
		Result: &fireoncev1.BatchScheduleJobsResponse_Result_Error{
			Error: b.server.itemError(ctx, fireoncev1connect.JobServiceScheduleJobProcedure, err),
		},
	}
}

// ofItem reports whether an error is about the request, and not about the store or this server.
func ofItem(err error) bool {
	return errors.As(err, new(*fault)) || errors.As(err, new(*job.StateError)) || errors.As(err, new(*connector.InputError))
}

// itemError returns the error that an item's own call of a procedure would have had.
func (s *Server) itemError(ctx context.Context, procedure string, err error) *fireoncev1.ItemError {
	err = inRequest(err, procedure)
	// Up to 500 items of a small request may be wrong: the common error takes a short way.
	if f := new(fault); errors.As(err, &f) {
		return &fireoncev1.ItemError{Code: int32(f.code()), Message: f.msg, Detail: f.detail()}
	}
	wire, hidden := toWire(err, requestID(ctx))
	if hidden != nil {
		s.log.ErrorContext(ctx, "item failed", "request_id", requestID(ctx), "cause", hidden.Error())
	}
	out := &fireoncev1.ItemError{Code: int32(wire.Code()), Message: wire.Message()}
	for _, d := range wire.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*fireoncev1.ErrorDetail); ok {
				out.Detail = detail
			}
		}
	}
	return out
}
