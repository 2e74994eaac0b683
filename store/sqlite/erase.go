package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - an erasure removes a job as retention does (retention.go), and then what retention
//     leaves to time;
//   - SQLite overwrites what an erasure removes with zeros: a deleted row cannot be read from
//     the file afterwards. It costs writes, so other removals do not do it.

// erasureRequest is what an erasure adds to a removal.
type erasureRequest struct{ actor string }

// overwriting runs fn while SQLite overwrites what is deleted.
func (t *tx) overwriting(ctx context.Context, fn func() error) (err error) {
	if t.overwrites {
		return fn()
	}
	if err := t.pragma(ctx, "secure_delete = ON"); err != nil {
		return err
	}
	t.overwrites = true
	defer func() {
		t.overwrites = false
		err = errors.Join(err, t.pragma(ctx, "secure_delete = OFF"))
	}()
	return fn()
}

func (t *tx) pragma(ctx context.Context, text string) error {
	if _, err := t.w.conn.ExecContext(ctx, "PRAGMA "+text); err != nil {
		return fmt.Errorf("pragma %s: %w", text, err)
	}
	return nil
}

// erasure returns a removal on request.
func (t *tx) erasure(ctx context.Context, keep store.Keep, actor string, limit int) (*retentionStep, error) {
	if err := t.refuseClosed(ctx); err != nil {
		return nil, err
	}
	r := &retentionStep{tx: t, most: page(limit), end: time.Now().Add(stepTime), erasureRequest: &erasureRequest{actor}}
	r.Keep = store.Keep{Jobs: store.LeastKept, Keys: keep.Keys, EndlessKeys: keep.EndlessKeys}
	var err error
	r.meta, err = t.q.GetMeta(ctx)
	return r, err
}

// EraseJob implements store.Store.
func (s *Store) EraseJob(ctx context.Context, p store.EraseParams) (store.ErasedJob, error) {
	return write(ctx, s, "erase job", func(ctx context.Context, t *tx) (store.ErasedJob, error) {
		r, err := t.erasure(ctx, p.Keep, p.Actor, 1)
		if err != nil {
			return store.ErasedJob{}, err
		}
		row, err := r.judge(ctx, p)
		if err == nil {
			err = t.overwriting(ctx, func() error { return r.remove(ctx, row) })
		}
		if err != nil {
			return store.ErasedJob{}, err
		}
		return t.view().erasedJob(ctx, p.Project, p.Job)
	})
}

// judge finds the job to erase, if it may be erased.
func (r *retentionStep) judge(ctx context.Context, p store.EraseParams) (sqlitedb.EndedJobRow, error) {
	id := fromID(p.Job)
	var none sqlitedb.EndedJobRow
	st, err := r.q.GetState(ctx, id)
	switch {
	case err != nil:
		return none, orNotFound(err)
	case st.Project != p.Project:
		return none, store.ErrNotFound
	case st.Version != p.Version:
		return none, store.ErrStale
	case !st.EndedAt.Valid:
		return none, fmt.Errorf("%w: the job has not ended", store.ErrIllegal)
	}
	if err := store.KeptFor(fromNullMicros(st.EndedAt), fromMicros(r.now)); err != nil {
		return none, err
	}
	switch reply, err := r.q.FirstReply(ctx, id); {
	case err == nil:
		return none, &store.KeptError{Reply: toID(reply)}
	case !errors.Is(err, sql.ErrNoRows):
		return none, fmt.Errorf("replies: %w", err)
	}
	return r.q.EndedJob(ctx, sqlitedb.EndedJobParams{JobID: id, Until: someMicros(r.now)})
}

// leaveErased writes the record of an erased job. Retention leaves none.
func (r *retentionStep) leaveErased(ctx context.Context, id []byte) error {
	if r.erasureRequest == nil {
		return nil
	}
	snap, err := r.view().snapshot(ctx, id)
	if err != nil {
		return err
	}
	e := store.EraseOf(snap, fromMicros(r.now), r.erasureRequest.actor)
	if err := r.q.InsertErasedJob(ctx, insertErasedJobParams(e)); err != nil {
		return err
	}
	return r.q.RemoveTextsOf(ctx, id)
}

// ErasedJob implements store.Store.
func (s *Store) ErasedJob(ctx context.Context, project string, id job.ID) (store.ErasedJob, error) {
	return read(ctx, s, "erased job", func(ctx context.Context, v view) (store.ErasedJob, error) {
		return v.erasedJob(ctx, project, id)
	})
}

func (v view) erasedJob(ctx context.Context, project string, id job.ID) (store.ErasedJob, error) {
	row, err := v.q.GetErasedJob(ctx, fromID(id))
	if err == nil && row.Project != project {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.ErasedJob{}, orNotFound(err)
	}
	return toErasedJob(row), nil
}

func insertErasedJobParams(e store.ErasedJob) sqlitedb.InsertErasedJobParams {
	return sqlitedb.InsertErasedJobParams{
		JobID: fromID(e.ID), Project: e.Project, KeyDigest: e.KeyDigest[:], State: int64(e.State), Class: int64(e.Class),
		Attempts: int64(e.Attempts), Proof: int64(e.Proof), EffectAt: toMicros(e.EffectAt), ObjectDigest: e.ObjectDigest,
		ScheduleTime: e.ScheduleTime.UnixMicro(), CreatedAt: e.Created.UnixMicro(), EndedAt: e.Ended.UnixMicro(),
		ErasedAt: e.Erased.UnixMicro(), Actor: e.Actor,
	}
}

func toErasedJob(r sqlitedb.ErasedJob) store.ErasedJob {
	out := store.ErasedJob{
		ID: toID(r.JobID), Project: r.Project, State: job.State(r.State), Class: job.Class(r.Class),
		Attempts: int(r.Attempts), Proof: job.Proof(r.Proof), EffectAt: fromNullMicros(r.EffectAt),
		ObjectDigest: toBytes(r.ObjectDigest), ScheduleTime: fromMicros(r.ScheduleTime),
		Created: fromMicros(r.CreatedAt), Ended: fromMicros(r.EndedAt), Erased: fromMicros(r.ErasedAt),
		Actor: r.Actor,
	}
	copy(out.KeyDigest[:], r.KeyDigest)
	return out
}

// EraseProject implements store.Store.
func (s *Store) EraseProject(ctx context.Context, p store.EraseProjectParams) (store.ProjectErasure, error) {
	place, err := store.ParseErasePlace(p.Project, p.After)
	if err != nil {
		return store.ProjectErasure{}, fmt.Errorf("erase project: %w", err)
	}
	return write(ctx, s, "erase project", func(ctx context.Context, t *tx) (store.ProjectErasure, error) {
		r, err := t.erasure(ctx, p.Keep, p.Actor, p.Limit)
		if err != nil {
			return store.ProjectErasure{}, err
		}
		e := &projectErasure{retentionStep: r, place: place, project: p.Project}
		if err := e.refuse(ctx); err != nil {
			return store.ProjectErasure{}, err
		}
		err = t.overwriting(ctx, func() error { return e.step(ctx) })
		return e.out, err
	})
}

// projectErasure is one step of a pass over a project in progress.
type projectErasure struct {
	*retentionStep
	place   store.ErasePlace
	project string
	out     store.ProjectErasure
}

// refuse refuses a project that does not exist, or that has live API keys.
func (e *projectErasure) refuse(ctx context.Context) error {
	if err := e.shared().LockProject(ctx, e.project); err != nil {
		return err
	}
	live, err := e.shared().Counts(e.project).APIKeys(ctx)
	if err == nil && live > 0 {
		return store.ErrProjectLive
	}
	return err
}

// step does one part of the pass, and sets where the next one begins.
func (e *projectErasure) step(ctx context.Context) error {
	parts := [store.EraseDone]func(context.Context) (more bool, err error){
		store.EraseSchedules: e.schedules, store.EraseJobs: e.jobs, store.EraseRest: e.rest, store.EraseLog: e.log, store.EraseHoldings: e.holdings,
	}
	more, err := parts[e.place.Phase](ctx)
	if err == nil && !e.out.Done {
		e.out.Next, e.out.Done = e.place.After(more)
	}
	return err
}

// schedules deletes schedules, so that they make no jobs.
func (e *projectErasure) schedules(ctx context.Context) (more bool, err error) {
	rows, err := e.w.sq.LockLiveSchedules(ctx, shareddb.LockLiveSchedulesParams{Project: e.project, MaxRows: int32(min(e.most, stepJobs))})
	if err != nil {
		return false, fmt.Errorf("schedules: %w", err)
	}
	for _, row := range rows {
		s, err := sqlstore.ToSchedule(row)
		if err != nil {
			return false, err
		}
		s.State = store.ScheduleDeleted
		if _, err := e.shared().ChangeSchedule(ctx, row, store.ScheduleChange{Schedule: s, Actor: e.erasureRequest.actor}); err != nil {
			return false, fmt.Errorf("schedule: %w", err)
		}
	}
	return int64(len(rows)) == min(e.most, stepJobs), nil
}

// removeSchedules removes the schedules of the project with their firings and items.
func (e *projectErasure) removeSchedules(ctx context.Context) (more bool, err error) {
	ids, err := e.q.SchedulesOf(ctx, sqlitedb.SchedulesOfParams{Project: e.project, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("schedules: %w", err)
	}
	for _, id := range ids {
		names, err := e.q.FiringsOf(ctx, sqlitedb.FiringsOfParams{ScheduleID: id, MaxRows: e.most})
		if err != nil {
			return false, fmt.Errorf("firings: %w", err)
		}
		for _, name := range names {
			if err := e.q.RemoveFiring(ctx, sqlitedb.RemoveFiringParams{ScheduleID: id, Name: name}); err != nil {
				return false, fmt.Errorf("firings: %w", err)
			}
		}
		e.out.Firings += len(names)
		if int64(len(names)) == e.most {
			return true, nil
		}
		items, err := e.q.RemoveItemsOf(ctx, sqlitedb.RemoveItemsOfParams{ScheduleID: id, MaxRows: e.most})
		if err != nil {
			return false, fmt.Errorf("items: %w", err)
		}
		if items == e.most {
			return true, nil
		}
		for _, remove := range []func(context.Context, []byte) error{e.q.RemoveSchedule, e.q.RemoveCoolDown} {
			if err := remove(ctx, id); err != nil {
				return false, fmt.Errorf("schedule: %w", err)
			}
		}
		if e.out.Schedules++; e.over() {
			return true, nil
		}
	}
	return int64(len(ids)) == e.most, nil
}

func (e *projectErasure) jobs(ctx context.Context) (more bool, err error) {
	e.retentionStep.place = e.place.Jobs
	if at := &e.retentionStep.place; at.Project != e.project || !slices.Contains(terminal, at.State) {
		*at = store.RetainPlace{Phase: store.PhaseJobs, Project: e.project, State: terminal[0]}
	}
	more, err = e.retentionStep.jobs(ctx)
	e.out.Jobs, e.place.Jobs = e.retentionStep.out.Jobs, e.retentionStep.place
	return more, err
}

// rest ends the pass if jobs are left.
func (e *projectErasure) rest(ctx context.Context) (more bool, err error) {
	rest := &e.out.Rest
	for _, state := range job.States {
		some, err := e.q.SomeOfState(ctx, sqlitedb.SomeOfStateParams{Project: e.project, State: int64(state), MaxRows: store.MaxRest})
		if err != nil {
			return false, fmt.Errorf("jobs: %w", err)
		}
		sum := &rest.Open
		if state.Terminal() {
			sum = &rest.Kept
		}
		*sum = min(*sum+int64(len(some)), store.MaxRest)
	}
	if e.out.Done = rest.Open+rest.Kept > 0; !e.out.Done {
		return false, nil
	}
	after := e.now - micros(store.LeastKept)
	for _, state := range terminal {
		first, err := e.q.FirstEndedAfter(ctx, sqlitedb.FirstEndedAfterParams{
			Project: e.project, State: int64(state), After: someMicros(after),
		})
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("ended jobs: %w", err)
		}
		if wait := fromDuration(first.Int64 - after); rest.Wait == 0 || wait < rest.Wait {
			rest.Wait = wait
		}
	}
	return false, nil
}

// log removes the texts and the actors from the remaining events.
func (e *projectErasure) log(ctx context.Context) (more bool, err error) {
	most := min(e.most, mostPages)
	pages, err := e.q.PageSizes(ctx, sqlitedb.PageSizesParams{Project: e.project, After: e.place.Position, MaxRows: most})
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	for i, p := range pages {
		if err := e.blankPage(ctx, p.Position); err != nil {
			return false, fmt.Errorf("page %d of the log: %w", p.Position, err)
		}
		if e.place.Position = p.Position; e.over() && i+1 < len(pages) {
			return true, nil
		}
	}
	return int64(len(pages)) == most, nil
}

// blankPage rewrites a page without texts and actors, unless it has none.
func (e *projectErasure) blankPage(ctx context.Context, position int64) error {
	pages, err := e.q.ProjectPages(ctx, sqlitedb.ProjectPagesParams{Project: e.project, After: position - 1, UpTo: position})
	if err != nil || len(pages) == 0 {
		return err
	}
	entries, err := logpage.Decode(e.project, pages[0].Body)
	if err != nil {
		return err
	}
	blanked := 0
	for i := range entries {
		entry := &entries[i]
		if entry.Texts {
			if err := e.q.RemoveTextsOf(ctx, fromID(entry.Job)); err != nil {
				return err
			}
		}
		if entry.Texts || entry.Actor != "" {
			entry.Texts, entry.Actor = false, ""
			blanked++
		}
	}
	if blanked == 0 {
		return nil
	}
	e.out.Events += blanked
	return e.q.SetPageBody(ctx, sqlitedb.SetPageBodyParams{Body: logpage.Encode(entries), Position: position})
}

// holdings removes what the project has apart from jobs, unless a job came meanwhile.
func (e *projectErasure) holdings(ctx context.Context) (more bool, err error) {
	if _, err := e.rest(ctx); err != nil || e.out.Done {
		return false, err
	}
	if more, err := e.removeSchedules(ctx); err != nil || more {
		return more, err
	}
	live, err := e.q.LiveConnections(ctx, sqlitedb.LiveConnectionsParams{Project: e.project, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("connections: %w", err)
	}
	for _, id := range live {
		e.out.Live = append(e.out.Live, toID(id))
	}
	if len(live) > 0 {
		return true, nil
	}
	ids, err := e.q.ConnectionsOf(ctx, sqlitedb.ConnectionsOfParams{Project: e.project, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("connections: %w", err)
	}
	for _, id := range ids {
		if err := e.connection(ctx, id); err != nil {
			return false, fmt.Errorf("connection: %w", err)
		}
	}
	if e.out.Connections = len(ids); int64(len(ids)) == e.most {
		return true, nil
	}
	logins, err := e.q.RemoveLogins(ctx, e.project)
	if err != nil {
		return false, fmt.Errorf("logins: %w", err)
	}
	keys, err := e.q.RemoveAPIKeys(ctx, e.project)
	if err != nil {
		return false, fmt.Errorf("API keys: %w", err)
	}
	e.out.Logins, e.out.APIKeys = int(logins), int(keys)
	return false, e.q.SetProjectErased(ctx, sqlitedb.SetProjectErasedParams{
		ErasedAt: someMicros(e.now), ErasedBy: e.erasureRequest.actor, ID: e.project,
	})
}

// connection removes all data of a deleted connection.
func (e *projectErasure) connection(ctx context.Context, id []byte) error {
	labels := sqlitedb.RemoveConnectionLabelsParams{ConnectionID: id, Project: e.project}
	return inSequence(ctx,
		with(e.q.RemoveConnectionLabels, labels), with(e.q.DropRunnableOf, id), with(e.q.DropCredentials, id),
		with(e.q.RemoveRenewal, id), with(e.q.RemoveCoolDown, id), with(e.q.BlankConnection, id))
}
