package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - the store decides what may be erased, and a repeat is answered from what stays;
//   - each erasure is one line of INFO that names its actor and the object, and is stored. The
//     name of an API key is not: it may be a person's.

// terminalStates are those that a job ends in.
var terminalStates = []job.State{job.Succeeded, job.Failed, job.Canceled, job.Expired}

// eraseActor names a caller in the record of an erasure, which is kept.
func eraseActor(who caller) string {
	if who.key != "" {
		return "api:" + who.key
	}
	return who.actor
}

// DeleteJob implements the RPC.
func (s *jobService) DeleteJob(ctx context.Context, req *fireoncev1.DeleteJobRequest) (*fireoncev1.DeleteJobResponse, error) {
	ref, err := jobRef(ctx, req)
	if err != nil {
		return nil, err
	}
	erased, err := decideAgain(func() (store.ErasedJob, error) {
		snap, err := s.store.Job(ctx, ref)
		if errors.Is(err, store.ErrNotFound) {
			return s.erasedBefore(ctx, ref, err)
		}
		if err != nil {
			return store.ErasedJob{}, fmt.Errorf("read the job: %w", err)
		}
		return s.erase(ctx, snap, req.GetEtag())
	}, func(store.ErasedJob) error { return fmt.Errorf("erase the job: %w", store.ErrStale) })
	if err != nil {
		return nil, err
	}
	return &fireoncev1.DeleteJobResponse{Job: erasedJobToWire(erased)}, nil
}

// erasedBefore returns what stays of a job that is not there any more.
func (s *jobService) erasedBefore(ctx context.Context, ref store.Ref, err error) (store.ErasedJob, error) {
	id := ref.ID
	if removed, ok := errors.AsType[*store.RemovedError](err); ok {
		id = removed.Job
	}
	erased, err := s.store.ErasedJob(ctx, ref.Project, id)
	if err != nil {
		return erased, notFoundAs(fmt.Errorf("read what stays of the job: %w", err), jobNotFound(ref))
	}
	return erased, nil
}

// erase erases a job as it was read.
func (s *jobService) erase(ctx context.Context, snap job.Snapshot, etag string) (store.ErasedJob, error) {
	if err := checkEtag(etag, "job", snap.ID, snap.Version); err != nil {
		return store.ErasedJob{}, err
	}
	if !snap.State.Terminal() {
		return store.ErasedJob{}, &job.StateError{Current: snap.State, Allowed: terminalStates}
	}
	who := callerOf(ctx)
	erased, err := s.store.EraseJob(ctx, store.EraseParams{
		Project: snap.Project, Job: snap.ID, Version: snap.Version, Keep: s.cfg.Keep, Actor: eraseActor(who),
	})
	var kept *store.KeptError
	switch {
	case errors.As(err, &kept):
		return erased, keptFault(snap.ID, kept)
	case errors.Is(err, store.ErrNotFound):
		return erased, store.ErrStale // it went since it was read
	case err != nil:
		return erased, fmt.Errorf("erase the job: %w", err)
	}
	s.log.InfoContext(ctx, "a job was erased", "request_id", requestID(ctx), "by", who.actor, "job", snap.ID.String(), "project", snap.Project)
	return erased, nil
}

func keptFault(id job.ID, e *store.KeptError) *fault {
	if e.Left <= 0 {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_JOB_HAS_REPLIES,
			fmt.Sprintf("job %s replies to job %s, and needs it; erase that one first", e.Reply, id),
			"job_id", id.String(), "reply_job_id", e.Reply.String())
	}
	until := e.Until.UTC().Format(time.RFC3339Nano)
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_RETENTION_NOT_REACHED,
		fmt.Sprintf("job %s ended less than an hour ago; it can be erased from %s on", id, until),
		"job_id", id.String(), "delete_allowed_time", until)
	f.retry = e.Left
	return f
}

func erasedJobToWire(e store.ErasedJob) *fireoncev1.ErasedJob {
	return &fireoncev1.ErasedJob{
		JobId: idToWire(e.ID), ProjectId: e.Project, IdempotencyKeyDigest: e.KeyDigest[:], State: stateToWire(e.State),
		EffectClass: classToWire(e.Class), AttemptCount: int32(e.Attempts), ScheduleTime: timeToWire(e.ScheduleTime),
		CreateTime: timeToWire(e.Created), EndTime: timeToWire(e.Ended), Proof: fireoncev1.Effect_Proof(e.Proof),
		EffectTime: timeToWire(e.EffectAt), ExternalIdDigest: e.ObjectDigest, EraseTime: timeToWire(e.Erased), Actor: e.Actor,
	}
}
