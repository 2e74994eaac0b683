package postgres

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
)

// Every conversion between the domain and the rows is in this file and in
// convert_work.go. Zero times and zero ids are NULL where the column may be, and
// empty bytes are not NULL.

// fromTime cuts a time to what the database keeps; the zero time is NULL.
func fromTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return someTime(t)
}

func someTime(t time.Time) *time.Time {
	t = job.Micros(t)
	return &t
}

// toTime gives a time in UTC; NULL is the zero time.
func toTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func micros(d time.Duration) int64      { return d.Microseconds() }
func fromMicros(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
func fromID(id job.ID) pgtype.UUID      { return pgtype.UUID{Bytes: id, Valid: true} }
func toID(id pgtype.UUID) job.ID        { return id.Bytes }
func optionalID(id job.ID) pgtype.UUID  { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

func fromIDs(ids []job.ID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		out[i] = fromID(id)
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

// toBytes gives nil for empty bytes.
func toBytes(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func toSnapshot(r pgdb.SnapshotsRow, now time.Time) (job.Snapshot, error) {
	spec, err := toSpec(r)
	if err != nil {
		return job.Snapshot{}, fmt.Errorf("job %s: %w", toID(r.JobState.JobID), err)
	}
	s := job.Snapshot{
		Job: job.Job{Spec: spec, Status: toStatus(r.JobState)}, Now: now.UTC(),
		Fence: toTime(r.FenceAt), Handle: r.Handle,
	}
	if armed := r.RoundArmedAt; !armed.Equal(time.Unix(0, 0)) {
		s.RoundArmed = armed.UTC()
	}
	for _, n := range r.OpenAttempts {
		s.Open = append(s.Open, int(n))
	}
	if r.EffectAt != nil {
		s.Effect = &job.Effect{
			Attempt: int(r.EffectAttempt), Round: int(r.EffectRound), ExternalID: r.EffectID,
			ExternalURL: r.EffectUrl, Proof: job.Proof(r.EffectProof), At: toTime(r.EffectAt),
		}
	}
	if r.RulingAt != nil {
		s.Resolution = &job.Resolution{
			Ruling: job.Ruling(r.Ruling), Actor: r.RulingActor, Note: r.RulingNote, At: toTime(r.RulingAt),
		}
	}
	return s, nil
}

func toSpec(r pgdb.SnapshotsRow) (job.Spec, error) {
	fp, err := toFingerprint(r.Fingerprint)
	if err != nil {
		return job.Spec{}, err
	}
	labels, err := toLabels(r.Labels)
	if err != nil {
		return job.Spec{}, fmt.Errorf("labels: %w", err)
	}
	return job.Spec{
		ID: toID(r.JobState.JobID), Project: r.JobState.Project, Key: r.IdemKey,
		Connection: toID(r.JobState.ConnectionID), HoldKey: r.JobState.HoldKey,
		PayloadKind: r.PayloadKind, Payload: toBytes(r.Payload), StartWindow: fromMicros(r.StartWindow),
		Retry: job.RetryPolicy{
			MaxAttempts: int(r.MaxAttempts), MinBackoff: fromMicros(r.MinBackoff),
			MaxBackoff: fromMicros(r.MaxBackoff), AttemptTimeout: fromMicros(r.AttemptTimeout),
		},
		Policy: job.Policy(r.Policy), Labels: labels, TimeZone: r.TimeZone,
		ReplyTo: toID(r.ReplyTo), Schedule: toID(r.ScheduleID), Fingerprint: fp, Created: r.CreatedAt.UTC(),
	}, nil
}

func toLabels(text []byte) (map[string]string, error) {
	var labels map[string]string
	if err := json.Unmarshal(text, &labels); err != nil {
		return nil, err
	}
	if len(labels) == 0 {
		return nil, nil
	}
	return labels, nil
}

func toFingerprint(b []byte) (job.Fingerprint, error) {
	if len(b) == 0 {
		return job.Fingerprint{}, nil
	}
	return job.ParseFingerprint(b)
}

func toStatus(st pgdb.JobState) job.Status {
	s := job.Status{
		State: job.State(st.State), Version: st.Version, Attempt: int(st.Attempt), Round: int(st.Round),
		Failures: int(st.Failures), Claims: int(st.Claims), Looks: int(st.Looks), Negatives: int(st.Negatives),
		ScheduledFor: st.ScheduledFor.UTC(), StartDeadline: st.StartDeadline.UTC(),
		NextAt: toTime(st.NextAt), ClaimToken: toID(st.ClaimToken), Worker: st.Worker,
		Class: job.Class(st.Class), CancelAsked: toTime(st.CancelAskedAt), Blocked: st.Blocked,
		WaitsFor: toID(st.WaitsFor), Updated: st.UpdatedAt.UTC(), Ended: toTime(st.EndedAt),
	}
	if st.ErrorKind != 0 {
		s.LastError = &job.Failure{
			Kind: job.FailureKind(st.ErrorKind), Message: st.ErrorMessage,
			HTTPStatus: int(st.ErrorStatus), At: toTime(st.ErrorAt),
		}
	}
	return s
}

// eventColumns turns rows of the log on their side, as their insert takes them.
func eventColumns(events []job.Event) pgdb.InsertEventsParams {
	var p pgdb.InsertEventsParams
	for _, e := range events {
		p.Positions = append(p.Positions, e.Position)
		p.Projects = append(p.Projects, e.Project)
		p.Jobs = append(p.Jobs, fromID(e.Job))
		p.Connections = append(p.Connections, fromID(e.Connection))
		p.Schedules = append(p.Schedules, optionalID(e.Schedule))
		p.Sequences = append(p.Sequences, e.Sequence)
		p.FromStates = append(p.FromStates, int16(e.From))
		p.ToStates = append(p.ToStates, int16(e.To))
		p.Causes = append(p.Causes, int16(e.Cause))
		p.Attempts = append(p.Attempts, int64(e.Attempt))
		p.Actors = append(p.Actors, e.Actor)
		p.Reasons = append(p.Reasons, e.Reason)
		p.Details = append(p.Details, e.Detail)
		p.Ats = append(p.Ats, job.Micros(e.At))
	}
	return p
}
