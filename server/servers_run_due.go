package server

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

const (
	// maxRuns bounds the calls of RunDue at a time: all of them wait for the same work.
	maxRuns = 4
	// defaultRun is how long RunDue waits unless the call sets it, and runReserve what it
	// leaves of the call's deadline for the answer.
	defaultRun = 20 * time.Second
	runReserve = time.Second
	// runPause is the time between two looks at a schedule that is due and cannot be had.
	runPause = 50 * time.Millisecond
	// runHorizon is how far RunDue looks ahead.
	runHorizon = 24 * time.Hour
)

// RunDue implements the RPC.
func (s *serverService) RunDue(ctx context.Context, req *adminv1.RunDueRequest) (*adminv1.RunDueResponse, error) {
	if s.cfg.Quiet == nil {
		return nil, connect.NewError(connect.CodeUnimplemented, errors.New("this server has no worker"))
	}
	select {
	case s.runs <- struct{}{}:
		defer func() { <-s.runs }()
	default:
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY, "other calls of RunDue are under way; they work the same")
	}
	if err := s.sends(ctx); err != nil {
		return nil, err
	}
	wait := defaultRun
	if req.GetMaxWait() != nil {
		wait = submit.Duration(req.GetMaxWait())
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)-runReserve)
	}
	wctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	out := &adminv1.RunDueResponse{}
	next, err := s.runDue(wctx, out)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return out, nil // the work goes on
	case err != nil:
		return nil, err
	}
	if out.Done = true; next < runHorizon {
		out.NextDueTime = timestamppb.New(s.cfg.Now().Add(next))
	}
	return out, nil
}

// sends fails while no job is sent.
func (s *Server) sends(ctx context.Context) error {
	switch meta, err := s.meta(ctx); {
	case err != nil:
		return err
	case meta.Quarantined != "":
		return store.ErrQuarantined
	case meta.Clock.Suspends:
		return store.ErrClockSuspect
	default:
		return nil
	}
}

// runDue waits until no schedule and no job is due, and returns how long that will last.
func (s *Server) runDue(ctx context.Context, out *adminv1.RunDueResponse) (time.Duration, error) {
	for {
		before := out.GetFired()
		for more := true; more; {
			fired, left, err := s.cfg.Scheduler.Once(ctx)
			if err != nil {
				return 0, err
			}
			out.Fired, more = out.Fired+int32(fired), left
		}
		next, err := s.cfg.Quiet(ctx, runHorizon)
		if err != nil {
			return 0, err
		}
		// The end of a job may have a buffered firing due, and time goes on meanwhile.
		firing, err := s.cfg.Scheduler.Next(ctx, runHorizon)
		if err != nil {
			return 0, err
		}
		if firing > 0 {
			return min(next, firing), nil
		}
		if out.GetFired() > before {
			continue
		}
		if !sleep.For(ctx, runPause) { // another server is at that schedule
			return 0, ctx.Err()
		}
	}
}
