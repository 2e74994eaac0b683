package server

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
)

// ListJobAttempts implements the RPC.
func (s *jobService) ListJobAttempts(ctx context.Context, req *fireoncev1.ListJobAttemptsRequest) (*fireoncev1.ListJobAttemptsResponse, error) {
	ref, err := jobRef(ctx, req)
	if err != nil {
		return nil, err
	}
	owner := s.tokens.owner(ref.Project, []byte("attempts"), ref.ID[:], []byte(ref.Key))
	p, err := readOwnedPage(tryPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	out := &fireoncev1.ListJobAttemptsResponse{}
	limit, size, last := pageSize(req.GetPageSize()), 0, int(p.after.at)
	for len(out.GetAttempts()) < limit {
		// One more than asked for would exceed the store's limit at 500, so the last
		// page may be an empty one.
		step := min(limit-len(out.GetAttempts()), attemptStep)
		attempts, err := s.store.Attempts(ctx, ref, last, step)
		if err != nil {
			return nil, notFoundAs(fmt.Errorf("list attempts: %w", err), jobNotFound(ref))
		}
		for _, a := range attempts {
			wire := answeredAttemptToWire(a)
			if size += proto.Size(wire); size > maxAnswerBytes && len(out.GetAttempts()) > 0 {
				limit = len(out.GetAttempts())
				break
			}
			out.Attempts, last = append(out.Attempts, wire), a.Number
		}
		if len(attempts) < step && len(out.GetAttempts()) < limit {
			return out, nil
		}
	}
	out.NextPageToken = p.nextToken(job.ID{}, int64(last))
	return out, nil
}

// attemptStep bounds the attempts that are read at a time: each may have a large answer.
const attemptStep = 50

// ListJobObservations implements the RPC.
func (s *jobService) ListJobObservations(ctx context.Context, req *fireoncev1.ListJobObservationsRequest) (*fireoncev1.ListJobObservationsResponse, error) {
	ref, err := jobRef(ctx, req)
	if err != nil {
		return nil, err
	}
	owner := s.tokens.owner(ref.Project, []byte("observations"), ref.ID[:], []byte(ref.Key))
	p, err := readOwnedPage(lookPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	looks, err := s.store.Observations(ctx, ref, int(p.after.at), pageSize(req.GetPageSize()))
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list observations: %w", err), jobNotFound(ref))
	}
	out := &fireoncev1.ListJobObservationsResponse{}
	size, last := 0, 0
	for _, o := range looks {
		wire := observationToWire(o)
		if size += proto.Size(wire); size > maxAnswerBytes && len(out.GetObservations()) > 0 {
			break
		}
		out.Observations, last = append(out.Observations, wire), o.Number
	}
	if last > 1 {
		out.NextPageToken = p.nextToken(job.ID{}, int64(last))
	}
	return out, nil
}
