package server

import (
	"context"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// RetryJob implements the RPC.
func (s *jobService) RetryJob(ctx context.Context, req *fireoncev1.RetryJobRequest) (*fireoncev1.RetryJobResponse, error) {
	at, err := timeFromWire("next_attempt_time", req.GetNextAttemptTime())
	if err != nil {
		return nil, err
	}
	again := func(at time.Time) job.Evidence { return job.RetryAsked{At: at} }
	out, err := s.changeJob(ctx, jobChange{
		of: req, etag: req.GetEtag(), ask: always(again(at)), check: s.checkedTime("next_attempt_time", at, pastRetry, again),
	})
	return &fireoncev1.RetryJobResponse{Job: out}, err
}
