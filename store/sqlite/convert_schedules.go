package sqlite

import (
	"fmt"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/store"
)

// The conversions of convert.go for schedules and firings.

func toSchedule(r sqlitedb.Schedule) (store.Schedule, error) {
	s := store.Schedule{
		ID: toID(r.ID), Project: r.Project, Key: r.IdemKey, Version: r.Version, Revision: r.Revision,
		Generation: r.Generation, Spec: toBytes(r.Spec), Template: toBytes(r.Template), Policies: toBytes(r.Policies),
		Connection: toID(r.ConnectionID), DisplayName: r.DisplayName, PauseAfterFailures: int(r.PauseAfterFailures),
		State: store.ScheduleState(r.State), PauseCause: store.PauseCause(r.PauseCause), Note: r.Note,
		PausedAt: fromNullMicros(r.PausedAt), Cursor: r.CursorAt,
		Next: fromNullMicros(r.NextAt), Run: r.Run, Counts: store.ScheduleCounts{
			Fired: r.Fired, SkippedByOverlap: r.SkippedByOverlap, SkippedByPerson: r.SkippedByPerson, Missed: r.Missed,
			Coalesced: r.Coalesced, Refused: r.Refused, NoContent: r.NoContent, SkippedByLimit: r.SkippedByLimit,
			Held: r.Held,
		},
		Queued: r.Queued != 0, Day: r.Day, DayCount: r.DayCount, RefusedInRow: r.RefusedInRow,
		HeldUntil: fromNullMicros(r.HeldUntil), Created: fromMicros(r.CreatedAt), Updated: fromMicros(r.UpdatedAt),
		Deleted: fromNullMicros(r.DeletedAt), CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
		LedgerBegin: fromMicros(r.LedgerBegin), PostponedUntil: fromNullMicros(r.PostponedUntil),
		RefusedDecisions: r.RefusedDecisions,
	}
	var err error
	if s.Labels, s.Fingerprint, err = store.DecodeTerms(r.Labels, r.Fingerprint); err != nil {
		return s, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	return s, s.SetTexts(r.Buffered, r.Skips, r.CatchUp)
}

func fromSchedule(s store.Schedule) (sqlitedb.Schedule, error) {
	r := sqlitedb.Schedule{
		ID: fromID(s.ID), Project: s.Project, IdemKey: s.Key, KeyDigest: digestOf(s.Project, s.Key),
		Fingerprint: s.Fingerprint.Bytes(), Version: s.Version, Revision: s.Revision, Generation: s.Generation,
		Spec: fromBytes(s.Spec), Template: fromBytes(s.Template), Policies: fromBytes(s.Policies),
		ConnectionID: fromID(s.Connection), DisplayName: s.DisplayName,
		PauseAfterFailures: int64(s.PauseAfterFailures), State: int64(s.State), PauseCause: int64(s.PauseCause),
		Note: s.Note, PausedAt: toMicros(s.PausedAt), CursorAt: s.Cursor, NextAt: toMicros(s.Next), Run: s.Run,
		Fired: s.Counts.Fired, SkippedByOverlap: s.Counts.SkippedByOverlap, SkippedByPerson: s.Counts.SkippedByPerson,
		Missed: s.Counts.Missed, Coalesced: s.Counts.Coalesced, Refused: s.Counts.Refused, Held: s.Counts.Held,
		LedgerBegin: s.LedgerBegin.UnixMicro(), CreatedAt: s.Created.UnixMicro(), UpdatedAt: s.Updated.UnixMicro(),
		DeletedAt: toMicros(s.Deleted), CreatedBy: s.CreatedBy, UpdatedBy: s.UpdatedBy, Queued: toBool(s.Queued),
		NoContent: s.Counts.NoContent, SkippedByLimit: s.Counts.SkippedByLimit, Day: s.Day, DayCount: s.DayCount,
		RefusedInRow: s.RefusedInRow, HeldUntil: toMicros(s.HeldUntil), Labels: store.EncodeLabels(s.Labels),
	}
	var err error
	r.Buffered, r.Skips, r.CatchUp, err = s.Texts()
	return r, err
}

func setScheduleParams(r sqlitedb.Schedule) sqlitedb.SetScheduleParams {
	return sqlitedb.SetScheduleParams{
		Version: r.Version, Revision: r.Revision, Generation: r.Generation, Spec: r.Spec, Template: r.Template,
		Policies: r.Policies, ConnectionID: r.ConnectionID, DisplayName: r.DisplayName, Labels: r.Labels,
		PauseAfterFailures: r.PauseAfterFailures, State: r.State, PauseCause: r.PauseCause, Note: r.Note,
		PausedAt: r.PausedAt, CursorAt: r.CursorAt, NextAt: r.NextAt, Buffered: r.Buffered, Skips: r.Skips,
		Run: r.Run, Fired: r.Fired, SkippedByOverlap: r.SkippedByOverlap, SkippedByPerson: r.SkippedByPerson,
		Missed: r.Missed, Coalesced: r.Coalesced, Refused: r.Refused, LastFiring: r.LastFiring,
		UpdatedAt: r.UpdatedAt, DeletedAt: r.DeletedAt, UpdatedBy: r.UpdatedBy, ID: r.ID, Queued: r.Queued,
		NoContent: r.NoContent, SkippedByLimit: r.SkippedByLimit, Held: r.Held, RefusedInRow: r.RefusedInRow,
		HeldUntil: r.HeldUntil, CatchUp: r.CatchUp, Day: r.Day, DayCount: r.DayCount,
	}
}

func toFiring(r sqlitedb.Firing) store.Firing {
	return store.Firing{
		Name: r.Name, Nominal: fromMicros(r.NominalAt), LocalTime: r.LocalTime, Mark: store.TimeMark(r.Mark),
		Origin: store.FiringOrigin(r.Origin), Outcome: store.FiringOutcome(r.Outcome), Reason: r.Reason, Job: toID(r.JobID),
		Blocking: toID(r.BlockingJob), Run: r.Run, Decided: fromMicros(r.DecidedAt),
	}
}

func insertFiringParams(schedule []byte, number int64, f store.Firing) sqlitedb.InsertFiringParams {
	return sqlitedb.InsertFiringParams{
		ScheduleID: schedule, Name: f.Name, Number: number, NominalAt: f.Nominal.UnixMicro(), LocalTime: f.LocalTime,
		Mark: int64(f.Mark), Origin: int64(f.Origin), Outcome: int64(f.Outcome), Reason: f.Reason,
		JobID: fromOptionalID(f.Job), BlockingJob: fromOptionalID(f.Blocking), Run: f.Run,
		DecidedAt: f.Decided.UnixMicro(),
	}
}
