package sqlstore

import (
	"context"
	"errors"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Job implements store.Store. A key stays bound until it is forgotten, after its job, so what
// it names needs no transaction with the next read.
func (r *Roles) Job(ctx context.Context, ref store.Ref) (job.Snapshot, error) {
	return readOne(ctx, r, "job", func(ctx context.Context, v View) (job.Snapshot, error) {
		id, err := v.resolve(ctx, ref)
		if err != nil {
			return job.Snapshot{}, err
		}
		snaps, err := v.Snapshots(ctx, []job.ID{id}, true)
		switch {
		case err != nil:
			return job.Snapshot{}, err
		case len(snaps) == 0 && ref.Key != "":
			return job.Snapshot{}, &store.RemovedError{Job: id}
		case len(snaps) == 0 || ref.Project != "" && snaps[0].Project != ref.Project:
			return job.Snapshot{}, store.ErrNotFound
		}
		return snaps[0], nil
	})
}

// resolve returns the id that a ref names, which may not exist.
func (v View) resolve(ctx context.Context, ref store.Ref) (job.ID, error) {
	if ref.Key == "" {
		return ref.ID, nil
	}
	digest := job.KeyDigest(ref.Project, ref.Key)
	id, err := v.Q.KeyOwner(ctx, digest[:])
	return id, orNotFound(err)
}

// own resolves a ref and checks that the job belongs to the project, which a job never
// changes.
func (v View) own(ctx context.Context, ref store.Ref) (job.ID, error) {
	id, err := v.resolve(ctx, ref)
	if err != nil {
		return id, err
	}
	project, err := v.Q.ProjectOf(ctx, id)
	if err == nil && ref.Project != "" && project != ref.Project {
		return id, store.ErrNotFound
	}
	return id, orNotFound(err)
}

// JobNames implements store.Store.
func (r *Roles) JobNames(ctx context.Context, project string, ids []job.ID) (map[job.ID]store.JobName, error) {
	return readOne(ctx, r, "job names", func(ctx context.Context, v View) (map[job.ID]store.JobName, error) {
		rows, err := v.Q.JobNames(ctx, ids)
		out := make(map[job.ID]store.JobName, len(rows))
		for _, r := range rows {
			if r.Project != project {
				continue
			}
			labels, _, bad := store.DecodeTerms(r.Labels, nil)
			err = errors.Join(err, bad)
			out[r.ID] = store.JobName{Key: r.IdemKey, Labels: labels, Callback: job.ID(r.Callback)}
		}
		return out, err
	})
}

// Attempts implements store.Store.
func (r *Roles) Attempts(ctx context.Context, ref store.Ref, after, limit int) ([]job.Attempt, error) {
	return readOne(ctx, r, "attempts", func(ctx context.Context, v View) ([]job.Attempt, error) {
		id, err := v.own(ctx, ref)
		if err != nil {
			return nil, err
		}
		rows, err := v.Q.Attempts(ctx, shareddb.AttemptsParams{JobID: id, After: after, MaxRows: int32(rules.Page(limit))})
		if err != nil {
			return nil, err
		}
		out := make([]job.Attempt, len(rows))
		for i, a := range rows {
			if out[i], err = toAttempt(a); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

func toAttempt(a shareddb.EveryAttempt) (job.Attempt, error) {
	answer, err := job.DecodeAnswer(a.Answer)
	return job.Attempt{
		Number: a.Number, Round: a.Round, ArmToken: a.ArmToken, Worker: a.Worker, ClaimedAt: a.ClaimedAt,
		ArmedAt: a.ArmedAt, SendDeadline: a.SendDeadline, AnswerDeadline: a.AnswerDeadline, EffectKey: a.EffectKey,
		RequestDigest: bytesOf(a.RequestDigest), Frozen: bytesOf(a.Frozen), CredentialVersion: a.CredentialVersion,
		AccountIdentity: a.AccountIdentity, Watermark: a.Watermark, Handle: a.Handle, Result: a.Result,
		Kind: a.Kind, Message: a.Message, HTTPStatus: a.HttpStatus, BytesWritten: a.BytesWritten,
		PeerEnded: a.PeerEnded, Answer: answer, EndedAt: a.EndedAt, Span: job.ToSpan(a.Span),
	}, err
}

// Observations implements store.Store.
func (r *Roles) Observations(ctx context.Context, ref store.Ref, before, limit int) ([]job.Observation, error) {
	return readOne(ctx, r, "observations", func(ctx context.Context, v View) ([]job.Observation, error) {
		id, err := v.own(ctx, ref)
		if err != nil {
			return nil, err
		}
		rows, err := v.Q.Observations(ctx, shareddb.ObservationsParams{JobID: id, Before: int64(before), MaxRows: int32(rules.Page(limit))})
		return store.Converted(rows, err, func(o shareddb.ObservationsRow) job.Observation {
			return job.Observation{
				Number: int(o.Number), Attempt: int(o.Attempt), Verdict: o.Verdict, ExternalID: o.ExternalID,
				ExternalURL: o.ExternalUrl, Handle: o.Handle, Detail: o.Detail, BegunAt: o.BegunAt, EndedAt: o.EndedAt,
			}
		})
	})
}
