package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - one server cleans at a time: the one with the row of retention, which is locked for a
//     step and leased for longer;
//   - the jobs of a step are locked first, and jobs that others have locked are left for the
//     next pass: a step waits for no lock of a job. Their replies are read afterwards,
//     because a transaction that submits a reply locks its predecessor first;
//   - a page of the log is dropped once the log no longer returns its last event; the texts
//     of an event are dropped when its job is removed too, whichever comes last;
//   - the newest page stays: positions are compared with its last event after a restore.

// Retain implements store.Store.
func (s *Store) Retain(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	place, err := store.ParseRetainPlace(p.After)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return store.Retained{}, fmt.Errorf("retain: %w", err)
	}
	return write(ctx, s, "retain", func(ctx context.Context, t *tx) (store.Retained, error) {
		r := &retentionStep{tx: t, RetainParams: p, place: place, most: int32(rules.Page(p.Limit))}
		err := r.step(ctx)
		return r.out, err
	})
}

// retentionStep is one step in progress.
type retentionStep struct {
	*tx
	store.RetainParams
	place     store.RetainPlace
	most      int32
	droppedTo int64
	out       store.Retained
	// erasureRequest is set for a removal on request.
	erasureRequest *erasureRequest
}

// step does one part of the pass, and sets where the next one begins.
func (r *retentionStep) step(ctx context.Context) error {
	if err := r.refuseClosed(); err != nil {
		return err
	}
	if err := r.take(ctx); err != nil || r.out.Busy {
		return err
	}
	parts := [store.PhaseDone]func(context.Context) (more bool, err error){
		store.PhaseEvents: r.events, store.PhaseJobs: r.jobs, store.PhaseKeys: r.keys, store.PhaseObjects: r.objects,
		store.PhaseFirings: r.firings,
	}
	more, err := parts[r.place.Phase](ctx)
	r.out.Next, r.out.Done = r.place.After(more)
	return err
}

// take makes this server the one that cleans, if no other one does.
func (r *retentionStep) take(ctx context.Context) error {
	rows, err := r.q.TakeRetention(ctx)
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	if len(rows) == 0 {
		r.out.Busy = true
		return nil
	}
	row, now := rows[0], r.now
	r.droppedTo = row.DroppedTo
	mine := row.Owner.Valid && toID(row.Owner) == r.Owner
	switch {
	case !mine && row.LeaseUntil.After(now):
		r.out.Busy = true
		return nil
	case mine && row.LeaseUntil.Sub(now) > r.Lease/2:
		return nil // a row that each step writes would collect dead versions
	}
	return named("lease", r.q.LeaseRetention(ctx, pgdb.LeaseRetentionParams{Owner: fromID(r.Owner), LeaseUntil: soon(now, r.Lease)}))
}

// events moves the log's beginning, once a pass, and drops pages.
func (r *retentionStep) events(ctx context.Context) (more bool, err error) {
	log, err := r.q.LogBounds(ctx)
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	from := log.EventsFrom
	if r.After == "" && r.Keep.Events > 0 {
		if from, err = r.raise(ctx, log); err != nil {
			return false, err
		}
	}
	if r.droppedTo >= from {
		return false, nil
	}
	most := 4 * r.most
	d, err := r.q.DropPages(ctx, pgdb.DropPagesParams{After: r.droppedTo, UpTo: from, MaxRows: most})
	if err != nil {
		return false, fmt.Errorf("events: %w", err)
	}
	r.out.Events = int(d.Dropped)
	more, to := d.Pages == int64(most), from
	if more {
		to = d.Last
	}
	if err := r.q.SetDroppedTo(ctx, to); err != nil {
		return false, fmt.Errorf("events: %w", err)
	}
	return more, nil
}

// raise moves the log's beginning behind the events that are no longer kept.
func (r *retentionStep) raise(ctx context.Context, log pgdb.LogBoundsRow) (int64, error) {
	from, err := store.Newest(log.EventsFrom, log.Last, func(at int64) (int64, bool, error) {
		e, err := r.q.NewestPage(ctx, at)
		if errors.Is(err, pgx.ErrNoRows) {
			return 0, false, nil
		}
		return e.Position, r.EventOver(r.now, e.At, e.Position <= log.Counted), err
	})
	if err != nil {
		return 0, fmt.Errorf("log: %w", err)
	}
	if from == log.EventsFrom {
		return from, nil
	}
	if err := r.q.RaiseEventsFrom(ctx, from); err != nil {
		return 0, fmt.Errorf("log: %w", err)
	}
	return from, nil
}

// jobs removes some ended jobs of one project.
func (r *retentionStep) jobs(ctx context.Context) (more bool, err error) {
	if r.Keep.Jobs == 0 {
		return false, nil
	}
	if r.place.Project == "" {
		return r.nextProject(ctx)
	}
	after, until := time.UnixMicro(r.place.Ended).UTC(), r.now.Add(-r.Keep.Jobs)
	rows, err := r.q.LockEnded(ctx, pgdb.LockEndedParams{
		Project: r.place.Project, After: &after, Until: &until, AfterID: fromID(r.place.Job), MaxRows: r.most,
	})
	if err != nil {
		return false, fmt.Errorf("ended jobs: %w", err)
	}
	if len(rows) > 0 {
		if err := r.remove(ctx, rows); err != nil {
			return false, err
		}
		last := rows[len(rows)-1]
		r.place.Ended, r.place.Job = toTime(last.EndedAt).UnixMicro(), toID(last.JobID)
	}
	if len(rows) < int(r.most) {
		return r.nextProject(ctx)
	}
	return true, nil
}

// nextProject continues with the next project. An erasure has one.
func (r *retentionStep) nextProject(ctx context.Context) (more bool, err error) {
	if r.erasureRequest != nil {
		return false, nil
	}
	project, err := r.q.NextProject(ctx, r.place.Project)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("next project: %w", err)
	}
	r.place = store.RetainPlace{Phase: store.PhaseJobs, Project: project}
	return true, nil
}

// remove removes those of the locked jobs to which no job replies.
func (r *retentionStep) remove(ctx context.Context, rows []pgdb.LockEndedRow) error {
	ids, ended := make([]job.ID, len(rows)), make(map[job.ID]time.Time, len(rows))
	for i, row := range rows {
		ids[i] = toID(row.JobID)
		ended[ids[i]] = toTime(row.EndedAt)
	}
	found, err := r.q.Replies(ctx, fromIDs(ids))
	replies, err := store.Converted(found, err, func(f pgdb.RepliesRow) store.Reply {
		return store.Reply{Job: toID(f.ID), To: toID(f.ReplyTo)}
	})
	if err != nil {
		return fmt.Errorf("replies: %w", err)
	}
	ids = store.Unanswered(ids, replies)
	if len(ids) == 0 {
		return nil
	}
	if err := r.leaveErased(ctx, ids); err != nil {
		return fmt.Errorf("erased jobs: %w", err)
	}
	if err := r.removeKeys(ctx, ids, ended); err != nil {
		return err
	}
	return r.removeRows(ctx, ids)
}

// removeKeys removes the jobs' keys, or sets how long they are kept.
func (r *retentionStep) removeKeys(ctx context.Context, ids []job.ID, ended map[job.ID]time.Time) error {
	rows, err := r.q.KeysOf(ctx, fromIDs(ids))
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	var over pgdb.RemoveKeysParams
	var kept pgdb.KeepKeysParams
	for _, row := range rows {
		keep, ends := r.KeepKey(row.Connector, fromMicros(row.KeyWindow))
		from := ended[toID(row.ID)]
		if r.erasureRequest != nil {
			from = r.now
		}
		until := from.Add(keep)
		if !ends {
			until = endOfTime
		}
		digest := digestOf(row.Project, row.IdemKey)
		if until.After(r.now) {
			kept.Ids, kept.Digests = append(kept.Ids, row.ID), append(kept.Digests, digest)
			kept.Untils = append(kept.Untils, job.Micros(until))
			continue
		}
		over.Ids, over.Digests = append(over.Ids, row.ID), append(over.Digests, digest)
	}
	if len(over.Ids) > 0 {
		n, err := r.q.RemoveKeys(ctx, over)
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
		r.out.Keys = int(n)
	}
	if len(kept.Ids) > 0 {
		if err := r.q.KeepKeys(ctx, kept); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	return nil
}

// digestOf returns the digest under which a key is bound.
func digestOf(project, key string) []byte {
	sum := job.KeyDigest(project, key)
	return sum[:]
}

// removeRows removes all rows of jobs but their keys.
func (r *retentionStep) removeRows(ctx context.Context, jobs []job.ID) error {
	ids := fromIDs(jobs)
	err := inSequence(ctx,
		with(r.q.RemoveAttempts, ids), with(r.q.RemoveObservations, ids), with(r.q.RemoveResolutions, ids),
		with(r.q.KeepObjects, ids), with(r.q.RemoveEffects, ids), with(r.q.RemoveHistories, ids),
		with(r.q.RemoveTexts, pgdb.RemoveTextsParams{Ids: ids, DroppedTo: r.droppedTo}))
	if err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	states, err := r.q.RemoveStates(ctx, ids)
	if err != nil {
		return fmt.Errorf("states: %w", err)
	}
	n, err := r.q.RemoveJobs(ctx, ids)
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if n != int64(len(jobs)) || states != n {
		return fmt.Errorf("jobs: %w: %d and %d of %d locked ones were removed", store.ErrUnavailable, states, n, len(jobs))
	}
	r.out.Jobs = int(n)
	return nil
}

// keys forgets keys that have outlived their jobs for long enough.
func (r *retentionStep) keys(ctx context.Context) (more bool, err error) {
	n, err := r.q.ForgetKeys(ctx, pgdb.ForgetKeysParams{Now: &r.now, MaxRows: r.most})
	r.out.Keys = int(n)
	return n == int64(r.most), named("keys", err)
}

// objects forgets the objects of removed jobs that no look can find any more.
func (r *retentionStep) objects(ctx context.Context) (more bool, err error) {
	first, err := r.q.FirstStart(ctx, r.now)
	if err != nil {
		return false, fmt.Errorf("starts: %w", err)
	}
	n, err := r.q.ForgetObjects(ctx, pgdb.ForgetObjectsParams{Before: first.Add(-store.LookSlack), MaxRows: r.most})
	r.out.Objects = int(n)
	return n == int64(r.most), named("objects", err)
}

// firings removes firings that were decided long ago, and raises the begin of their
// schedules' ledgers. It skips schedules that another transaction has locked.
func (r *retentionStep) firings(ctx context.Context) (more bool, err error) {
	n, err := r.q.PruneFirings(ctx, pgdb.PruneFiringsParams{Before: r.now.Add(-store.FiringsKept), MaxRows: r.most})
	r.out.Firings = int(n)
	return n == int64(r.most), named("firings", err)
}
