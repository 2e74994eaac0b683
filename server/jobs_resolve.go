package server

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// ResolveJob implements the RPC.
func (s *jobService) ResolveJob(ctx context.Context, req *fireoncev1.ResolveJobRequest) (*fireoncev1.ResolveJobResponse, error) {
	who := callerOf(ctx)
	if err := mayGiveEffectKey(who, req.GetEffectKey()); err != nil {
		return nil, err
	}
	out, err := s.changeJob(ctx, jobChange{
		of: req, etag: req.GetEtag(), reason: req.GetNote(), ask: always(rulingFromWire(who.actor, req)),
		check: func(ctx context.Context, snap job.Snapshot) (checkedChange, error) {
			return s.checkNewEffectKey(ctx, req, snap)
		},
	})
	return &fireoncev1.ResolveJobResponse{Job: out}, err
}

// checkNewEffectKey judges the effect key of a RESEND.
func (s *jobService) checkNewEffectKey(ctx context.Context, req *fireoncev1.ResolveJobRequest, snap job.Snapshot) (checkedChange, error) {
	if req.GetEffectKey() == "" {
		return checkedChange{}, nil
	}
	if req.GetDecision() != fireoncev1.Resolution_DECISION_RESEND || snap.OwnEffectKey == "" || snap.Attempt == 0 || snap.RoundArmed.IsZero() {
		return checkedChange{}, badField("effect_key", "not_allowed",
			"goes only with the RESEND of a job that was given its effect key and has used it")
	}
	ref := store.Ref{Project: snap.Project, ID: snap.Connection}
	conn, err := s.store.Connection(ctx, ref)
	if err != nil {
		return checkedChange{}, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(ref))
	}
	return checkedChange{content: &store.Content{
		OwnEffectKey: req.GetEffectKey(),
		EffectKey:    job.EffectKeyDigest(receiverOf(conn.Connector, snap.HoldKey), req.GetEffectKey()),
	}}, nil
}
