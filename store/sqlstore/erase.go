package sqlstore

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/logpage"
)

// Rules of this file:
//   - an erasure removes jobs as retention does (retention.go), and then what retention
//     leaves to time;
//   - no step of retention runs meanwhile, which would drop events by the jobs that it still
//     sees;
//   - a connection is blanked once it was deleted, and no job of its project is left: no
//     transaction stores a job on a deleted one.

// erasure returns a removal on request.
func (r *Roles) erasure(ctx context.Context, t Tx, project string, keep store.Keep, actor string, limit int) (*removal, error) {
	if err := t.RefuseClosed(ctx); err != nil {
		return nil, err
	}
	s := &removal{Tx: t, most: r.most(limit), erases: true, actor: actor, place: store.RetainPlace{Project: project}}
	s.Keep = store.Keep{Jobs: store.LeastKept, Keys: keep.Keys, EndlessKeys: keep.EndlessKeys}
	var err error
	s.droppedTo, err = t.ShareRetention(ctx)
	return s, err
}

// EraseJob implements store.Store.
func (r *Roles) EraseJob(ctx context.Context, p store.EraseParams) (store.ErasedJob, error) {
	return write(ctx, r, "erase job", func(ctx context.Context, t Tx) (store.ErasedJob, error) {
		s, err := r.erasure(ctx, t, p.Project, p.Keep, p.Actor, 1)
		if err == nil {
			err = s.judge(ctx, p)
		}
		if err != nil {
			return store.ErasedJob{}, err
		}
		rows, err := s.lockTheseEnded(ctx, []job.ID{p.Job}, t.Now)
		if err == nil {
			err = t.Overwriting(ctx, func() error {
				_, err := s.remove(ctx, rows)
				return err
			})
		}
		if err != nil {
			return store.ErasedJob{}, err
		}
		return t.erasedJob(ctx, p.Project, p.Job)
	})
}

// judge locks the job to erase, if it may be erased.
func (s *removal) judge(ctx context.Context, p store.EraseParams) error {
	st, err := s.Q.LockToErase(ctx, p.Job)
	switch {
	case err != nil:
		return orNotFound(err)
	case st.Project != p.Project:
		return store.ErrNotFound
	case st.Version != p.Version:
		return store.ErrStale
	case st.EndedAt.IsZero():
		return fmt.Errorf("%w: the job has not ended", store.ErrIllegal)
	}
	if err := store.KeptFor(st.EndedAt, s.Now); err != nil {
		return err
	}
	replies, err := s.Q.Replies(ctx, []job.ID{p.Job})
	if err == nil && len(replies) > 0 {
		return &store.KeptError{Reply: replies[0].ID}
	}
	return named("replies", err)
}

// leaveErased writes the records of erased jobs. Retention leaves none.
func (s *removal) leaveErased(ctx context.Context, ids []job.ID) error {
	if !s.erases {
		return nil
	}
	snaps, err := s.Snapshots(ctx, ids, false)
	if err != nil {
		return err
	}
	records := make([]shareddb.InsertErasedJobParams, len(snaps))
	for i, snap := range snaps {
		e := store.EraseOf(snap, s.Now, s.actor)
		records[i] = shareddb.InsertErasedJobParams{
			JobID: e.ID, Project: e.Project, KeyDigest: e.KeyDigest[:], State: e.State, Class: e.Class, Attempts: e.Attempts,
			Proof: e.Proof, EffectAt: e.EffectAt, ObjectDigest: e.ObjectDigest, ScheduleTime: e.ScheduleTime,
			CreatedAt: e.Created, EndedAt: e.Ended, ErasedAt: e.Erased, Actor: e.Actor,
		}
	}
	if err := inBatch(s.Q.InsertErasedJob(ctx, records).Exec); err != nil {
		return err
	}
	return s.Q.EraseTexts(ctx, ids)
}

// ErasedJob implements store.Store.
func (r *Roles) ErasedJob(ctx context.Context, project string, id job.ID) (store.ErasedJob, error) {
	return readOne(ctx, r, "erased job", func(ctx context.Context, v View) (store.ErasedJob, error) {
		return v.erasedJob(ctx, project, id)
	})
}

func (v View) erasedJob(ctx context.Context, project string, id job.ID) (store.ErasedJob, error) {
	e, err := v.Q.GetErasedJob(ctx, shareddb.GetErasedJobParams{JobID: id, Project: project})
	if err != nil {
		return store.ErasedJob{}, orNotFound(err)
	}
	out := store.ErasedJob{
		ID: e.JobID, Project: e.Project, State: e.State, Class: e.Class, Attempts: e.Attempts, Proof: e.Proof,
		EffectAt: e.EffectAt, ObjectDigest: e.ObjectDigest, ScheduleTime: e.ScheduleTime, Created: e.CreatedAt,
		Ended: e.EndedAt, Erased: e.ErasedAt, Actor: e.Actor,
	}
	copy(out.KeyDigest[:], e.KeyDigest)
	return out, nil
}

// EraseProject implements store.Store.
func (r *Roles) EraseProject(ctx context.Context, p store.EraseProjectParams) (store.ProjectErasure, error) {
	place, err := store.ParseErasePlace(p.Project, p.After)
	if err != nil {
		return store.ProjectErasure{}, fmt.Errorf("erase project: %w", err)
	}
	return write(ctx, r, "erase project", func(ctx context.Context, t Tx) (store.ProjectErasure, error) {
		s, err := r.erasure(ctx, t, p.Project, p.Keep, p.Actor, p.Limit)
		if err != nil {
			return store.ProjectErasure{}, err
		}
		e := &projectErasure{removal: s, at: place, project: p.Project}
		if err := e.refuse(ctx); err != nil {
			return store.ProjectErasure{}, err
		}
		err = t.Overwriting(ctx, func() error { return e.step(ctx) })
		return e.done, err
	})
}

// projectErasure is one step of a pass over a project in progress.
type projectErasure struct {
	*removal
	at      store.ErasePlace
	project string
	done    store.ProjectErasure
}

// refuse refuses a project that does not exist, or that has live API keys. It locks the
// project's row, so that no key is created meanwhile.
func (e *projectErasure) refuse(ctx context.Context) error {
	if err := e.LockProject(ctx, e.project); err != nil {
		return err
	}
	live, err := e.Counts(e.project).APIKeys(ctx)
	if err == nil && live > 0 {
		return store.ErrProjectLive
	}
	return err
}

// step does one part of the pass, and sets where the next one begins.
func (e *projectErasure) step(ctx context.Context) error {
	parts := [store.EraseDone]func(context.Context) (more bool, err error){
		store.EraseSubscriptions: e.subscriptions, store.EraseSchedules: e.schedules,
		store.EraseNotices: e.jobsOf(job.NoticeProject(e.project)), store.EraseJobs: e.jobsOf(e.project), store.EraseRest: e.rest,
		store.EraseNoticeLog: e.logOf(job.NoticeProject(e.project)), store.EraseLog: e.logOf(e.project), store.EraseHoldings: e.holdings,
	}
	more, err := parts[e.at.Phase](ctx)
	if err == nil && !e.done.Done {
		e.done.Next, e.done.Done = e.at.After(more)
	}
	return err
}

// subscriptions deletes subscriptions, so that they make no notices.
func (e *projectErasure) subscriptions(ctx context.Context) (more bool, err error) {
	rows, err := e.Q.LockLiveSubscriptions(ctx, shareddb.LockLiveSubscriptionsParams{Project: e.project, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("subscriptions: %w", err)
	}
	for _, row := range rows {
		s, err := toSubscription(row)
		if err != nil {
			return false, err
		}
		s.State, s.PauseCause, s.Note, s.UpdatedBy = store.SubscriptionDeleted, 0, "", e.actor
		if _, err := e.stepSubscription(ctx, store.SubscriptionStep{Subscription: s}); err != nil {
			return false, fmt.Errorf("subscription: %w", err)
		}
	}
	return len(rows) == int(e.most), nil
}

// schedules deletes schedules, so that they make no jobs.
func (e *projectErasure) schedules(ctx context.Context) (more bool, err error) {
	rows, err := e.Q.LockLiveSchedules(ctx, shareddb.LockLiveSchedulesParams{Project: e.project, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("schedules: %w", err)
	}
	for _, row := range rows {
		s, err := toSchedule(row)
		if err != nil {
			return false, err
		}
		s.State = store.ScheduleDeleted
		if _, err := e.changeSchedule(ctx, row, store.ScheduleChange{Schedule: s, Actor: e.actor}); err != nil {
			return false, fmt.Errorf("schedule: %w", err)
		}
	}
	return len(rows) == int(e.most), nil
}

// removeSchedules removes the schedules of the project with their firings and items.
func (e *projectErasure) removeSchedules(ctx context.Context) (more bool, err error) {
	ids, err := e.Q.LockSchedulesOf(ctx, shareddb.LockSchedulesOfParams{Project: e.project, MaxRows: e.most})
	if err != nil || len(ids) == 0 {
		return false, named("schedules", err)
	}
	most := 4 * e.most
	n, err := e.Q.RemoveFiringsOf(ctx, shareddb.RemoveFiringsOfParams{Ids: ids, MaxRows: most})
	if e.done.Firings = int(n); err != nil || n == int64(most) {
		return true, named("firings", err)
	}
	items, err := e.Q.RemoveItemsOf(ctx, shareddb.RemoveItemsOfParams{Ids: ids, MaxRows: most})
	if err != nil || items == int64(most) {
		return true, named("items", err)
	}
	e.done.Schedules = len(ids)
	if err := e.Q.RemoveCoolDowns(ctx, ids); err != nil {
		return false, fmt.Errorf("cool-downs: %w", err)
	}
	return len(ids) == int(e.most), named("schedules", e.Q.RemoveSchedules(ctx, ids))
}

// jobsOf removes the jobs of the project, or of its notices.
func (e *projectErasure) jobsOf(project string) func(context.Context) (more bool, err error) {
	return func(ctx context.Context) (more bool, err error) {
		if e.at.Jobs.Project == project {
			e.place = e.at.Jobs
		} else {
			e.place = store.RetainPlace{Phase: store.PhaseJobs, Project: project, State: terminal[0]}
		}
		more, err = e.removal.jobs(ctx)
		if e.at.Jobs = e.place; project == e.project {
			e.done.Jobs = e.out.Jobs
		}
		return more, err
	}
}

// rest ends the pass if jobs are left.
func (e *projectErasure) rest(ctx context.Context) (more bool, err error) {
	after := e.Now.Add(-store.LeastKept)
	rest := &e.done.Rest
	for _, project := range []string{e.project, job.NoticeProject(e.project)} {
		n, err := e.Q.CountRest(ctx, shareddb.CountRestParams{Project: project, MaxRows: store.MaxRest, After: after})
		if err != nil {
			return false, fmt.Errorf("jobs: %w", err)
		}
		rest.Open, rest.Kept = min(rest.Open+n.Waiting+n.UnderWay, store.MaxRest), min(rest.Kept+n.Ended, store.MaxRest)
		if wait := n.FirstEnd.Sub(after); !n.FirstEnd.IsZero() && (rest.Wait == 0 || wait < rest.Wait) {
			rest.Wait = wait
		}
	}
	e.done.Done = rest.Open+rest.Kept > 0
	return false, nil
}

func (e *projectErasure) logOf(project string) func(context.Context) (more bool, err error) {
	return func(ctx context.Context) (more bool, err error) { return e.log(ctx, project) }
}

// log removes the texts and the actors from the remaining events of the project, or of its
// notices.
func (e *projectErasure) log(ctx context.Context, project string) (more bool, err error) {
	pages, err := e.Q.NextPages(ctx, shareddb.NextPagesParams{Project: project, After: e.at.Position, MaxRows: e.most})
	if err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	var rewrite []shareddb.RewritePageParams
	var texts []int64
	read, most := 0, 4*int(e.most) // a page may have many events
	more = len(pages) == int(e.most)
	for _, p := range pages {
		if read >= most {
			more = true
			break
		}
		entries, err := logpage.Decode(project, p.Body)
		if err != nil {
			return false, fmt.Errorf("page %d of the log: %w", p.Position, err)
		}
		read += len(entries)
		blanked := 0
		for i := range entries {
			n := &entries[i]
			if n.Texts {
				texts = append(texts, n.Position)
			}
			if n.Texts || n.Actor != "" {
				blanked++
			}
			n.Texts, n.Actor = false, ""
		}
		if project == e.project {
			e.done.Events += blanked
		}
		if e.at.Position = p.Position; blanked > 0 {
			rewrite = append(rewrite, shareddb.RewritePageParams{Position: p.Position, Body: logpage.Encode(entries)})
		}
	}
	if err := inBatch(e.Q.RewritePage(ctx, rewrite).Exec); err != nil {
		return false, fmt.Errorf("log: %w", err)
	}
	return more, named("texts", e.Q.EraseTextsAt(ctx, texts))
}

// holdings removes what the project has apart from jobs, unless a job came meanwhile.
func (e *projectErasure) holdings(ctx context.Context) (more bool, err error) {
	if _, err := e.rest(ctx); err != nil || e.done.Done {
		return false, err
	}
	if more, err := e.removeSchedules(ctx); err != nil || more {
		return more, err
	}
	e.done.Live, err = e.Q.LiveConnections(ctx, shareddb.LiveConnectionsParams{Project: e.project, MaxRows: e.most})
	if err != nil || len(e.done.Live) > 0 {
		return true, named("connections", err)
	}
	if more, err := e.blankConnections(ctx); err != nil || more {
		return more, named("connections", err)
	}
	logins, err := e.Q.RemoveLogins(ctx, e.project)
	if err != nil {
		return false, fmt.Errorf("logins: %w", err)
	}
	keys, err := e.Q.RemoveAPIKeys(ctx, e.project)
	if err != nil {
		return false, fmt.Errorf("API keys: %w", err)
	}
	if err := e.Q.EraseNotices(ctx, e.project); err != nil {
		return false, fmt.Errorf("notices: %w", err)
	}
	if _, err := e.Q.EraseSubscriptions(ctx, e.project); err != nil {
		return false, fmt.Errorf("subscriptions: %w", err)
	}
	stops, err := e.Q.RemoveStops(ctx, e.project)
	if err == nil && stops > 0 {
		err = e.Q.SetOpenStops(ctx, e.Now)
	}
	if err != nil {
		return false, fmt.Errorf("stops: %w", err)
	}
	e.done.Logins, e.done.APIKeys = int(logins), int(keys)
	if _, err := e.Q.RemovePlans(ctx, e.project); err != nil {
		return false, fmt.Errorf("plans: %w", err)
	}
	return false, e.Q.SetProjectErased(ctx, shareddb.SetProjectErasedParams{Now: e.Now, ErasedBy: e.actor, ID: e.project})
}

// blankConnections removes all data of deleted connections.
func (e *projectErasure) blankConnections(ctx context.Context) (more bool, err error) {
	ids, err := e.Q.ConnectionsOf(ctx, shareddb.ConnectionsOfParams{Project: e.project, MaxRows: e.most})
	if err != nil || len(ids) == 0 {
		return false, err
	}
	steps := []func() error{
		func() error {
			return e.Q.RemoveLabelsOf(ctx, shareddb.RemoveLabelsOfParams{Project: e.project, Ids: ids})
		},
		func() error { return e.Q.RemoveCoolDowns(ctx, ids) },
		func() error { return inBatch(e.Q.BlankConnection(ctx, ids).Exec) },
		func() error { return e.Q.RemoveCredentialsOf(ctx, ids) },
		func() error { return e.Q.RemoveRenewalsOf(ctx, ids) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return false, err
		}
	}
	e.done.Connections = len(ids)
	return len(ids) == int(e.most), nil
}
