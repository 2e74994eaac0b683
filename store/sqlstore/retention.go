package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - the jobs of a step are locked first, and jobs that others have locked are left for the
//     next pass: a step waits for no lock of a job. Their replies are read afterwards,
//     because a transaction that submits a reply locks its predecessor first;
//   - a page of the log is dropped once the log no longer returns its last event; the texts
//     of an event are dropped when its job is removed too, whichever comes last;
//   - the newest page stays: positions continue from it, and are compared with its last event
//     after a restore.

// Retain implements store.Store.
func (r *Roles) Retain(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	place, err := store.ParseRetainPlace(p.After)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return store.Retained{}, fmt.Errorf("retain: %w", err)
	}
	return write(ctx, r, "retain", func(ctx context.Context, t Tx) (store.Retained, error) {
		s := &removal{Tx: t, RetainParams: p, place: place, most: r.most(p.Limit), light: int32(min(rules.Page(p.Limit), 4*r.engine.StepRows))}
		err := s.step(ctx)
		return s.out, err
	})
}

// most bounds the rows of a step of a removal.
func (r *Roles) most(limit int) int32 { return int32(min(rules.Page(limit), r.engine.StepRows)) }

// removal is one step of retention, or of an erasure, in progress.
type removal struct {
	Tx
	store.RetainParams
	place store.RetainPlace
	most  int32
	// light bounds rows on which no others depend.
	light     int32
	droppedTo int64
	out       store.Retained
	// erases is set for a removal on request, by actor.
	erases bool
	actor  string
}

// step does one part of the pass, and sets where the next one begins.
func (s *removal) step(ctx context.Context) (err error) {
	if err := s.RefuseClosed(ctx); err != nil {
		return err
	}
	if s.droppedTo, s.out.Busy, err = s.TakeRetention(ctx, s.Owner, s.Lease); err != nil || s.out.Busy {
		return named("lease", err)
	}
	parts := [store.PhaseDone]func(context.Context) (more bool, err error){
		store.PhaseEvents: s.events, store.PhaseJobs: s.jobs, store.PhaseKeys: s.keys, store.PhaseObjects: s.objects,
		store.PhaseFirings: s.firings,
	}
	more, err := parts[s.place.Phase](ctx)
	s.out.Next, s.out.Done = s.place.After(more)
	return err
}

// events moves the log's beginning, once a pass, and drops pages.
func (s *removal) events(ctx context.Context) (more bool, err error) {
	log, err := s.Q.LogBounds(ctx)
	if err == nil && s.After == "" && s.Keep.Events > 0 {
		err = s.raise(ctx, &log)
	}
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	to, most := log.EventsFrom, 4*s.most
	if s.droppedTo >= to {
		return false, nil
	}
	pages, err := s.Q.OldPages(ctx, shareddb.OldPagesParams{After: s.droppedTo, UpTo: to, MaxRows: most})
	if err != nil {
		return false, fmt.Errorf("pages: %w", err)
	}
	more = len(pages) == int(most)
	events, mostEvents := 0, 80*int(s.most) // a page may have very many
	for i, p := range pages {
		if events += int(p.Events); events >= mostEvents && i+1 < len(pages) {
			pages, more = pages[:i+1], true
			break
		}
	}
	s.out.Events += events
	if more {
		to = pages[len(pages)-1].Position
	}
	if err := s.Q.DropPages(ctx, shareddb.DropPagesParams{After: s.droppedTo, UpTo: to}); err != nil {
		return false, fmt.Errorf("pages: %w", err)
	}
	if err := s.Q.DropTexts(ctx, shareddb.DropTextsParams{After: s.droppedTo, UpTo: to}); err != nil {
		return false, fmt.Errorf("texts: %w", err)
	}
	return more, named("pages", s.SetDroppedTo(ctx, to))
}

// raise moves the log's beginning behind the events that are no longer kept.
func (s *removal) raise(ctx context.Context, log *shareddb.LogBoundsRow) error {
	from, err := store.Newest(log.EventsFrom, log.Last, func(at int64) (int64, bool, error) {
		e, err := s.Q.NewestPage(ctx, at)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, false, nil
		}
		return e.Position, s.EventOver(s.Now, e.At, e.Position <= log.Counted), err
	})
	if err != nil || from == log.EventsFrom {
		return err
	}
	log.EventsFrom = from
	return s.Q.RaiseEventsFrom(ctx, from)
}

// terminal are the terminal states, in the order of a pass.
var terminal = []job.State{job.Succeeded, job.Failed, job.Canceled, job.Expired}

// jobs removes some ended jobs of one project and state, by which SQLite's index finds them.
func (s *removal) jobs(ctx context.Context) (more bool, err error) {
	if s.Keep.Jobs == 0 {
		return false, nil
	}
	until := s.Now.Add(-s.Keep.Jobs)
	for at := &s.place; at.Project != ""; {
		rows, err := s.Q.LockEnded(ctx, shareddb.LockEndedParams{
			Project: at.Project, State: at.State, After: time.UnixMicro(at.Ended), Until: until,
			AfterConnection: at.Connection, AfterID: at.Job, MaxRows: s.most,
		})
		if err != nil {
			return false, fmt.Errorf("ended jobs: %w", err)
		}
		if len(rows) > 0 {
			last := rows[len(rows)-1]
			at.Ended, at.Connection, at.Job = last.EndedAt.UnixMicro(), last.ConnectionID, last.JobID
		}
		if err := s.threads(ctx, rows, until); err != nil {
			return false, err
		}
		if len(rows) == int(s.most) {
			return true, nil
		}
		next := slices.Index(terminal, at.State) + 1
		if next == len(terminal) {
			break
		}
		*at = store.RetainPlace{Phase: store.PhaseJobs, Project: at.Project, State: terminal[next]}
		if len(rows) > 0 {
			return true, nil
		}
	}
	if s.erases { // of one project
		return false, nil
	}
	s.place = store.RetainPlace{Phase: store.PhaseJobs, Project: s.place.Project, State: terminal[0]}
	s.place.Project, err = s.Q.NextProject(ctx, s.place.Project)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return true, named("next project", err)
}

// maxThread bounds how far a step follows replies. It stops earlier when it has removed enough:
// a later pass removes the others.
const maxThread = 25

// threads removes those of the locked jobs to which no job replies, and then the jobs to
// which these replied, if nothing else kept them: the pass may be past them.
func (s *removal) threads(ctx context.Context, rows []shareddb.LockEndedRow, until time.Time) error {
	for n := 0; n < maxThread && s.out.Jobs < 4*int(s.most); n++ {
		removed, err := s.remove(ctx, rows)
		if err != nil {
			return err
		}
		gone := make(map[job.ID]bool)
		for _, row := range removed {
			gone[row.JobID] = true
		}
		var left []job.ID
		for _, row := range removed {
			if to := job.ID(row.ReplyTo); !to.IsZero() && !gone[to] {
				left = append(left, to)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if rows, err = s.lockTheseEnded(ctx, left, until); err != nil {
			return fmt.Errorf("predecessors: %w", err)
		}
	}
	return nil
}

func (s *removal) lockTheseEnded(ctx context.Context, ids []job.ID, until time.Time) ([]shareddb.LockEndedRow, error) {
	rows, err := s.Q.LockTheseEnded(ctx, shareddb.LockTheseEndedParams{Ids: ids, Until: until})
	return store.Converted(rows, err, func(row shareddb.LockTheseEndedRow) shareddb.LockEndedRow { return shareddb.LockEndedRow(row) })
}

// remove removes all data of those of the locked jobs to which no job replies. Their keys may
// outlive them.
func (s *removal) remove(ctx context.Context, rows []shareddb.LockEndedRow) (removed []shareddb.LockEndedRow, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]job.ID, len(rows))
	for i, row := range rows {
		ids[i] = row.JobID
	}
	found, err := s.Q.Replies(ctx, ids)
	replies, err := store.Converted(found, err, func(f shareddb.RepliesRow) store.Reply {
		return store.Reply{Job: f.ID, To: job.ID(f.ReplyTo)}
	})
	if err != nil {
		return nil, fmt.Errorf("replies: %w", err)
	}
	if ids = store.Unanswered(ids, replies); len(ids) == 0 {
		return nil, nil
	}
	if err := s.leaveErased(ctx, ids); err != nil {
		return nil, fmt.Errorf("erased jobs: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(row shareddb.LockEndedRow) bool { return !slices.Contains(ids, row.JobID) })
	if err := s.removeKeys(ctx, rows); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if err := s.removeRows(ctx, ids); err != nil {
		return nil, err
	}
	bytes := int64(0)
	for _, row := range rows {
		bytes += row.Bytes
	}
	s.out.Jobs += len(ids)
	return rows, s.CountUse(ctx, s.place.Project, -int64(len(ids)), -bytes)
}

// removeKeys removes the jobs' keys, or sets how long they are kept.
func (s *removal) removeKeys(ctx context.Context, rows []shareddb.LockEndedRow) error {
	var over shareddb.RemoveKeysParams
	var kept []shareddb.KeepKeyParams
	for _, row := range rows {
		keep, ends := s.KeepKey(row.Connector, time.Duration(row.KeyWindow)*time.Microsecond)
		until := row.EndedAt.Add(keep)
		if s.erases {
			until = s.Now.Add(keep)
		}
		if !ends {
			until = endOfTime
		}
		digest := job.KeyDigest(s.place.Project, row.IdemKey)
		if until.After(s.Now) {
			kept = append(kept, shareddb.KeepKeyParams{Digest: digest[:], JobID: row.JobID, Until: job.Micros(until)})
			continue
		}
		over.Ids, over.Digests = append(over.Ids, row.JobID), append(over.Digests, digest[:])
	}
	if len(over.Ids) > 0 {
		n, err := s.Q.RemoveKeys(ctx, over)
		if err != nil {
			return err
		}
		s.out.Keys += int(n)
	}
	return inBatch(s.Q.KeepKey(ctx, kept).Exec)
}

// removeRows removes all rows of jobs but their keys.
func (s *removal) removeRows(ctx context.Context, ids []job.ID) error {
	for _, remove := range []func(context.Context, []job.ID) error{
		s.Q.RemoveAttempts, s.Q.RemoveObservations, s.Q.RemoveResolutions, s.Q.KeepObjects, s.Q.RemoveEffects, s.Q.RemoveHistories,
	} {
		if err := remove(ctx, ids); err != nil {
			return fmt.Errorf("rows: %w", err)
		}
	}
	if err := s.Q.RemoveTexts(ctx, shareddb.RemoveTextsParams{Ids: ids, DroppedTo: s.droppedTo}); err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	states, err := s.Q.RemoveStates(ctx, ids)
	if err != nil {
		return fmt.Errorf("states: %w", err)
	}
	n, err := s.Q.RemoveJobs(ctx, ids)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if n != int64(len(ids)) || states != n {
		return fmt.Errorf("jobs: %w: %d and %d of %d locked ones were removed", store.ErrUnavailable, states, n, len(ids))
	}
	return nil
}

// keys forgets keys that have outlived their jobs for long enough.
func (s *removal) keys(ctx context.Context) (more bool, err error) {
	n, err := s.Q.ForgetKeys(ctx, shareddb.ForgetKeysParams{Now: s.Now, MaxRows: s.light})
	s.out.Keys = int(n)
	return n == int64(s.light), named("keys", err)
}

// objects forgets the objects of removed jobs that no look can find any more.
func (s *removal) objects(ctx context.Context) (more bool, err error) {
	first, err := s.Q.FirstStart(ctx, s.Now)
	if err != nil {
		return false, fmt.Errorf("starts: %w", err)
	}
	n, err := s.Q.ForgetObjects(ctx, shareddb.ForgetObjectsParams{Before: first.Add(-store.LookSlack), MaxRows: s.light})
	s.out.Objects = int(n)
	return n == int64(s.light), named("objects", err)
}

// firings removes firings that were decided long ago, and raises the begin of their
// schedules' ledgers.
func (s *removal) firings(ctx context.Context) (more bool, err error) {
	before := s.Now.Add(-store.FiringsKept)
	rows, err := s.Q.LockOldFirings(ctx, shareddb.LockOldFiringsParams{Before: before, MaxRows: s.light})
	if err != nil {
		return false, fmt.Errorf("firings: %w", err)
	}
	var ids []job.ID
	var old []shareddb.RemoveFiringParams
	for _, row := range rows {
		ids, old = append(ids, row.ScheduleID), append(old, shareddb.RemoveFiringParams(row))
	}
	if err := inBatch(s.Q.RemoveFiring(ctx, old).Exec); err != nil {
		return false, fmt.Errorf("firings: %w", err)
	}
	s.out.Firings = len(rows)
	return len(rows) == int(s.light), named("ledgers", s.Q.RaiseLedgers(ctx, shareddb.RaiseLedgersParams{Before: before, Ids: ids}))
}
