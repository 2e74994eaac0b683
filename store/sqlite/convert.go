package sqlite

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Every conversion between the domain and the rows is in this file. Zero times
// and zero ids are NULL where the column may be, and empty bytes are not NULL.

func toMicros(t time.Time) sql.NullInt64 {
	if t.IsZero() {
		return sql.NullInt64{}
	}
	return someMicros(t.UnixMicro())
}

func someMicros(us int64) sql.NullInt64 { return sql.NullInt64{Int64: us, Valid: true} }

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

func fromNullMicros(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return fromMicros(n.Int64)
}

func micros(d time.Duration) int64        { return d.Microseconds() }
func fromDuration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

func fromID(id job.ID) []byte { return id[:] }

func toIDs(ids [][]byte) []job.ID {
	out := make([]job.ID, len(ids))
	for i, id := range ids {
		out[i] = toID(id)
	}
	return out
}

func fromIDs(ids []job.ID) [][]byte {
	out := make([][]byte, len(ids))
	for i := range ids {
		out[i] = ids[i][:]
	}
	return out
}

// optionalText returns NULL for the empty text.
func optionalText(text string) sql.NullString {
	return sql.NullString{String: text, Valid: text != ""}
}

func someText(text string) sql.NullString { return sql.NullString{String: text, Valid: true} }

func fromOptionalID(id job.ID) []byte {
	if id.IsZero() {
		return nil
	}
	return id[:]
}

// toID reads an id; NULL is the zero id.
func toID(b []byte) job.ID {
	var id job.ID
	copy(id[:], b)
	return id
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

func toBool(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func newMetaParams(id job.ID, now int64, identity, namespace string) sqlitedb.CreateMetaParams {
	return sqlitedb.CreateMetaParams{StoreID: fromID(id), CreatedAt: now, FileIdentity: identity, Namespace: namespace}
}

func openedParams(identity string, generation int64, reason string, incarnation int64) sqlitedb.SetOpenedParams {
	return sqlitedb.SetOpenedParams{
		FileIdentity: identity, Generation: generation, Quarantined: reason, Incarnation: incarnation,
	}
}

func metaOf(m sqlitedb.Meta) store.Meta {
	return store.Meta{
		StoreID: toID(m.StoreID), Engine: "sqlite", Created: fromMicros(m.CreatedAt), Quarantined: m.Quarantined,
		Incarnation: m.Incarnation, Namespace: m.Namespace, Identity: m.FileIdentity,
	}
}

// newRows returns the rows of a job that is stored for the first time.
func newRows(n job.Job) (sqlitedb.Job, sqlitedb.JobState) {
	s := n.Spec
	created := s.Created.UnixMicro()
	j := sqlitedb.Job{
		ID: fromID(s.ID), Project: s.Project, IdemKey: s.Key, OwnEffectKey: s.OwnEffectKey,
		ConnectionID: fromID(s.Connection), HoldKey: s.HoldKey, PayloadKind: s.PayloadKind,
		StartWindow: micros(s.StartWindow), MaxAttempts: int64(s.Retry.MaxAttempts),
		MinBackoff: micros(s.Retry.MinBackoff), MaxBackoff: micros(s.Retry.MaxBackoff),
		AttemptTimeout: micros(s.Retry.AttemptTimeout), Policy: int64(s.Policy), Labels: store.EncodeLabels(s.Labels),
		TimeZone: s.TimeZone, ReplyTo: fromOptionalID(s.ReplyTo), ScheduleID: fromOptionalID(s.Schedule),
		Fingerprint: s.Fingerprint.Bytes(), CreatedAt: created, Payload: fromBytes(s.Payload),
		CoolDown: micros(s.CoolDown), SkipIfPresent: micros(s.SkipIfPresent), Trace: optionalText(s.Trace),
	}
	st := sqlitedb.JobState{
		JobID: j.ID, Project: j.Project, ConnectionID: j.ConnectionID, HoldKey: j.HoldKey, State: int64(n.State),
		Listed: int64(n.State), Version: n.Version, Round: int64(n.Round), ScheduleTime: n.ScheduleTime.UnixMicro(),
		Unasked: toBool(n.Unasked), StartDeadline: n.StartDeadline.UnixMicro(), WaitWindow: micros(s.WaitWindow),
		NextAt: toMicros(n.NextAt), Class: int64(n.Status.Class), WaitsFor: fromOptionalID(n.WaitsFor),
		PredecessorEnd: int64(n.PredecessorEnd), CreatedAt: created, UpdatedAt: created, StateSince: created,
	}
	return j, st
}

func insertStateParams(st sqlitedb.JobState) sqlitedb.InsertStateParams {
	return sqlitedb.InsertStateParams{
		JobID: st.JobID, Project: st.Project, ConnectionID: st.ConnectionID, HoldKey: st.HoldKey,
		ScheduleTime: st.ScheduleTime, Unasked: st.Unasked, StartDeadline: st.StartDeadline, NextAt: st.NextAt,
		Class: st.Class, WaitsFor: st.WaitsFor, PredecessorEnd: st.PredecessorEnd, WaitWindow: st.WaitWindow,
		CreatedAt: st.CreatedAt, UpdatedAt: st.UpdatedAt, StateSince: st.StateSince, History: st.History,
	}
}

func setStateParams(st sqlitedb.JobState, history []byte) sqlitedb.SetStateParams {
	return sqlitedb.SetStateParams{
		JobID: st.JobID, State: st.State, Listed: st.Listed, Version: st.Version, Round: st.Round, Failures: st.Failures,
		Claims: st.Claims, Looks: st.Looks, Negatives: st.Negatives, Misses: st.Misses, HoldKey: st.HoldKey,
		ScheduleTime: st.ScheduleTime, Unasked: st.Unasked, StartDeadline: st.StartDeadline,
		NextAt: st.NextAt, ClaimToken: st.ClaimToken, CancelAskedAt: st.CancelAskedAt, Blocked: st.Blocked,
		ErrorKind: st.ErrorKind, ErrorMessage: st.ErrorMessage, ErrorStatus: st.ErrorStatus,
		ErrorAt: st.ErrorAt, ResolutionID: st.ResolutionID, UpdatedAt: st.UpdatedAt, EndedAt: st.EndedAt,
		EffectAttempt: st.EffectAttempt, StateSince: st.StateSince, History: history,
	}
}

// fromDue returns both rows of a job that was found runnable in a runnable row. Columns that
// are not read follow from that, or are copies.
func fromDue(r sqlitedb.DueJobsRow, ready sqlitedb.RunnableRowsRow) (sqlitedb.Job, sqlitedb.JobState) {
	j := sqlitedb.Job{
		ID: r.ID, Project: r.Project, IdemKey: r.IdemKey, ConnectionID: ready.ConnectionID, HoldKey: ready.HoldKey,
		PayloadKind: r.PayloadKind, StartWindow: r.StartWindow, MaxAttempts: r.MaxAttempts,
		MinBackoff: r.MinBackoff, MaxBackoff: r.MaxBackoff, AttemptTimeout: r.AttemptTimeout,
		Policy: r.Policy, Labels: r.Labels, TimeZone: r.TimeZone, ReplyTo: r.ReplyTo,
		ScheduleID: r.ScheduleID, Fingerprint: r.Fingerprint, CreatedAt: r.CreatedAt, Payload: r.Payload,
		OwnEffectKey: r.OwnEffectKey, CoolDown: r.CoolDown, SkipIfPresent: r.SkipIfPresent, Trace: r.Trace,
	}
	return j, sqlitedb.JobState{
		JobID: r.ID, Project: r.Project, ConnectionID: ready.ConnectionID, HoldKey: ready.HoldKey, State: r.State,
		Listed: r.State, Version: r.Version, Attempt: r.Attempt, Round: r.Round, Failures: r.Failures,
		Claims: r.Claims, Looks: r.Looks, Negatives: r.Negatives, Misses: r.Misses, ScheduleTime: r.ScheduleTime,
		Unasked: r.Unasked, StartDeadline: r.StartDeadline, WaitWindow: r.WaitWindow, NextAt: r.NextAt,
		ClaimedAt: r.ClaimedAt, Worker: r.Worker, Class: r.Class, CancelAskedAt: r.CancelAskedAt, Blocked: r.Blocked,
		ErrorKind: r.ErrorKind, ErrorMessage: r.ErrorMessage, ErrorStatus: r.ErrorStatus, ErrorAt: r.ErrorAt,
		ResolutionID: r.ResolutionID, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
}

func toSpec(j sqlitedb.Job, st sqlitedb.JobState) (job.Spec, error) {
	labels, fp, err := store.DecodeTerms(j.Labels, j.Fingerprint)
	if err != nil {
		return job.Spec{}, fmt.Errorf("job %s: %w", toID(j.ID), err)
	}
	return job.Spec{
		ID: toID(j.ID), Project: j.Project, Key: j.IdemKey, Connection: toID(j.ConnectionID),
		HoldKey: j.HoldKey, OwnEffectKey: j.OwnEffectKey, PayloadKind: j.PayloadKind, Payload: toBytes(j.Payload),
		StartWindow: fromDuration(j.StartWindow), WaitWindow: fromDuration(st.WaitWindow),
		Retry: job.RetryPolicy{
			MaxAttempts: int(j.MaxAttempts), MinBackoff: fromDuration(j.MinBackoff),
			MaxBackoff: fromDuration(j.MaxBackoff), AttemptTimeout: fromDuration(j.AttemptTimeout),
		},
		Policy: job.Policy(j.Policy), Labels: labels, TimeZone: j.TimeZone,
		ReplyTo: toID(j.ReplyTo), Schedule: toID(j.ScheduleID), CoolDown: fromDuration(j.CoolDown),
		SkipIfPresent: fromDuration(j.SkipIfPresent), Trace: j.Trace.String,
		Fingerprint: fp, Created: fromMicros(j.CreatedAt),
	}, nil
}

func toStatus(st sqlitedb.JobState) job.Status {
	s := job.Status{
		State: job.State(st.State), Version: st.Version, Attempt: int(st.Attempt), Round: int(st.Round),
		Failures: int(st.Failures), Claims: int(st.Claims), Looks: int(st.Looks), Negatives: int(st.Negatives),
		Misses: int(st.Misses), ScheduleTime: fromMicros(st.ScheduleTime), Unasked: st.Unasked != 0,
		StartDeadline: fromMicros(st.StartDeadline), NextAt: fromNullMicros(st.NextAt),
		ClaimToken: toID(st.ClaimToken), Worker: st.Worker, Class: job.Class(st.Class),
		CancelAsked: fromNullMicros(st.CancelAskedAt), Blocked: st.Blocked, WaitsFor: toID(st.WaitsFor),
		PredecessorEnd: job.State(st.PredecessorEnd), Updated: fromMicros(st.UpdatedAt),
		Ended: fromNullMicros(st.EndedAt),
	}
	if st.ErrorKind != 0 {
		s.LastError = &job.Failure{
			Kind: job.FailureKind(st.ErrorKind), Message: st.ErrorMessage,
			HTTPStatus: int(st.ErrorStatus), At: fromNullMicros(st.ErrorAt),
		}
	}
	return s
}

// toReply returns the parts of a waiting reply that its release depends on.
func toReply(r sqlitedb.WaitingJobsRow) job.Job {
	return job.Job{
		Spec: job.Spec{StartWindow: fromDuration(r.StartWindow)},
		Status: job.Status{
			State: job.State(r.State), ScheduleTime: fromMicros(r.ScheduleTime),
			StartDeadline: fromMicros(r.StartDeadline), NextAt: fromNullMicros(r.NextAt),
		},
	}
}

// setLeased writes what a claim, or a lease for a look, changes in a job.
func setLeased(st *sqlitedb.JobState, s job.Status, now int64) {
	if st.State != int64(s.State) {
		st.StateSince = now
	}
	st.State, st.Version, st.ClaimToken, st.ClaimedAt = int64(s.State), s.Version, fromID(s.ClaimToken), someMicros(now)
	st.Worker, st.NextAt, st.Blocked, st.UpdatedAt = s.Worker, toMicros(s.NextAt), s.Blocked, s.Updated.UnixMicro()
}

// armedRow returns the row of a job that an arm leaves like s.
func armedRow(st sqlitedb.JobState, s job.Snapshot) sqlitedb.JobState {
	setStatus(&st, s.Status)
	st.Attempt, st.Class, st.Worker = int64(s.Attempt), int64(s.Class), s.Worker
	return st
}

// setStatus writes what a decision may change in a job.
func setStatus(st *sqlitedb.JobState, s job.Status) {
	if st.State != int64(s.State) {
		st.StateSince = s.Updated.UnixMicro()
	}
	st.State, st.Version = int64(s.State), s.Version
	if !s.State.InFlight() {
		st.Listed = st.State
	}
	st.Round, st.Failures, st.Claims = int64(s.Round), int64(s.Failures), int64(s.Claims)
	st.Looks, st.Negatives, st.Misses, st.Blocked = int64(s.Looks), int64(s.Negatives), int64(s.Misses), s.Blocked
	st.ScheduleTime, st.Unasked, st.StartDeadline = s.ScheduleTime.UnixMicro(), toBool(s.Unasked), s.StartDeadline.UnixMicro()
	st.NextAt, st.ClaimToken = toMicros(s.NextAt), fromOptionalID(s.ClaimToken)
	st.CancelAskedAt, st.UpdatedAt, st.EndedAt = toMicros(s.CancelAsked), s.Updated.UnixMicro(), toMicros(s.Ended)
	if f := s.LastError; f != nil {
		st.ErrorKind, st.ErrorMessage = int64(f.Kind), f.Message
		st.ErrorStatus, st.ErrorAt = int64(f.HTTPStatus), toMicros(f.At)
	}
}

func toEffect(e sqlitedb.Effect) *job.Effect {
	return &job.Effect{
		Attempt: int(e.Attempt), Round: int(e.Round), ExternalID: e.ExternalID,
		ExternalURL: e.ExternalUrl, Proof: job.Proof(e.Proof), At: fromMicros(e.At), SharedWith: toID(e.SharedWith),
	}
}

// toOwner returns the job of an effect's row, in the form in which another effect is judged.
func toOwner(e sqlitedb.Effect) rules.Owner {
	return rules.Owner{Job: toID(e.JobID), Proof: job.Proof(e.Proof), Removed: e.JobRemoved == 1, Notified: e.Told == 1}
}

// unnamed reports whether a job's own row can hold an effect.
func unnamed(e job.Effect) bool {
	return e.Proof == job.ProofResponse && e.Attempt > 0 && e.Round > 0 && e.ExternalID == "" && e.ExternalURL == "" && e.SharedWith.IsZero()
}

// ownEffect returns the effect that the job's own row holds.
func ownEffect(st sqlitedb.JobState) *job.Effect {
	return &job.Effect{
		Attempt: int(st.EffectAttempt.Int64), Round: int(st.Round), Proof: job.ProofResponse, At: fromNullMicros(st.EndedAt),
	}
}

func toResolution(r sqlitedb.Resolution) *job.Resolution {
	return &job.Resolution{Ruling: job.Ruling(r.Ruling), Actor: r.Actor, Note: r.Note, At: fromMicros(r.At)}
}

// attemptOf returns the newest attempt of a job, as a row of attempts.
func attemptOf(st sqlitedb.JobState) sqlitedb.Attempt {
	return sqlitedb.Attempt{
		JobID: st.JobID, Number: st.Attempt, Round: st.ArmedRound.Int64, ArmToken: st.ArmToken,
		Worker: st.ArmedBy.String, ClaimedAt: st.ArmedClaimedAt, ArmedAt: st.ArmedAt.Int64,
		SendDeadline: st.SendDeadline.Int64, AnswerDeadline: st.AnswerDeadline.Int64, FenceAt: st.FenceAt.Int64,
		EffectKey: st.EffectKey.String, RequestDigest: st.RequestDigest,
		CredentialVersion: st.CredentialVersion.Int64, AccountIdentity: st.AccountIdentity.String,
		Watermark: st.Watermark.String, Handle: st.Handle.String, Span: st.Span, Result: st.Result.Int64,
		Kind: st.Kind.Int64, Message: st.Message.String, HttpStatus: st.HttpStatus.Int64,
		BytesWritten: st.BytesWritten.Int64, PeerEnded: st.PeerEnded, EndedAt: st.AttemptEndedAt, Answer: st.Answer,
		Frozen: st.Frozen,
	}
}

func toView(a sqlitedb.Attempt) rules.AttemptView {
	return rules.AttemptView{
		Number: int(a.Number), Round: int(a.Round), Result: job.Result(a.Result), ArmedAt: fromMicros(a.ArmedAt),
		Fence: fromMicros(a.FenceAt), PeerEnded: a.PeerEnded == 1, Handle: a.Handle, EffectKey: a.EffectKey,
		Digest: string(a.RequestDigest),
	}
}

func toViews(rows []sqlitedb.AttemptViewsRow) rules.AttemptViews {
	out := make(rules.AttemptViews, len(rows), len(rows)+1)
	for i, r := range rows {
		out[i] = toView(sqlitedb.Attempt{
			Number: r.Number, Round: r.Round, Result: r.Result, ArmedAt: r.ArmedAt, FenceAt: r.FenceAt,
			PeerEnded: r.PeerEnded, Handle: r.Handle, EffectKey: r.EffectKey, RequestDigest: r.RequestDigest,
		})
	}
	return out
}

func toHold(r sqlitedb.ConnectionReady) rules.Hold {
	return rules.Hold{Paused: r.Paused == 1, Refused: r.AuthHoldAt.Valid, LimitedUntil: fromMicros(r.RateLimitedUntil)}
}

// armParams returns the parameters of an arm that leaves the job like next.
func armParams(a store.Arm, next job.Snapshot, attempt job.Attempt) sqlitedb.ArmJobParams {
	return sqlitedb.ArmJobParams{
		Class: int64(next.Class), Fence: toMicros(next.Fence), Worker: next.Worker, Now: attempt.ArmedAt.UnixMicro(),
		JobID: fromID(next.ID), Version: a.Version, ClaimToken: fromID(a.Claim), ArmToken: fromID(attempt.ArmToken),
		SendDeadline: toMicros(attempt.SendDeadline), AnswerDeadline: toMicros(attempt.AnswerDeadline),
		EffectKey: someText(attempt.EffectKey), RequestDigest: fromBytes(attempt.RequestDigest),
		CredentialVersion: someMicros(int64(attempt.CredentialVersion)), AccountIdentity: someText(attempt.AccountIdentity),
		Watermark: someText(attempt.Watermark), Handle: someText(attempt.Handle), Span: attempt.Span.Bytes(),
		Frozen: fromBytes(attempt.Frozen),
	}
}

// claimArmedParams returns the parameters of a claim that arms.
func claimArmedParams(a sqlitedb.ArmJobParams, version int64, history []byte) sqlitedb.ClaimArmedParams {
	return sqlitedb.ClaimArmedParams{
		Class: a.Class, Fence: a.Fence, Now: someMicros(a.Now), Worker: a.Worker, ArmToken: a.ArmToken,
		SendDeadline: a.SendDeadline, AnswerDeadline: a.AnswerDeadline, EffectKey: a.EffectKey,
		RequestDigest: a.RequestDigest, CredentialVersion: a.CredentialVersion, AccountIdentity: a.AccountIdentity,
		Watermark: a.Watermark, Span: a.Span, Frozen: a.Frozen, History: history, JobID: a.JobID, Version: version,
	}
}

func insertObservationParams(id job.ID, o job.Observation) sqlitedb.InsertObservationParams {
	return sqlitedb.InsertObservationParams{
		JobID: fromID(id), Attempt: int64(o.Attempt), Verdict: int64(o.Verdict), ExternalID: o.ExternalID,
		ExternalUrl: o.ExternalURL, Handle: o.Handle, Detail: o.Detail,
		BegunAt: toMicros(o.BegunAt), EndedAt: toMicros(o.EndedAt),
	}
}

// isSuccessOnly reports whether an outcome is a success without any other data than Succeed
// writes.
func isSuccessOnly(s *job.Settled) bool {
	return s != nil && s.Result == job.ResultSucceeded && s.Kind == 0 && s.Handle == ""
}

// settleNewest adds the result of the newest attempt; nil: none.
func settleNewest(p *sqlitedb.SetStateParams, s *job.Settled) {
	if s == nil {
		return
	}
	p.Result, p.Kind, p.Message = someMicros(int64(s.Result)), someMicros(int64(s.Kind)), someText(s.Message)
	p.HttpStatus, p.BytesWritten = someMicros(int64(s.HTTPStatus)), someMicros(s.BytesWritten)
	p.PeerEnded = someMicros(toBool(s.PeerEnded))
	p.Handle, p.Answer = optionalText(s.Handle), s.Answer.Encode()
}

// onlySucceeded reports whether the job differs from before only in the columns that every
// success changes.
func onlySucceeded(st, old sqlitedb.JobState) bool {
	texts := func(s sqlitedb.JobState) [3]string { return [...]string{s.HoldKey, s.Blocked, s.ErrorMessage} }
	numbers := func(s sqlitedb.JobState) [11]int64 {
		return [...]int64{
			s.Round, s.Failures, s.Claims, s.Looks, s.Negatives, s.Misses, s.ScheduleTime, s.Unasked, s.StartDeadline, s.ErrorKind, s.ErrorStatus,
		}
	}
	times := func(s sqlitedb.JobState) [3]sql.NullInt64 {
		return [...]sql.NullInt64{s.CancelAskedAt, s.ErrorAt, s.ResolutionID}
	}
	return job.State(old.State) == job.Sending && job.State(st.State) == job.Succeeded &&
		texts(st) == texts(old) && numbers(st) == numbers(old) && times(st) == times(old)
}

// effectOf returns the row that was written.
func effectOf(p sqlitedb.PutEffectParams) sqlitedb.Effect {
	return sqlitedb.Effect{
		JobID: p.JobID, Account: p.Account, Namespace: p.Namespace, ExternalID: p.ExternalID, ExternalUrl: p.ExternalUrl,
		OwnsID: p.OwnsID, Attempt: p.Attempt, Round: p.Round, Proof: p.Proof, At: p.At, SharedWith: p.SharedWith,
	}
}

func newEffectRow(id []byte, account, namespace string, e job.Effect, now int64) sqlitedb.PutEffectParams {
	return sqlitedb.PutEffectParams{
		JobID: id, Account: account, Namespace: namespace, ExternalID: e.ExternalID, ExternalUrl: e.ExternalURL,
		OwnsID: 1, Attempt: int64(e.Attempt), Round: int64(e.Round), Proof: int64(e.Proof), At: now,
	}
}

func settleParams(id []byte, s job.Settled, now int64) sqlitedb.SettleAttemptParams {
	return sqlitedb.SettleAttemptParams{
		Result: int64(s.Result), Kind: int64(s.Kind), Message: s.Message, HttpStatus: int64(s.HTTPStatus),
		BytesWritten: s.BytesWritten, PeerEnded: toBool(s.PeerEnded), Handle: s.Handle, Answer: s.Answer.Encode(),
		Now: someMicros(now), JobID: id, Number: int64(s.Attempt),
	}
}

// digestOf returns the digest under which a key is bound.
func digestOf(project, key string) []byte {
	sum := job.KeyDigest(project, key)
	return sum[:]
}
