package sqlstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// SnapshotsByID reads whole jobs, with or without their payloads. Missing jobs are left out.
func (v View) SnapshotsByID(ctx context.Context, ids []job.ID, payload bool) (map[job.ID]job.Snapshot, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.Q.Snapshots(ctx, shareddb.SnapshotsParams{WithPayload: payload, Ids: ids})
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	out := make(map[job.ID]job.Snapshot, len(rows))
	for i := range rows {
		s, err := ToSnapshot(&rows[i], v.At(rows[i].Now))
		if err != nil {
			return nil, err
		}
		out[s.ID] = s
	}
	return out, nil
}

// Snapshots is SnapshotsByID in the order of the ids.
func (v View) Snapshots(ctx context.Context, ids []job.ID, payload bool) ([]job.Snapshot, error) {
	all, err := v.SnapshotsByID(ctx, ids, payload)
	out := make([]job.Snapshot, 0, len(all))
	for _, id := range ids {
		if s, ok := all[id]; ok {
			out = append(out, s)
		}
	}
	return out, err
}

// ToSnapshot returns a job as its rows have it.
func ToSnapshot(r *shareddb.SnapshotsRow, now time.Time) (job.Snapshot, error) {
	st := &r.JobHead
	s := job.Snapshot{Now: now.UTC(), EarlierFence: r.EarlierFence}
	j, err := ToDueJob(&shareddb.DueJobsRow{
		JobID: st.JobID, Project: st.Project, ConnectionID: st.ConnectionID, ScheduleID: st.ScheduleID, HoldKey: st.HoldKey,
		StartWindow: st.StartWindow, WaitWindow: st.WaitWindow, IdemKey: r.IdemKey, PayloadKind: r.PayloadKind,
		Retry: r.Retry, AttemptTimeout: r.AttemptTimeout,
		Delivery: r.Delivery, Labels: r.Labels, TimeZone: r.TimeZone, ReplyTo: r.ReplyTo, Fingerprint: r.Fingerprint,
		CreatedAt: r.CreatedAt, Payload: r.Payload, OwnEffectKey: r.OwnEffectKey, CoolDown: r.CoolDown,
		SkipIfPresent: r.SkipIfPresent, Trace: r.Trace,
	})
	if err != nil {
		return s, err
	}
	s.Spec, s.Status = j.Spec, ToStatus(st)
	for text := range strings.SplitSeq(r.EarlierOpen, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			s.Open = append(s.Open, n)
		}
	}
	slices.Sort(s.Open)
	if m := NewestView(st); m != nil {
		s.Fence, s.Handle, s.PeerEnded = m.Fence, m.Handle, m.PeerEnded
		if m.Result.Open() {
			s.Open = append(s.Open, m.Number)
		}
		if m.Round == s.Round {
			s.RoundArmed, s.RoundKey = st.RoundArmedAt, m.EffectKey
		}
	}
	if s.Effect = RowEffect(st); !r.EffectAt.IsZero() {
		s.Effect = &job.Effect{
			Attempt: int(r.EffectAttempt), Round: int(r.EffectRound), ExternalID: r.EffectID, ExternalURL: r.EffectUrl,
			Proof: job.Proof(r.EffectProof), At: r.EffectAt, SharedWith: job.ID(r.EffectSharedWith),
		}
	}
	if !r.RulingAt.IsZero() {
		s.Resolution = &job.Resolution{Ruling: job.Ruling(r.Ruling), Actor: r.RulingActor, Note: r.RulingNote, At: r.RulingAt}
	}
	return s, nil
}

// ToDueJob returns a job as a claim finds it, without what its row only refers to.
func ToDueJob(r *shareddb.DueJobsRow) (job.Job, error) {
	labels, fp, err := store.DecodeTerms(r.Labels, r.Fingerprint)
	if err != nil {
		return job.Job{}, fmt.Errorf("job %s: %w", r.JobID, err)
	}
	retry, err := job.DecodeRetry(r.Retry)
	if err != nil {
		return job.Job{}, fmt.Errorf("job %s: %w", r.JobID, err)
	}
	retry.AttemptTimeout = r.AttemptTimeout.Duration()
	spec := job.Spec{
		ID: r.JobID, Project: r.Project, Key: r.IdemKey, Connection: r.ConnectionID, HoldKey: r.HoldKey,
		PayloadKind: r.PayloadKind, Payload: bytesOf(r.Payload), OwnEffectKey: r.OwnEffectKey,
		StartWindow: r.StartWindow.Duration(), WaitWindow: r.WaitWindow.Duration(),
		Retry: retry, Delivery: r.Delivery, Labels: labels, TimeZone: r.TimeZone, ReplyTo: job.ID(r.ReplyTo), Schedule: job.ID(r.ScheduleID),
		CoolDown: r.CoolDown.Duration(), SkipIfPresent: r.SkipIfPresent.Duration(), Trace: r.Trace, Fingerprint: fp, Created: r.CreatedAt,
	}
	return job.Job{Spec: spec, Status: ToStatus(&shareddb.JobHead{
		State: r.State, Version: r.Version, Attempt: r.Attempt, Round: r.Round, Failures: r.Failures, Claims: r.Claims,
		Looks: r.Looks, Negatives: r.Negatives, Misses: r.Misses, ScheduleTime: r.ScheduleTime, Unasked: r.Unasked,
		StartDeadline: r.StartDeadline, KeepTrying: r.KeepTrying, Class: r.Class, CancelAskedAt: r.CancelAskedAt, ErrorKind: r.ErrorKind,
		ErrorMessage: r.ErrorMessage, ErrorStatus: r.ErrorStatus, ErrorAt: r.ErrorAt,
	})}, nil
}

// ToStatus returns the status in a job's own row.
func ToStatus(st *shareddb.JobHead) job.Status {
	s := job.Status{
		State: st.State, Version: st.Version, Attempt: st.Attempt, Round: st.Round, Failures: st.Failures, Claims: st.Claims,
		Looks: st.Looks, Negatives: st.Negatives, Misses: st.Misses, ScheduleTime: st.ScheduleTime, Unasked: st.Unasked,
		StartDeadline: st.StartDeadline, KeepTrying: st.KeepTrying.Duration(), NextAt: st.NextAt, ClaimToken: job.ID(st.ClaimToken), Worker: st.Worker, Class: st.Class,
		CancelAsked: st.CancelAskedAt, Blocked: st.Blocked, WaitsFor: job.ID(st.WaitsFor), PredecessorEnd: st.PredecessorEnd,
		Updated: st.UpdatedAt, Ended: st.EndedAt,
	}
	if st.ErrorKind != 0 {
		s.LastError = &job.Failure{Kind: st.ErrorKind, Message: st.ErrorMessage, HTTPStatus: st.ErrorStatus, At: st.ErrorAt}
	}
	return s
}

// RowEffect returns the effect that a job's own row has; nil: none.
func RowEffect(st *shareddb.JobHead) *job.Effect {
	if st.EffectAt.IsZero() {
		return nil
	}
	return &job.Effect{Attempt: st.EffectAttempt, Round: st.EffectRound, Proof: job.ProofResponse, At: st.EffectAt}
}

// NewestView returns the attempt in a job's own row; nil: there was none.
func NewestView(st *shareddb.JobHead) *rules.AttemptView {
	if st.Attempt == 0 {
		return nil
	}
	return &rules.AttemptView{
		Number: st.Attempt, Round: st.ArmedRound, Result: st.Result, ArmedAt: st.ArmedAt, Fence: st.FenceAt,
		PeerEnded: st.PeerEnded, Handle: st.Handle, EffectKey: st.EffectKey, Digest: string(st.RequestDigest),
	}
}

// InOwnRow reports whether a job's own row can hold an effect.
func InOwnRow(e job.Effect) bool {
	return e.Proof == job.ProofResponse && e.Attempt > 0 && e.Round > 0 && e.ExternalID == "" && e.ExternalURL == "" && e.SharedWith.IsZero()
}
