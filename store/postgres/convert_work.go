package postgres

import (
	"crypto/rand"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Batches go to the database column by column: a list for each column, as long as the batch.

// randomID returns a version 4 UUID.
func randomID() job.ID {
	var id job.ID
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// soon returns the time that is d from now, in whole microseconds.
func soon(now time.Time, d time.Duration) time.Time { return job.Micros(now.Add(d)) }

func toLockedJob(st shareddb.JobHead) *lockedJob {
	return &lockedJob{
		Job: job.Job{
			Spec: job.Spec{
				ID: st.JobID, Project: st.Project, Connection: st.ConnectionID, HoldKey: st.HoldKey, Schedule: job.ID(st.ScheduleID),
				StartWindow: st.StartWindow.Duration(), WaitWindow: st.WaitWindow.Duration(),
			},
			Status: sqlstore.ToStatus(&st),
		},
		position: st.Position, claimedAt: st.ClaimedAt, effect: sqlstore.RowEffect(&st), newest: sqlstore.NewestView(&st),
		resolution: st.ResolutionID,
	}
}

func toView(r pgdb.AttemptViewsRow) rules.AttemptView {
	return rules.AttemptView{
		Number: int(r.Number), Round: int(r.Round), Result: r.Result, ArmedAt: r.ArmedAt, Fence: r.FenceAt, PeerEnded: r.PeerEnded,
		Handle: r.Handle, EffectKey: r.EffectKey, Digest: string(r.RequestDigest),
	}
}

// armColumns transposes arms, of which each makes some steps of its job.
func armColumns(intents []*intent, steps int64, now time.Time) pgdb.ArmJobsParams {
	p := pgdb.ArmJobsParams{Steps: steps, Now: now}
	for _, in := range intents {
		a := in.attempt
		p.Jobs = append(p.Jobs, in.Job)
		p.Versions = append(p.Versions, in.Version)
		p.Claims = append(p.Claims, in.Claim)
		p.Classes = append(p.Classes, int16(in.next.Class))
		p.Fences = append(p.Fences, in.next.Fence)
		p.Workers = append(p.Workers, in.Worker)
		p.Rearms = append(p.Rearms, in.Rearm)
		p.Tokens = append(p.Tokens, a.ArmToken)
		p.SendDeadlines = append(p.SendDeadlines, a.SendDeadline)
		p.AnswerDeadlines = append(p.AnswerDeadlines, a.AnswerDeadline)
		p.EffectKeys = append(p.EffectKeys, a.EffectKey)
		p.Digests = append(p.Digests, fromBytes(a.RequestDigest))
		p.CredentialVersions = append(p.CredentialVersions, int64(a.CredentialVersion))
		p.AccountIdentities = append(p.AccountIdentities, a.AccountIdentity)
		p.Watermarks = append(p.Watermarks, a.Watermark)
		p.Handles = append(p.Handles, a.Handle)
		p.Frozens = append(p.Frozens, fromBytes(a.Frozen))
		p.Spans = append(p.Spans, a.Span.Bytes())
		p.StartDeadlines = append(p.StartDeadlines, in.next.StartDeadline)
		p.KeepTryings = append(p.KeepTryings, micros(in.next.KeepTrying))
		p.Positions = append(p.Positions, in.position)
		p.Histories = append(p.Histories, in.history)
	}
	return p
}

// addState adds the row of a job as it is written, with the history of its event. effect is
// one of rowEffect, and newest the result for its newest attempt.
func addState(p *pgdb.SetStatesParams, j job.Job, resolution int64, effect *job.Effect, newest outcome, position int64, history []byte) {
	failure := job.Failure{}
	if j.LastError != nil {
		failure = *j.LastError
	}
	p.Jobs = append(p.Jobs, j.ID)
	p.States = append(p.States, int16(j.State))
	p.Versions = append(p.Versions, j.Version)
	p.Positions = append(p.Positions, position)
	p.Rounds = append(p.Rounds, int64(j.Round))
	p.Failures = append(p.Failures, int64(j.Failures))
	p.Claims = append(p.Claims, int64(j.Claims))
	p.Looks = append(p.Looks, int64(j.Looks))
	p.Negatives = append(p.Negatives, int64(j.Negatives))
	p.Misses = append(p.Misses, int64(j.Misses))
	p.HoldKeys = append(p.HoldKeys, j.HoldKey)
	p.ScheduleTimes = append(p.ScheduleTimes, j.ScheduleTime)
	p.Unaskeds = append(p.Unaskeds, j.Unasked)
	p.StartWindows = append(p.StartWindows, micros(j.StartWindow))
	p.StartDeadlines = append(p.StartDeadlines, j.StartDeadline)
	p.KeepTryings = append(p.KeepTryings, micros(j.KeepTrying))
	p.NextAts = append(p.NextAts, j.NextAt)
	p.ClaimTokens = append(p.ClaimTokens, j.ClaimToken)
	p.Cancels = append(p.Cancels, j.CancelAsked)
	p.Blocked = append(p.Blocked, j.Blocked)
	p.ErrorKinds = append(p.ErrorKinds, int16(failure.Kind))
	p.ErrorMessages = append(p.ErrorMessages, failure.Message)
	p.ErrorStatuses = append(p.ErrorStatuses, int64(failure.HTTPStatus))
	p.ErrorAts = append(p.ErrorAts, failure.At)
	p.Resolutions = append(p.Resolutions, resolution)
	p.UpdatedAts = append(p.UpdatedAts, j.Updated)
	p.EndedAts = append(p.EndedAts, j.Ended)
	if effect == nil {
		effect = &job.Effect{}
	}
	p.EffectAttempts = append(p.EffectAttempts, int64(effect.Attempt))
	p.EffectRounds = append(p.EffectRounds, int64(effect.Round))
	p.EffectAts = append(p.EffectAts, effect.At)
	p.Histories = append(p.Histories, history)
	s := newest.Settled
	p.Results = append(p.Results, int16(s.Result))
	p.Settles = append(p.Settles, newest.settles)
	p.Kinds = append(p.Kinds, int16(s.Kind))
	p.Messages = append(p.Messages, s.Message)
	p.Statuses = append(p.Statuses, int64(s.HTTPStatus))
	p.Bytes = append(p.Bytes, s.BytesWritten)
	p.Handles = append(p.Handles, s.Handle)
	p.PeerEndeds = append(p.PeerEndeds, s.PeerEnded)
	p.Answers = append(p.Answers, s.Answer.Encode())
}

func addPlain(p *pgdb.SucceedFirstParams, c *store.Change, position int64, history []byte) {
	settled := c.Decision.Settle[0]
	p.Jobs = append(p.Jobs, c.Job)
	p.Versions = append(p.Versions, c.Version)
	p.Positions = append(p.Positions, position)
	p.Histories = append(p.Histories, history)
	p.Statuses = append(p.Statuses, int64(settled.HTTPStatus))
	p.Bytes = append(p.Bytes, settled.BytesWritten)
	p.Messages = append(p.Messages, settled.Message)
}

// toSending returns a job as its common success found it.
func toSending(r pgdb.SucceedFirstRow) *lockedJob {
	j := toLockedJob(shareddb.JobHead{
		JobID: r.JobID, Project: r.Project, ConnectionID: r.ConnectionID, ScheduleID: r.ScheduleID, HoldKey: r.HoldKey,
		State: job.Sending, Version: r.Version - 1, Attempt: 1, Round: 1, ScheduleTime: r.ScheduleTime, Unasked: r.Unasked,
		StartWindow: column.Micros(r.StartWindow), StartDeadline: r.StartDeadline, KeepTrying: column.Micros(r.KeepTrying),
		Worker: r.Worker, Class: r.Class, CancelAskedAt: r.CancelAskedAt,
		ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, ErrorStatus: int(r.ErrorStatus), ErrorAt: r.ErrorAt,
	})
	j.attempts = rules.AttemptViews{{Number: 1, Round: 1, ArmedAt: r.ArmedAt, Fence: r.FenceAt, Handle: r.Handle, EffectKey: r.EffectKey}}
	return j
}

func addKept(p *pgdb.CountAnswersParams, id job.ID, s job.Settled) {
	if answer := s.Answer.Encode(); len(answer) > 0 {
		p.Jobs, p.Numbers = append(p.Jobs, id), append(p.Numbers, int64(s.Attempt))
		p.Bytes = append(p.Bytes, int64(len(answer)))
	}
}

func addEffect(p *pgdb.InsertEffectsParams, id job.ID, owns bool, e job.Effect) {
	p.Jobs = append(p.Jobs, id)
	p.ExternalIds = append(p.ExternalIds, e.ExternalID)
	p.ExternalUrls = append(p.ExternalUrls, e.ExternalURL)
	p.OwnsIds = append(p.OwnsIds, owns)
	p.Attempts = append(p.Attempts, int64(e.Attempt))
	p.Rounds = append(p.Rounds, int64(e.Round))
	p.Proofs = append(p.Proofs, int16(e.Proof))
	p.SharedWiths = append(p.SharedWiths, e.SharedWith)
}
