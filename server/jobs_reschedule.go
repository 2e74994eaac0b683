package server

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
)

// Rules of this file: a requested time is judged first as it was sent, so that a repeat of a move
// that is in place succeeds however late it comes. The time is checked only for a move that is
// still to be made.

// What a client can do about a new time that has passed.
const (
	pastMove  = "the job was not changed: give a later time, or call RunJobNow"
	pastRetry = "the job was not changed: give a later time, or none to start it now"
)

// checkedTime checks a requested time and makes the evidence for it; the zero time, "now", needs
// no check. instead is what a client can do when the time has passed.
func (s *jobService) checkedTime(field string, at time.Time, instead string, evidence func(time.Time) job.Evidence) func(context.Context, job.Snapshot) (checkedChange, error) {
	return func(context.Context, job.Snapshot) (checkedChange, error) {
		at, err := s.checkTime(field, at, instead)
		if err != nil {
			return checkedChange{}, err
		}
		return checkedChange{evidence: evidence(at)}, nil
	}
}

// RescheduleJob implements the RPC.
func (s *jobService) RescheduleJob(ctx context.Context, req *fireoncev1.RescheduleJobRequest) (*fireoncev1.RescheduleJobResponse, error) {
	at, mark, err := s.requestedTime(req)
	if err != nil {
		return nil, err
	}
	window := submit.Duration(req.GetStartWindow())
	move := func(at time.Time) job.Evidence { return job.RescheduleAsked{At: at, Window: window} }
	out, err := s.changeJob(ctx, jobChange{
		of: req, etag: req.GetEtag(), ask: always(move(at)), check: s.checkedTime(timeField(req), at, pastMove, move),
	})
	return &fireoncev1.RescheduleJobResponse{Job: out, LocalTimeMark: mark}, err
}

// RunJobNow implements the RPC.
func (s *jobService) RunJobNow(ctx context.Context, req *fireoncev1.RunJobNowRequest) (*fireoncev1.RunJobNowResponse, error) {
	out, err := s.changeJob(ctx, jobChange{of: req, etag: req.GetEtag(), ask: always(job.RunNowAsked{})})
	return &fireoncev1.RunJobNowResponse{Job: out}, err
}
