package postgres

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// The conversions of convert.go for schedules and firings.

func toSchedule(r pgdb.Schedule) (store.Schedule, error) {
	s := store.Schedule{
		ID: toID(r.ID), Project: r.Project, Key: r.IdemKey, Version: r.Version, Revision: r.Revision,
		Generation: r.Generation, Spec: toBytes(r.Spec), Template: toBytes(r.Template), Policies: toBytes(r.Policies),
		Connection: toID(r.ConnectionID), DisplayName: r.DisplayName, PauseAfterFailures: int(r.PauseAfterFailures),
		State: store.ScheduleState(r.State), PauseCause: store.PauseCause(r.PauseCause), Note: r.Note,
		PausedAt: toTime(r.PausedAt), Cursor: r.CursorAt,
		Next: toTime(r.NextAt), Run: r.Run, Counts: store.ScheduleCounts{
			Fired: r.Fired, SkippedByOverlap: r.SkippedByOverlap, SkippedByPerson: r.SkippedByPerson, Missed: r.Missed,
			Coalesced: r.Coalesced, Refused: r.Refused, NoContent: r.NoContent, SkippedByLimit: r.SkippedByLimit,
			Held: r.Held,
		},
		Queued: r.Queued, Day: r.Day, DayCount: r.DayCount, RefusedInRow: r.RefusedInRow, HeldUntil: toTime(r.HeldUntil),
		Created: r.CreatedAt.UTC(), Updated: r.UpdatedAt.UTC(), Deleted: toTime(r.DeletedAt),
		CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy, LedgerBegin: r.LedgerBegin.UTC(),
		PostponedUntil: toTime(r.PostponedUntil), RefusedDecisions: r.RefusedDecisions,
	}
	var err error
	if s.Labels, s.Fingerprint, err = store.DecodeTerms(r.Labels, r.Fingerprint); err != nil {
		return s, fmt.Errorf("schedule %s: %w", s.ID, err)
	}
	return s, s.SetTexts(r.Buffered, r.Skips, r.CatchUp)
}

func insertScheduleParams(s store.Schedule) (pgdb.InsertScheduleParams, error) {
	buffered, skips, _, err := s.Texts()
	return pgdb.InsertScheduleParams{
		ID: fromID(s.ID), Project: s.Project, IdemKey: s.Key, KeyDigest: digestOf(s.Project, s.Key),
		Fingerprint: s.Fingerprint.Bytes(), Version: s.Version, Revision: s.Revision, Generation: s.Generation,
		Spec: fromBytes(s.Spec), Template: fromBytes(s.Template), Policies: fromBytes(s.Policies),
		ConnectionID: fromID(s.Connection), DisplayName: s.DisplayName,
		Labels: store.EncodeLabels(s.Labels), PauseAfterFailures: int64(s.PauseAfterFailures),
		State: int16(s.State), PauseCause: int16(s.PauseCause), Note: s.Note, PausedAt: fromTime(s.PausedAt),
		CursorAt: s.Cursor, NextAt: fromTime(s.Next), Buffered: buffered, Skips: skips, LedgerBegin: s.LedgerBegin,
		CreatedAt: s.Created, UpdatedAt: s.Updated, CreatedBy: s.CreatedBy, UpdatedBy: s.UpdatedBy, Queued: s.Queued,
		NoContent: s.Counts.NoContent, SkippedByLimit: s.Counts.SkippedByLimit, Day: s.Day, DayCount: s.DayCount,
	}, err
}

func setScheduleParams(s store.Schedule, lastFiring int64) (pgdb.SetScheduleParams, error) {
	buffered, skips, catchUp, err := s.Texts()
	return pgdb.SetScheduleParams{
		Version: s.Version, Revision: s.Revision, Generation: s.Generation, Spec: fromBytes(s.Spec),
		Template: fromBytes(s.Template), Policies: fromBytes(s.Policies), ConnectionID: fromID(s.Connection),
		DisplayName: s.DisplayName, Labels: store.EncodeLabels(s.Labels),
		PauseAfterFailures: int64(s.PauseAfterFailures), State: int16(s.State), PauseCause: int16(s.PauseCause),
		Note: s.Note, PausedAt: fromTime(s.PausedAt), CursorAt: s.Cursor, NextAt: fromTime(s.Next),
		Buffered: buffered, Skips: skips, Run: s.Run, Fired: s.Counts.Fired,
		SkippedByOverlap: s.Counts.SkippedByOverlap, SkippedByPerson: s.Counts.SkippedByPerson,
		Missed: s.Counts.Missed, Coalesced: s.Counts.Coalesced, Refused: s.Counts.Refused, Held: s.Counts.Held,
		LastFiring: lastFiring, UpdatedAt: s.Updated, DeletedAt: fromTime(s.Deleted), UpdatedBy: s.UpdatedBy,
		ID: fromID(s.ID), WasRevision: s.Revision - 1, Queued: s.Queued, NoContent: s.Counts.NoContent,
		SkippedByLimit: s.Counts.SkippedByLimit, RefusedInRow: s.RefusedInRow, HeldUntil: fromTime(s.HeldUntil),
		CatchUp: catchUp,
	}, err
}

func addFired(p *pgdb.SetFiredParams, s store.Schedule, lastFiring int64) error {
	buffered, skips, catchUp, err := s.Texts()
	if err != nil {
		return err
	}
	p.CatchUps = append(p.CatchUps, catchUp)
	p.Ids, p.Versions, p.Revisions = append(p.Ids, fromID(s.ID)), append(p.Versions, s.Version), append(p.Revisions, s.Revision)
	p.States, p.PauseCauses = append(p.States, int16(s.State)), append(p.PauseCauses, int16(s.PauseCause))
	p.Notes, p.PausedAts = append(p.Notes, s.Note), append(p.PausedAts, s.PausedAt)
	p.Cursors, p.NextAts = append(p.Cursors, s.Cursor), append(p.NextAts, s.Next)
	p.Buffereds, p.SkipLists = append(p.Buffereds, buffered), append(p.SkipLists, skips)
	p.Runs, p.Fireds = append(p.Runs, s.Run), append(p.Fireds, s.Counts.Fired)
	p.Overlapped, p.Persons = append(p.Overlapped, s.Counts.SkippedByOverlap), append(p.Persons, s.Counts.SkippedByPerson)
	p.Misseds, p.Coalesceds = append(p.Misseds, s.Counts.Missed), append(p.Coalesceds, s.Counts.Coalesced)
	p.Refuseds, p.LastFirings = append(p.Refuseds, s.Counts.Refused), append(p.LastFirings, lastFiring)
	p.UpdatedAts, p.NoContents = append(p.UpdatedAts, s.Updated), append(p.NoContents, s.Counts.NoContent)
	p.Limiteds, p.Days = append(p.Limiteds, s.Counts.SkippedByLimit), append(p.Days, s.Day)
	p.DayCounts, p.Helds = append(p.DayCounts, s.DayCount), append(p.Helds, s.Counts.Held)
	p.RefusedRows, p.HeldUntils = append(p.RefusedRows, s.RefusedInRow), append(p.HeldUntils, s.HeldUntil)
	return nil
}

func toFiring(r pgdb.Firing) store.Firing {
	return store.Firing{
		Name: r.Name, Nominal: r.NominalAt.UTC(), LocalTime: r.LocalTime, Mark: store.TimeMark(r.Mark),
		Origin: store.FiringOrigin(r.Origin), Outcome: store.FiringOutcome(r.Outcome), Reason: r.Reason, Job: toID(r.JobID),
		Blocking: toID(r.BlockingJob), Run: r.Run, Decided: r.DecidedAt.UTC(),
	}
}

func addFiring(p *pgdb.InsertFiringsParams, schedule pgtype.UUID, number int64, f store.Firing, now time.Time) {
	p.DecidedAt = now
	p.Schedules, p.Names, p.Numbers = append(p.Schedules, schedule), append(p.Names, f.Name), append(p.Numbers, number)
	p.Nominals, p.LocalTimes = append(p.Nominals, job.Micros(f.Nominal)), append(p.LocalTimes, f.LocalTime)
	p.Marks, p.Origins = append(p.Marks, int16(f.Mark)), append(p.Origins, int16(f.Origin))
	p.Outcomes, p.Reasons = append(p.Outcomes, int16(f.Outcome)), append(p.Reasons, f.Reason)
	p.Jobs, p.Blockers, p.Runs = append(p.Jobs, optionalID(f.Job)), append(p.Blockers, optionalID(f.Blocking)), append(p.Runs, f.Run)
}
