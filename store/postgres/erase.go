package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/gen/pgdb"
	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
	"github.com/fireonce/fireonce/store/rules"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file:
//   - an erasure removes jobs as retention does (retention.go), and then what retention
//     leaves to time;
//   - it shares the lock on the row of retention: no step of retention runs meanwhile, which
//     would drop events by the jobs that it still sees;
//   - a connection is removed once it was deleted, and no job of its project is left: no
//     transaction stores a job on a deleted one.

// erasureRequest is what an erasure adds to a removal.
type erasureRequest struct{ actor string }

// erasure returns a removal on request.
func (t *tx) erasure(ctx context.Context, keep store.Keep, actor string, limit int) (*retentionStep, error) {
	if err := t.refuseClosed(); err != nil {
		return nil, err
	}
	r := &retentionStep{tx: t, most: int32(rules.Page(limit)), erasureRequest: &erasureRequest{actor}}
	r.Keep = store.Keep{Jobs: store.LeastKept, Keys: keep.Keys, EndlessKeys: keep.EndlessKeys}
	var err error
	r.droppedTo, err = t.q.ShareRetention(ctx)
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
			err = r.remove(ctx, []pgdb.LockEndedRow{row})
		}
		if err != nil {
			return store.ErasedJob{}, err
		}
		return t.view().erasedJob(ctx, p.Project, p.Job)
	})
}

// judge locks the job to erase, if it may be erased.
func (r *retentionStep) judge(ctx context.Context, p store.EraseParams) (pgdb.LockEndedRow, error) {
	var none pgdb.LockEndedRow
	st, err := r.q.LockToErase(ctx, fromID(p.Job))
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && st.Project != p.Project:
		return none, store.ErrNotFound
	case err != nil:
		return none, err
	case st.Version != p.Version:
		return none, store.ErrStale
	case st.EndedAt == nil:
		return none, fmt.Errorf("%w: the job has not ended", store.ErrIllegal)
	}
	if err := store.KeptFor(toTime(st.EndedAt), r.now); err != nil {
		return none, err
	}
	replies, err := r.q.Replies(ctx, fromIDs([]job.ID{p.Job}))
	if err != nil {
		return none, fmt.Errorf("replies: %w", err)
	}
	if len(replies) > 0 {
		return none, &store.KeptError{Reply: toID(replies[0].ID)}
	}
	return pgdb.LockEndedRow{JobID: st.JobID, EndedAt: st.EndedAt}, nil
}

// leaveErased writes the records of erased jobs. Retention leaves none.
func (r *retentionStep) leaveErased(ctx context.Context, jobs []job.ID) error {
	if r.erasureRequest == nil {
		return nil
	}
	snaps, err := r.view().snapshots(ctx, jobs, false)
	if err != nil {
		return err
	}
	for _, id := range jobs {
		p := insertErasedJobParams(store.EraseOf(snaps[id], r.now, r.erasureRequest.actor))
		r.queue(ctx, statement("record", (*pgdb.Queries).InsertErasedJob, p))
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	return r.q.EraseTexts(ctx, fromIDs(jobs))
}

// ErasedJob implements store.Store.
func (s *Store) ErasedJob(ctx context.Context, project string, id job.ID) (store.ErasedJob, error) {
	return readOne(ctx, s, "erased job", func(ctx context.Context, v view) (store.ErasedJob, error) {
		return v.erasedJob(ctx, project, id)
	})
}

func (v view) erasedJob(ctx context.Context, project string, id job.ID) (store.ErasedJob, error) {
	row, err := v.q.GetErasedJob(ctx, fromID(id))
	if err == nil && row.Project != project {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.ErasedJob{}, err
	}
	return toErasedJob(row), nil
}

func insertErasedJobParams(e store.ErasedJob) pgdb.InsertErasedJobParams {
	return pgdb.InsertErasedJobParams{
		JobID: fromID(e.ID), Project: e.Project, KeyDigest: e.KeyDigest[:], State: int16(e.State), Class: int16(e.Class),
		Attempts: int64(e.Attempts), Proof: int16(e.Proof), EffectAt: fromTime(e.EffectAt), ObjectDigest: e.ObjectDigest,
		ScheduleTime: e.ScheduleTime, CreatedAt: e.Created, EndedAt: e.Ended, ErasedAt: e.Erased, Actor: e.Actor,
	}
}

func toErasedJob(r pgdb.ErasedJob) store.ErasedJob {
	out := store.ErasedJob{
		ID: toID(r.JobID), Project: r.Project, State: job.State(r.State), Class: job.Class(r.Class),
		Attempts: int(r.Attempts), Proof: job.Proof(r.Proof), EffectAt: toTime(r.EffectAt),
		ObjectDigest: toBytes(r.ObjectDigest), ScheduleTime: r.ScheduleTime.UTC(), Created: r.CreatedAt.UTC(),
		Ended: r.EndedAt.UTC(), Erased: r.ErasedAt.UTC(), Actor: r.Actor,
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
		err = e.step(ctx)
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

// refuse refuses a project that does not exist, or that has live API keys. It locks the
// project's row, so that no key is created meanwhile.
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
	rows, err := e.shared().Q.LockLiveSchedules(ctx, shareddb.LockLiveSchedulesParams{Project: e.project, MaxRows: e.most})
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
	return len(rows) == int(e.most), nil
}

// removeSchedules removes the schedules of the project with their firings and items.
func (e *projectErasure) removeSchedules(ctx context.Context) (more bool, err error) {
	ids, err := e.q.LockSchedulesOf(ctx, pgdb.LockSchedulesOfParams{Project: e.project, MaxRows: e.most})
	if err != nil || len(ids) == 0 {
		return false, named("schedules", err)
	}
	most := 4 * e.most
	n, err := e.q.RemoveFiringsOf(ctx, pgdb.RemoveFiringsOfParams{Ids: ids, MaxRows: most})
	if e.out.Firings = int(n); err != nil || n == int64(most) {
		return true, named("firings", err)
	}
	items, err := e.q.RemoveItemsOf(ctx, pgdb.RemoveItemsOfParams{Ids: ids, MaxRows: most})
	if err != nil || items == int64(most) {
		return true, named("items", err)
	}
	e.out.Schedules = len(ids)
	if err := e.q.RemoveCoolDownsOf(ctx, ids); err != nil {
		return false, fmt.Errorf("cool-downs: %w", err)
	}
	return len(ids) == int(e.most), named("schedules", e.q.RemoveSchedules(ctx, ids))
}

func (e *projectErasure) jobs(ctx context.Context) (more bool, err error) {
	e.retentionStep.place = e.place.Jobs
	if at := &e.retentionStep.place; at.Project != e.project {
		*at = store.RetainPlace{Phase: store.PhaseJobs, Project: e.project}
	}
	more, err = e.retentionStep.jobs(ctx)
	e.out.Jobs, e.place.Jobs = e.retentionStep.out.Jobs, e.retentionStep.place
	return more, err
}

// rest ends the pass if jobs are left.
func (e *projectErasure) rest(ctx context.Context) (more bool, err error) {
	rest := &e.out.Rest
	if rest.Open, err = e.q.CountOpen(ctx, pgdb.CountOpenParams{Project: e.project, MaxRows: store.MaxRest}); err != nil {
		return false, fmt.Errorf("open jobs: %w", err)
	}
	rest.Open = min(rest.Open, store.MaxRest)
	if rest.Kept, err = e.q.CountKept(ctx, pgdb.CountKeptParams{Project: e.project, MaxRows: store.MaxRest}); err != nil {
		return false, fmt.Errorf("ended jobs: %w", err)
	}
	if e.out.Done = rest.Open+rest.Kept > 0; !e.out.Done {
		return false, nil
	}
	after := e.now.Add(-store.LeastKept)
	first, err := e.q.FirstEndedAfter(ctx, pgdb.FirstEndedAfterParams{Project: e.project, After: &after})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ended jobs: %w", err)
	}
	rest.Wait = toTime(first).Sub(after)
	return false, nil
}

// log removes the texts and the actors from the remaining events.
func (e *projectErasure) log(ctx context.Context) (more bool, err error) {
	most := 4 * e.most
	rows, err := e.q.NextPages(ctx, pgdb.NextPagesParams{Project: e.project, After: e.place.Position, Most: most})
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	var rewrite pgdb.RewritePagesParams
	var texts []int64
	read := 0
	for _, r := range rows {
		entries, err := logpage.Decode(e.project, r.Body)
		if err != nil {
			return false, fmt.Errorf("log: %w", err)
		}
		read, e.place.Position = read+len(entries), r.Position
		words := 0
		for i := range entries {
			n := &entries[i]
			if n.Texts {
				texts = append(texts, n.Position)
			}
			if n.Texts || n.Actor != "" {
				words++
			}
			n.Texts, n.Actor = false, ""
		}
		if e.out.Events += words; words > 0 {
			rewrite.Positions, rewrite.Bodies = append(rewrite.Positions, r.Position), append(rewrite.Bodies, logpage.Encode(entries))
		}
	}
	if len(rewrite.Positions) > 0 {
		if err := e.q.RewritePages(ctx, rewrite); err != nil {
			return false, fmt.Errorf("log: %w", err)
		}
	}
	if len(texts) > 0 {
		if err := e.q.EraseTextsAt(ctx, texts); err != nil {
			return false, fmt.Errorf("texts: %w", err)
		}
	}
	return read >= int(most), nil
}

// holdings removes what the project has apart from jobs, unless a job came meanwhile.
func (e *projectErasure) holdings(ctx context.Context) (more bool, err error) {
	if _, err := e.rest(ctx); err != nil || e.out.Done {
		return false, err
	}
	if more, err := e.removeSchedules(ctx); err != nil || more {
		return more, err
	}
	live, err := e.q.LiveConnections(ctx, pgdb.LiveConnectionsParams{Project: e.project, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("connections: %w", err)
	}
	if e.out.Live = toIDs(live); len(live) > 0 {
		return true, nil
	}
	rows, err := e.q.ConnectionsOf(ctx, pgdb.ConnectionsOfParams{Project: e.project, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("connections: %w", err)
	}
	ids := toIDs(rows)
	if err := e.connections(ctx, ids); err != nil {
		return false, fmt.Errorf("connections: %w", err)
	}
	if e.out.Connections = len(ids); len(ids) == int(e.most) {
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
	return false, e.q.SetProjectErased(ctx, pgdb.SetProjectErasedParams{
		ErasedAt: someTime(e.now), ErasedBy: e.erasureRequest.actor, ID: e.project,
	})
}

// connections removes all data of deleted connections.
func (e *projectErasure) connections(ctx context.Context, jobs []job.ID) error {
	if len(jobs) == 0 {
		return nil
	}
	ids := fromIDs(distinct(jobs))
	err := inSequence(ctx,
		with(e.q.RemoveLabelsOf, pgdb.RemoveLabelsOfParams{Project: e.project, Ids: ids}), with(e.q.RemoveCoolDownsOf, ids),
		with(e.q.LockClaimLockRows, ids), with(e.q.LockConnectionRows, ids), with(e.q.RemoveRunnableOf, ids),
		with(e.q.RemoveCredentialsOf, ids), with(e.q.RemoveRenewalsOf, ids), with(e.q.RemoveClaimLocksOf, ids))
	if err != nil {
		return err
	}
	n, err := e.q.RemoveConnections(ctx, ids)
	if err == nil && n != int64(len(ids)) {
		err = fmt.Errorf("%w: %d of %d deleted connections were removed", store.ErrUnavailable, n, len(ids))
	}
	return err
}
