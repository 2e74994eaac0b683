package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - a step is one operation of the only writer, which all other writes wait for: it ends
//     when its time is over, after one item at least;
//   - pages are dropped once the log no longer returns them; a job has its history in its
//     row. The texts of an event are dropped once the log no longer returns it and its job is
//     removed, whichever comes last;
//   - the newest page stays: positions continue from it, and are compared with it after a
//     restore.

// stepTime is how long a step may keep the writer.
const stepTime = 4 * time.Millisecond

// stepJobs bounds the jobs of a step: about what fits into its time. Reading more of them
// would be wasted.
const stepJobs = 25

// Retain implements store.Store. There is one process, so no other one cleans.
func (s *Store) Retain(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	place, err := store.ParseRetainPlace(p.After)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return store.Retained{}, fmt.Errorf("retain: %w", err)
	}
	return write(ctx, s, "retain", func(ctx context.Context, t *tx) (store.Retained, error) {
		r := &retentionStep{tx: t, RetainParams: p, place: place, most: page(p.Limit), end: time.Now().Add(stepTime)}
		err := r.step(ctx)
		return r.out, err
	})
}

// retentionStep is one step in progress.
type retentionStep struct {
	*tx
	store.RetainParams
	place store.RetainPlace
	most  int64
	// end is when the step's time is over.
	end  time.Time
	meta sqlitedb.Meta
	out  store.Retained
	// removed has the jobs that this step has removed.
	removed map[job.ID]bool
	// erasureRequest is set for a removal on request.
	erasureRequest *erasureRequest
}

func (r *retentionStep) over() bool { return time.Now().After(r.end) }

// step does one part of the pass, and sets where the next one begins.
func (r *retentionStep) step(ctx context.Context) (err error) {
	if err := r.refuseClosed(ctx); err != nil {
		return err
	}
	if r.meta, err = r.q.GetMeta(ctx); err != nil {
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

// events moves the log's beginning, once a pass, and drops events.
func (r *retentionStep) events(ctx context.Context) (more bool, err error) {
	from := r.meta.EventsFrom
	if r.After == "" && r.Keep.Events > 0 {
		if from, err = r.raise(ctx); err != nil {
			return false, fmt.Errorf("log: %w", err)
		}
	}
	to := r.meta.DroppedTo
	if to >= from {
		return false, nil
	}
	rows, err := r.q.OldPages(ctx, sqlitedb.OldPagesParams{After: to, UpTo: from, MaxRows: r.most})
	if err != nil {
		return false, fmt.Errorf("pages: %w", err)
	}
	for _, p := range rows {
		if err := r.q.DropPage(ctx, p.Position); err != nil {
			return false, fmt.Errorf("pages: %w", err)
		}
		if err := r.q.DropTexts(ctx, sqlitedb.DropTextsParams{After: to, UpTo: p.Position}); err != nil {
			return false, fmt.Errorf("texts: %w", err)
		}
		r.out.Events += int(p.Events)
		to = p.Position
		if more = r.over(); more {
			break
		}
	}
	if more = more || int64(len(rows)) == r.most; !more {
		to = from
	}
	if err := r.q.SetDroppedTo(ctx, to); err != nil {
		return false, fmt.Errorf("pages: %w", err)
	}
	return more, nil
}

// raise moves the log's beginning behind the events that are no longer kept.
func (r *retentionStep) raise(ctx context.Context) (int64, error) {
	last, err := r.q.LastPosition(ctx)
	if err != nil {
		return 0, err
	}
	rolled, err := r.w.sq.RollPlace(ctx)
	if err != nil {
		return 0, err
	}
	from, err := store.Newest(r.meta.EventsFrom, last, func(at int64) (int64, bool, error) {
		e, err := r.q.NewestPage(ctx, at)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, false, nil
		}
		return e.Position, r.EventOver(fromMicros(r.now), fromMicros(e.At), e.Position <= rolled.Position), err
	})
	if err != nil || from == r.meta.EventsFrom {
		return from, err
	}
	return from, r.q.RaiseEventsFrom(ctx, from)
}

// jobs removes some ended jobs of one project and state: the order of the index. An
// erasure has one project.
func (r *retentionStep) jobs(ctx context.Context) (more bool, err error) {
	if r.Keep.Jobs == 0 {
		return false, nil
	}
	if r.place.Project == "" {
		return r.nextJobs(ctx)
	}
	most := min(r.most, stepJobs)
	rows, err := r.q.EndedJobs(ctx, sqlitedb.EndedJobsParams{
		Project: r.place.Project, State: int64(r.place.State), After: someMicros(r.place.Ended),
		Until: someMicros(r.now - micros(r.Keep.Jobs)), AfterConnection: fromID(r.place.Connection),
		AfterID: fromID(r.place.Job), MaxRows: most,
	})
	if err != nil {
		return false, fmt.Errorf("ended jobs: %w", err)
	}
	for i, row := range rows {
		r.place.Ended, r.place.Connection, r.place.Job = row.EndedAt.Int64, toID(row.ConnectionID), toID(row.JobID)
		if err := r.thread(ctx, sqlitedb.EndedJobRow(row)); err != nil {
			return false, err
		}
		if r.over() && i+1 < len(rows) {
			return true, nil
		}
	}
	if int64(len(rows)) < most {
		return r.nextJobs(ctx)
	}
	return true, nil
}

// terminal are the terminal states, in the order of a pass.
var terminal = []job.State{job.Succeeded, job.Failed, job.Canceled, job.Expired}

// nextJobs continues with the next state, or with the next project.
func (r *retentionStep) nextJobs(ctx context.Context) (more bool, err error) {
	r.place = store.RetainPlace{Phase: store.PhaseJobs, Project: r.place.Project, State: r.place.State}
	for _, state := range terminal {
		if r.place.Project != "" && state > r.place.State {
			r.place.State = state
			return true, nil
		}
	}
	if r.erasureRequest != nil {
		return false, nil
	}
	r.place.Project, err = r.q.NextProject(ctx, r.place.Project)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("next project: %w", err)
	}
	r.place.State = terminal[0]
	return true, nil
}

// thread removes a job without replies, and then the one that it replied to if only this
// reply kept it: the place has passed a predecessor that ended first, and one that ended
// last may be a row of the same page. The step's time does not end a thread, so that the
// same calls remove the same jobs.
func (r *retentionStep) thread(ctx context.Context, row sqlitedb.EndedJobRow) error {
	for range stepJobs {
		if r.removed[toID(row.JobID)] {
			return nil
		}
		answered, err := r.q.HasReplies(ctx, row.JobID)
		if err != nil || answered == 1 {
			return err
		}
		if err := r.remove(ctx, row); err != nil {
			return err
		}
		if row.ReplyTo == nil {
			return nil
		}
		row, err = r.q.EndedJob(ctx, sqlitedb.EndedJobParams{
			JobID: row.ReplyTo, Until: someMicros(r.now - micros(r.Keep.Jobs)),
		})
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("predecessor: %w", err)
		}
	}
	return nil
}

// remove removes all data of a job. Its key may outlive it.
func (r *retentionStep) remove(ctx context.Context, row sqlitedb.EndedJobRow) error {
	id := row.JobID
	if err := r.leaveErased(ctx, id); err != nil {
		return fmt.Errorf("erased job: %w", err)
	}
	if err := r.removeKey(ctx, row); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if class := job.Class(row.Class); class == job.Handle || class == job.Observable {
		// A look of another job may find the object.
		if err := r.q.KeepObject(ctx, id); err != nil {
			return fmt.Errorf("effect: %w", err)
		}
	}
	err := inSequence(ctx,
		with(r.q.RemoveAttempts, id), with(r.q.RemoveObservations, id), with(r.q.RemoveResolutions, id),
		with(r.q.RemoveEffect, id), with(r.q.RemoveHistory, id),
		with(r.q.RemoveTexts, sqlitedb.RemoveTextsParams{JobID: id, DroppedTo: r.meta.DroppedTo}),
		with(r.q.RemoveState, id), with(r.q.RemoveJob, id))
	if err != nil {
		return fmt.Errorf("rows: %w", err)
	}
	if err := r.w.usage.add(ctx, r.tx, row.Project, -1, -row.Bytes); err != nil {
		return err
	}
	if r.removed == nil {
		r.removed = make(map[job.ID]bool)
	}
	r.removed[toID(id)] = true
	r.out.Jobs++
	return nil
}

func (r *retentionStep) removeKey(ctx context.Context, row sqlitedb.EndedJobRow) error {
	conn, err := r.getConnection(ctx, row.ConnectionID)
	if err != nil {
		return fmt.Errorf("connection: %w", err)
	}
	keep, ends := r.KeepKey(conn.Connector, fromDuration(conn.KeyWindow))
	from := row.EndedAt.Int64
	if r.erasureRequest != nil {
		from = r.now
	}
	until := from + micros(keep)
	if !ends {
		until = math.MaxInt64
	}
	digest := digestOf(row.Project, row.IdemKey)
	if until > r.now {
		return r.q.KeepKey(ctx, sqlitedb.KeepKeyParams{KeptUntil: someMicros(until), Digest: digest, JobID: row.JobID})
	}
	n, err := r.q.RemoveKey(ctx, sqlitedb.RemoveKeyParams{Digest: digest, JobID: row.JobID})
	r.out.Keys += int(n)
	return err
}

// keys forgets keys that have outlived their jobs for long enough.
func (r *retentionStep) keys(ctx context.Context) (more bool, err error) {
	rows, err := r.q.KeysOver(ctx, sqlitedb.KeysOverParams{Now: someMicros(r.now), MaxRows: r.most})
	if err != nil {
		return false, fmt.Errorf("keys: %w", err)
	}
	for _, row := range rows {
		if err := r.q.ForgetKey(ctx, row); err != nil {
			return false, fmt.Errorf("keys: %w", err)
		}
		if r.out.Keys++; r.over() {
			return true, nil
		}
	}
	return int64(len(rows)) == r.most, nil
}

// objects forgets the objects of removed jobs that no look can find any more.
func (r *retentionStep) objects(ctx context.Context) (more bool, err error) {
	first, err := r.firstStart(ctx)
	if err != nil {
		return false, fmt.Errorf("starts: %w", err)
	}
	rows, err := r.q.ObjectsBefore(ctx, sqlitedb.ObjectsBeforeParams{Before: first - micros(store.LookSlack), MaxRows: r.most})
	if err != nil {
		return false, fmt.Errorf("objects: %w", err)
	}
	for _, id := range rows {
		if err := r.q.ForgetObject(ctx, id); err != nil {
			return false, fmt.Errorf("objects: %w", err)
		}
		if r.out.Objects++; r.over() {
			return true, nil
		}
	}
	return int64(len(rows)) == r.most, nil
}

// firings removes firings that were decided long ago, and raises the begin of their
// schedules' ledgers.
func (r *retentionStep) firings(ctx context.Context) (more bool, err error) {
	before := r.now - micros(store.FiringsKept)
	rows, err := r.q.OldFirings(ctx, sqlitedb.OldFiringsParams{Before: before, MaxRows: r.most})
	if err != nil {
		return false, fmt.Errorf("firings: %w", err)
	}
	for i, row := range rows {
		if err := r.q.RemoveFiring(ctx, sqlitedb.RemoveFiringParams{ScheduleID: row.ScheduleID, Name: row.Name}); err != nil {
			return false, fmt.Errorf("firings: %w", err)
		}
		if err := r.q.RaiseLedger(ctx, sqlitedb.RaiseLedgerParams{LedgerBegin: before, ID: row.ScheduleID}); err != nil {
			return false, fmt.Errorf("firings: %w", err)
		}
		if r.out.Firings++; r.over() && i+1 < len(rows) {
			return true, nil
		}
	}
	return int64(len(rows)) == r.most, nil
}

// firstStart returns the time of the oldest first attempt of all jobs that look for their
// objects; now if there is none.
func (r *retentionStep) firstStart(ctx context.Context) (int64, error) {
	first, err := r.q.FirstStart(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return r.now, nil
	}
	return min(first.Int64, r.now), err
}

// digestOf returns the digest under which a key is bound.
func digestOf(project, key string) []byte {
	sum := job.KeyDigest(project, key)
	return sum[:]
}
