package server

import (
	"crypto/sha256"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/server/wire"
	"github.com/fireonce/fireonce/store"
)

// Every conversion between the wire and the domain is in the files wire_*.go.
// This one has jobs.

// convertAll converts the elements of a list.
func convertAll[A, B any](list []A, convert func(A) B) []B {
	out := slices.Grow([]B(nil), len(list))
	for _, a := range list {
		out = append(out, convert(a))
	}
	return out
}

// castAll converts a list of values whose numbers mean the same on both sides.
func castAll[B, A ~int | ~uint8 | ~int32](list []A) []B {
	return convertAll(list, func(a A) B { return B(a) })
}

func stateToWire(s job.State) fireoncev1.JobState    { return fireoncev1.JobState(s) }
func phaseToWire(s job.State) fireoncev1.Phase       { return fireoncev1.Phase(s.Phase()) }
func classToWire(c job.Class) fireoncev1.EffectClass { return fireoncev1.EffectClass(c) }

// etagOf names a version of a job or a connection. It is a digest, so that no client can guess
// the etag of a version that it has not read.
func etagOf(id job.ID, version int64) string {
	c := job.NewCanon().Field("etag", id[:]).Field("version", wire.CanonicalInt(version))
	sum := sha256.Sum256(c.Bytes())
	return tokenText.EncodeToString(sum[:etagLen])
}

// timeToWire returns nil for the zero time.
func timeToWire(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// timeFromWire cuts to microseconds; unset is the zero time. So the first
// instant of year 1, which is Go's zero time sent as it is, becomes the next one:
// it is set, and must not count as "now" or "any time".
func timeFromWire(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, badField(field, "timestamp.range", "must be a time from year 1 to 9999")
	}
	at := job.Micros(t.AsTime())
	if at.IsZero() {
		at = at.Add(time.Microsecond)
	}
	return at, nil
}

func durationToWire(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func idToWire(id job.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// idFromWire reads an id that the contract's rules have seen; empty is zero. The nil UUID
// is refused: it would read as none.
func idFromWire(field, text string) (job.ID, error) {
	if text == "" {
		return job.ID{}, nil
	}
	id, err := job.ParseID(text)
	if err != nil {
		return job.ID{}, badField(field, "string.uuid", err.Error())
	}
	if id.IsZero() {
		return job.ID{}, badField(field, "not_nil_uuid", "is the nil UUID, which names nothing; leave it out, or name one")
	}
	return id, nil
}

func idsFromWire(field string, texts []string) ([]job.ID, error) {
	var ids []job.ID
	for i, text := range texts {
		id, err := idFromWire(field+"["+strconv.Itoa(i)+"]", text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// retryToWire converts a policy; zero fields stay unset.
func retryToWire(r job.RetryPolicy) *fireoncev1.RetryPolicy {
	set := func(d time.Duration) *durationpb.Duration {
		if d == 0 {
			return nil
		}
		return durationToWire(d)
	}
	out := &fireoncev1.RetryPolicy{
		MaxAttempts: int32(r.MaxAttempts), MinBackoff: set(r.MinBackoff), MaxBackoff: set(r.MaxBackoff), Multiplier: r.Multiplier,
		KeepTrying: set(r.KeepTrying),
	}
	for _, d := range r.Delays {
		out.Delays = append(out.Delays, durationToWire(d))
	}
	return out
}

// jobToWire converts what one row has, and the policy that is in force: no payload, no
// attempt, no keys but the job's.
func jobToWire(j job.Job, inForce job.RetryPolicy) *fireoncev1.Job {
	out := &fireoncev1.Job{
		JobId: idToWire(j.ID), ProjectId: j.Project, IdempotencyKey: j.Key, EffectKey: j.OwnEffectKey,
		ConnectionId: idToWire(j.Connection), ScheduleTime: timeToWire(j.ScheduleTime),
		StartWindow: durationToWire(j.Window()),
		TimeZone:    j.TimeZone, RetryPolicy: retryToWire(inForce.InForce()), Delivery: fireoncev1.Delivery(j.Delivery),
		Labels: j.Labels, ReplyToJobId: idToWire(j.ReplyTo), ScheduleId: idToWire(j.Schedule),
		State: stateToWire(j.State), Phase: phaseToWire(j.State), EffectClass: classToWire(j.Class),
		AttemptCount: int32(j.Attempt), FailureCount: int32(j.Failures), ResendCount: int32(j.Round) - 1,
		LastError: errorToWire(j.LastError), Effect: effectToWire(j.Effect),
		Resolution:        resolutionToWire(j.Resolution),
		CancelRequestTime: timeToWire(j.CancelAsked), CreateTime: timeToWire(j.Created),
		UpdateTime: timeToWire(j.Updated), EndTime: timeToWire(j.Ended), Sequence: j.Version,
		AttemptTimeout: durationToWire(j.Retry.Timeout()),
	}
	if j.Version > 0 {
		out.Etag = etagOf(j.ID, j.Version)
	}
	switch j.State {
	case job.Scheduled, job.Retrying:
		out.NextAttemptTime = timeToWire(j.NextAt)
	case job.Ambiguous, job.Accepted:
		out.NextLookTime = timeToWire(j.NextAt)
	default: // nothing is due that a user could see
	}
	switch {
	case !j.WaitsFor.IsZero():
		out.WaitDeadline = timeToWire(j.StartDeadline)
	case j.KeepTrying > 0:
		out.KeepTryingTime = timeToWire(j.StartDeadline)
	default:
		out.StartDeadline = timeToWire(j.StartDeadline)
	}
	if !j.ReplyTo.IsZero() {
		out.WaitWindow = durationToWire(j.Wait())
	}
	if j.SkipIfPresent > 0 {
		out.SkipIfPresent = &fireoncev1.SkipIfPresent{MaxAge: durationToWire(j.SkipIfPresent)}
	}
	return out
}

// withPayload adds the payload to a job that was read with it.
func withPayload(out *fireoncev1.Job, encoded []byte) (*fireoncev1.Job, error) {
	out.Payload = &fireoncev1.Payload{}
	return out, proto.Unmarshal(encoded, out.GetPayload())
}

func errorToWire(f *job.Failure) *fireoncev1.JobError {
	if f == nil {
		return nil
	}
	return &fireoncev1.JobError{
		Kind: failureToWire(f.Kind), Message: text(f.Message),
		HttpStatus: int32(f.HTTPStatus), Time: timeToWire(f.At),
	}
}

func effectToWire(e *job.Effect) *fireoncev1.Effect {
	if e == nil {
		return nil
	}
	return &fireoncev1.Effect{
		ExternalId: text(e.ExternalID), ExternalUrl: text(e.ExternalURL), EffectTime: timeToWire(e.At),
		Proof: fireoncev1.Effect_Proof(e.Proof), Attempt: int32(e.Attempt), SharedWithJobId: idToWire(e.SharedWith),
	}
}

func resolutionToWire(r *job.Resolution) *fireoncev1.Resolution {
	if r == nil {
		return nil
	}
	return &fireoncev1.Resolution{
		Decision: fireoncev1.Resolution_Decision(r.Ruling), Actor: r.Actor, Note: r.Note, ResolveTime: timeToWire(r.At),
	}
}

func rulingFromWire(actor string, r *fireoncev1.ResolveJobRequest) job.Resolved {
	return job.Resolved{
		Ruling: job.Ruling(r.GetDecision()), Actor: actor, Note: r.GetNote(),
		ExternalID: r.GetExternalId(), OwnEffectKey: r.GetEffectKey(), Override: r.GetOverrideReconciler(),
	}
}

// text makes the words of a platform fit for a wire that carries UTF-8 only.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

var orders = map[fireoncev1.JobOrder]store.Order{
	fireoncev1.JobOrder_JOB_ORDER_UNSPECIFIED:        store.ByScheduledDesc,
	fireoncev1.JobOrder_JOB_ORDER_SCHEDULE_TIME_DESC: store.ByScheduledDesc,
	fireoncev1.JobOrder_JOB_ORDER_SCHEDULE_TIME_ASC:  store.ByScheduledAsc,
	fireoncev1.JobOrder_JOB_ORDER_CREATE_TIME_DESC:   store.ByCreatedDesc,
}

// filterFromWire makes the query of what a filter selects. In a query an empty value is no
// condition, so a field that is set and would become one is refused.
func filterFromWire(project string, f *fireoncev1.JobFilter) (store.JobQuery, error) {
	q := store.JobQuery{
		Project: project, Labels: f.GetLabels(), States: castAll[job.State](f.GetStates()),
		ErrorKinds: convertAll(f.GetErrorKinds(), failureFromWire), Classes: castAll[job.Class](f.GetEffectClasses()),
		Destinations: f.GetDestinations(),
	}
	var err error
	if q.States, err = inPhases(q.States, f.GetPhases()); err != nil {
		return q, err
	}
	if q.Connections, err = idsFromWire("filter.connection_ids", f.GetConnectionIds()); err != nil {
		return q, err
	}
	if q.Jobs, err = idsFromWire("filter.job_ids", f.GetJobIds()); err != nil {
		return q, err
	}
	if q.Schedule, err = idFromWire("filter.schedule_id", f.GetScheduleId()); err != nil {
		return q, err
	}
	for _, t := range []struct {
		field string
		from  *timestamppb.Timestamp
		to    *time.Time
	}{
		{"filter.schedule_time_from", f.GetScheduleTimeFrom(), &q.ScheduleTimeFrom},
		{"filter.schedule_time_before", f.GetScheduleTimeBefore(), &q.ScheduleTimeBefore},
		{"filter.create_time_from", f.GetCreateTimeFrom(), &q.CreatedFrom},
		{"filter.create_time_before", f.GetCreateTimeBefore(), &q.CreatedBefore},
		{"filter.end_time_from", f.GetEndTimeFrom(), &q.EndedFrom},
		{"filter.end_time_before", f.GetEndTimeBefore(), &q.EndedBefore},
	} {
		if *t.to, err = timeFromWire(t.field, t.from); err != nil {
			return q, err
		}
	}
	q.KeyPrefix, q.KeyText = f.GetIdempotencyKeyPrefix(), f.GetIdempotencyKeyText()
	q.ExternalID, q.InState = f.GetExternalId(), submit.Duration(f.GetStateAge())
	if q.Recipient = submit.Recipient(f.GetRecipient()); q.Recipient == "" && f.GetRecipient() != "" {
		return q, badField("filter.recipient", "not_blank", "is blank; leave it out, or name a recipient")
	}
	return q, nil
}

// inPhases returns the states of a filter that are in one of its phases. No states, and no
// phases, are all.
func inPhases(states []job.State, phases []fireoncev1.Phase) ([]job.State, error) {
	if len(phases) == 0 {
		return states, nil
	}
	var out []job.State
	for _, s := range job.States {
		if slices.Contains(phases, phaseToWire(s)) && (len(states) == 0 || slices.Contains(states, s)) {
			out = append(out, s)
		}
	}
	if len(out) == 0 {
		return nil, badField("filter.phases", "some_state", "none of filter.states is in one of these phases")
	}
	return out, nil
}
