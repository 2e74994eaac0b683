package postgres

import (
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Every conversion between the domain and the rows of jobs is in this file and in
// convert_work.go. Empty bytes are not NULL (see values.go for times and ids).

func micros(d time.Duration) int64      { return d.Microseconds() }
func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// toText returns the empty text for NULL.
func toText(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// setOf returns the set of ids.
func setOf(ids []job.ID) map[job.ID]bool {
	out := make(map[job.ID]bool, len(ids))
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// fromBytes keeps empty bytes apart from NULL.
func fromBytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// toBytes returns nil for empty bytes.
func toBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func toSnapshot(r pgdb.SnapshotsRow, now time.Time) (job.Snapshot, error) {
	spec, err := toSpec(r)
	if err != nil {
		return job.Snapshot{}, fmt.Errorf("job %s: %w", r.JobHead.JobID, err)
	}
	s := job.Snapshot{
		Job: job.Job{Spec: spec, Status: toStatus(r.JobHead)}, Now: now.UTC(),
	}
	for _, n := range r.EarlierOpen {
		s.Open = append(s.Open, int(n))
	}
	s.EarlierFence = r.EarlierFence
	if m := newestView(r.JobHead); m != nil {
		s.Fence, s.Handle, s.PeerEnded = m.Fence, m.Handle, m.PeerEnded
		if m.Result.Open() {
			s.Open = append(s.Open, m.Number)
		}
		if m.Round == s.Round {
			s.RoundArmed, s.RoundKey = r.JobHead.RoundArmedAt, m.EffectKey
		}
	}
	if !r.EffectAt.IsZero() {
		s.Effect = &job.Effect{
			Attempt: int(r.EffectAttempt), Round: int(r.EffectRound), ExternalID: r.EffectID, ExternalURL: r.EffectUrl,
			Proof: job.Proof(r.EffectProof), At: r.EffectAt, SharedWith: job.ID(r.EffectSharedWith),
		}
	} else {
		s.Effect = rowEffect(r.JobHead)
	}
	if !r.RulingAt.IsZero() {
		s.Resolution = &job.Resolution{
			Ruling: job.Ruling(r.Ruling), Actor: r.RulingActor, Note: r.RulingNote, At: r.RulingAt,
		}
	}
	return s, nil
}

// rowEffect returns the effect that a job's own row has; nil: none.
func rowEffect(st pgdb.JobHead) *job.Effect {
	if st.EffectAt.IsZero() || st.EffectAttempt == nil || st.EffectRound == nil {
		return nil
	}
	return &job.Effect{
		Attempt: int(*st.EffectAttempt), Round: int(*st.EffectRound), Proof: job.ProofResponse, At: st.EffectAt,
	}
}

// unnamed reports whether a job's own row can hold an effect.
func unnamed(e job.Effect) bool {
	return e.Proof == job.ProofResponse && e.Attempt > 0 && e.Round > 0 && e.ExternalID == "" && e.ExternalURL == "" && e.SharedWith.IsZero()
}

func toSpec(r pgdb.SnapshotsRow) (job.Spec, error) {
	labels, fp, err := store.DecodeTerms(r.Labels, r.Fingerprint)
	if err != nil {
		return job.Spec{}, err
	}
	return job.Spec{
		ID: r.JobHead.JobID, Project: r.JobHead.Project, Key: r.IdemKey, Connection: r.JobHead.ConnectionID, HoldKey: r.JobHead.HoldKey,
		PayloadKind: r.PayloadKind, Payload: toBytes(r.Payload), OwnEffectKey: r.OwnEffectKey,
		StartWindow: fromMicros(r.JobHead.StartWindow), WaitWindow: fromMicros(r.JobHead.WaitWindow),
		Retry: job.RetryPolicy{
			MaxAttempts: int(r.MaxAttempts), MinBackoff: fromMicros(r.MinBackoff),
			MaxBackoff: fromMicros(r.MaxBackoff), AttemptTimeout: fromMicros(r.AttemptTimeout),
		},
		Policy: r.Policy, Labels: labels, TimeZone: r.TimeZone, ReplyTo: job.ID(r.ReplyTo),
		Schedule: job.ID(r.ScheduleID), CoolDown: fromMicros(r.CoolDown), SkipIfPresent: fromMicros(r.SkipIfPresent),
		Trace: toText(r.Trace), Fingerprint: fp, Created: r.CreatedAt,
	}, nil
}

func toStatus(st pgdb.JobHead) job.Status {
	s := job.Status{
		State: st.State, Version: st.Version, Attempt: st.Attempt, Round: st.Round, Failures: st.Failures, Claims: st.Claims,
		Looks: st.Looks, Negatives: st.Negatives, Misses: st.Misses, ScheduleTime: st.ScheduleTime, Unasked: st.Unasked,
		StartDeadline: st.StartDeadline, NextAt: st.NextAt, ClaimToken: job.ID(st.ClaimToken), Worker: st.Worker, Class: st.Class,
		CancelAsked: st.CancelAskedAt, Blocked: st.Blocked, WaitsFor: job.ID(st.WaitsFor), PredecessorEnd: st.PredecessorEnd,
		Updated: st.UpdatedAt, Ended: st.EndedAt,
	}
	if st.ErrorKind != 0 {
		s.LastError = &job.Failure{
			Kind: st.ErrorKind, Message: st.ErrorMessage,
			HTTPStatus: st.ErrorStatus, At: st.ErrorAt,
		}
	}
	return s
}

func toMeta(m pgdb.Meta) store.Meta {
	is := identity{system: m.SystemID, timeline: m.Timeline, database: m.DatabaseOid, relation: m.RelationOid}
	return store.Meta{
		StoreID: m.StoreID, Engine: "postgres", Created: m.CreatedAt, Quarantined: m.Quarantined,
		Incarnation: m.Incarnation, Namespace: m.Namespace, Identity: is.String(),
	}
}

// jobColumns transposes new jobs to the columns of their insert.
func jobColumns(jobs []creation, before int64, now time.Time) pgdb.InsertJobsParams {
	p := pgdb.InsertJobsParams{Now: now, Before: before}
	columns(len(jobs), &p.Ids, &p.Connections, &p.ReplyTos, &p.Schedules, &p.WaitsFors)
	columns(len(jobs), &p.Projects, &p.IdemKeys, &p.PayloadKinds, &p.Labels, &p.TimeZones, &p.HoldKeys, &p.OwnEffectKeys, &p.Traces)
	columns(len(jobs), &p.StartWindows, &p.WaitWindows, &p.MaxAttempts, &p.MinBackoffs, &p.MaxBackoffs, &p.AttemptTimeouts, &p.CoolDowns, &p.SkipsIfPresent)
	columns(len(jobs), &p.Policies, &p.Classes, &p.PredecessorEnds)
	columns(len(jobs), &p.Unaskeds)
	columns(len(jobs), &p.Fingerprints, &p.Payloads, &p.Histories)
	columns(len(jobs), &p.ScheduleTimes, &p.StartDeadlines)
	for i := range jobs {
		n := &jobs[i]
		s := &n.snapshot
		p.Ids = append(p.Ids, s.ID)
		p.Projects = append(p.Projects, s.Project)
		p.IdemKeys = append(p.IdemKeys, s.Key)
		p.Connections = append(p.Connections, s.Connection)
		p.PayloadKinds = append(p.PayloadKinds, s.PayloadKind)
		p.StartWindows = append(p.StartWindows, micros(s.StartWindow))
		p.WaitWindows = append(p.WaitWindows, micros(s.WaitWindow))
		p.MaxAttempts = append(p.MaxAttempts, int64(s.Retry.MaxAttempts))
		p.MinBackoffs = append(p.MinBackoffs, micros(s.Retry.MinBackoff))
		p.MaxBackoffs = append(p.MaxBackoffs, micros(s.Retry.MaxBackoff))
		p.AttemptTimeouts = append(p.AttemptTimeouts, micros(s.Retry.AttemptTimeout))
		p.Policies = append(p.Policies, int16(s.Policy))
		p.Labels = append(p.Labels, store.EncodeLabels(s.Labels))
		p.TimeZones = append(p.TimeZones, s.TimeZone)
		p.ReplyTos = append(p.ReplyTos, s.ReplyTo)
		p.Schedules = append(p.Schedules, s.Schedule)
		p.Fingerprints = append(p.Fingerprints, s.Fingerprint.Bytes())
		p.Payloads = append(p.Payloads, fromBytes(s.Payload))
		p.HoldKeys = append(p.HoldKeys, s.HoldKey)
		p.OwnEffectKeys = append(p.OwnEffectKeys, s.OwnEffectKey)
		p.CoolDowns = append(p.CoolDowns, micros(s.CoolDown))
		p.SkipsIfPresent = append(p.SkipsIfPresent, micros(s.SkipIfPresent))
		p.Traces = append(p.Traces, s.Trace)
		p.ScheduleTimes = append(p.ScheduleTimes, s.ScheduleTime)
		p.Unaskeds = append(p.Unaskeds, s.Unasked)
		p.StartDeadlines = append(p.StartDeadlines, s.StartDeadline)
		p.Classes = append(p.Classes, int16(s.Class))
		p.WaitsFors = append(p.WaitsFors, s.WaitsFor)
		p.PredecessorEnds = append(p.PredecessorEnds, int16(s.PredecessorEnd))
		p.Histories = append(p.Histories, n.history)
	}
	return p
}

// columns allocates columns of rows elements, in one piece for all columns of a type.
func columns[T any](rows int, of ...*[]T) {
	all := make([]T, rows*len(of))
	for i, c := range of {
		*c = all[i*rows : i*rows : (i+1)*rows]
	}
}

// digestOf returns the digest under which a key is bound.
func digestOf(project, key string) []byte {
	sum := job.KeyDigest(project, key)
	return sum[:]
}
