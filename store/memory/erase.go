package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// EraseJob implements store.Store.
func (s *Store) EraseJob(ctx context.Context, p store.EraseParams) (store.ErasedJob, error) {
	return call(ctx, s, "erase job", func(t *tx) (store.ErasedJob, error) {
		if err := t.refuseClosed(); err != nil {
			return store.ErasedJob{}, err
		}
		r, ok := t.jobs[p.Job]
		switch {
		case !ok || r.job.Project != p.Project:
			return store.ErasedJob{}, store.ErrNotFound
		case r.job.Version != p.Version:
			return store.ErasedJob{}, store.ErrStale
		case !r.job.State.Terminal():
			return store.ErasedJob{}, fmt.Errorf("%w: the job has not ended", store.ErrIllegal)
		}
		if err := store.KeptFor(r.job.Ended, t.now); err != nil {
			return store.ErasedJob{}, err
		}
		if reply := t.replyTo(p.Job); !reply.IsZero() {
			return store.ErasedJob{}, &store.KeptError{Reply: reply}
		}
		return t.erase(r, p.Keep, p.Actor), nil
	})
}

// replyTo returns a stored job that replies to another one.
func (t *tx) replyTo(id job.ID) job.ID {
	for _, r := range t.all {
		if r.job.ReplyTo == id {
			return r.job.ID
		}
	}
	return job.ID{}
}

// erase removes a job, and leaves its record.
func (t *tx) erase(r *record, keep store.Keep, actor string) store.ErasedJob {
	e := store.EraseOf(r.view(t.now), t.now, actor)
	t.erased[e.ID] = e
	for i := range t.log {
		if t.log[i].Job == e.ID {
			t.log[i].Reason, t.log[i].Detail = "", ""
		}
	}
	t.remove(r, keep, t.now, &store.Retained{})
	return e
}

// ErasedJob implements store.Store.
func (s *Store) ErasedJob(ctx context.Context, project string, id job.ID) (store.ErasedJob, error) {
	return call(ctx, s, "erased job", func(t *tx) (store.ErasedJob, error) {
		e, ok := t.erased[id]
		if !ok || e.Project != project {
			return store.ErasedJob{}, store.ErrNotFound
		}
		return e, nil
	})
}

// EraseProject implements store.Store. A step is a whole phase, because no other caller waits
// for it.
func (s *Store) EraseProject(ctx context.Context, p store.EraseProjectParams) (store.ProjectErasure, error) {
	return call(ctx, s, "erase project", func(t *tx) (store.ProjectErasure, error) {
		var out store.ProjectErasure
		place, err := store.ParseErasePlace(p.Project, p.After)
		if err == nil {
			err = t.refuseClosed()
		}
		switch {
		case err != nil:
			return out, err
		case t.projects[p.Project] == nil:
			return out, store.ErrNotFound
		case t.holdings(p.Project).APIKeys > 0:
			return out, store.ErrProjectLive
		}
		switch place.Phase {
		case store.EraseSchedules:
			if err := t.deleteSchedules(p.Project, p.Actor); err != nil {
				return out, err
			}
		case store.EraseSubscriptions:
			if err := t.deleteSubscriptions(p.Project, p.Actor); err != nil {
				return out, err
			}
		case store.EraseNotices:
			var uncounted store.ProjectErasure
			t.eraseJobs(job.NoticeProject(p.Project), p, &uncounted)
		case store.EraseJobs:
			t.eraseJobs(p.Project, p, &out)
		case store.EraseRest:
			t.rest(p.Project, &out)
		case store.EraseNoticeLog:
			t.blankLog(job.NoticeProject(p.Project))
		case store.EraseLog:
			out.Events = t.blankLog(p.Project)
		case store.EraseHoldings:
			if t.rest(p.Project, &out); !out.Done {
				t.eraseHoldings(p, &out)
			}
		case store.EraseDone: // no place has it
		}
		if place.Phase++; place.Phase == store.EraseDone {
			out.Done = out.Done || len(out.Live) == 0
			place.Phase--
		}
		if !out.Done {
			out.Next = store.ErasePlace{Project: p.Project, Phase: place.Phase}.String()
		}
		return out, nil
	})
}

// deleteSubscriptions deletes the subscriptions of a project, so that they make no notices.
func (t *tx) deleteSubscriptions(project, actor string) error {
	for _, c := range t.subscriptions {
		if c.Project != project || c.State == store.SubscriptionDeleted {
			continue
		}
		next := c.Clone()
		next.State, next.PauseCause, next.Note, next.UpdatedBy = store.SubscriptionDeleted, 0, "", actor
		if _, err := t.stepSubscription(store.SubscriptionStep{Subscription: next}); err != nil {
			return err
		}
	}
	return nil
}

// eraseJobs erases those jobs of a project that may be erased.
func (t *tx) eraseJobs(project string, p store.EraseProjectParams, out *store.ProjectErasure) {
	var ids []job.ID
	var replies []store.Reply
	for _, r := range t.all {
		if r.job.Project == project && r.job.State.Terminal() && store.KeptFor(r.job.Ended, t.now) == nil {
			ids = append(ids, r.job.ID)
		}
		if !r.job.ReplyTo.IsZero() {
			replies = append(replies, store.Reply{Job: r.job.ID, To: r.job.ReplyTo})
		}
	}
	for _, id := range store.Unanswered(ids, replies) {
		t.erase(t.jobs[id], p.Keep, p.Actor)
		out.Jobs++
	}
}

// rest ends the pass if jobs are left.
func (t *tx) rest(project string, out *store.ProjectErasure) {
	rest := &out.Rest
	for _, r := range t.all {
		if r.job.Owner() != project {
			continue
		}
		out.Done = true
		if !r.job.State.Terminal() {
			rest.Open = min(rest.Open+1, store.MaxRest)
			continue
		}
		rest.Kept = min(rest.Kept+1, store.MaxRest)
		if left := r.job.Ended.Add(store.LeastKept).Sub(t.now); left > 0 && (rest.Wait == 0 || left < rest.Wait) {
			rest.Wait = left
		}
	}
}

// blankLog removes the texts and the actors from the events of a project.
func (t *tx) blankLog(project string) (blanked int) {
	for i := range t.log {
		if e := &t.log[i]; e.Project == project && e.Reason+e.Detail+e.Actor != "" {
			e.Reason, e.Detail, e.Actor = "", "", ""
			blanked++
		}
	}
	return blanked
}

// eraseHoldings removes what the project has apart from jobs.
func (t *tx) eraseHoldings(p store.EraseProjectParams, out *store.ProjectErasure) {
	t.removeSchedules(p.Project, out)
	maps.DeleteFunc(t.subscriptions, func(_ job.ID, c *subscription) bool { return c.Project == p.Project })
	of := func(c *connection) bool { return c.Project == p.Project }
	for _, c := range t.connOrder {
		if of(c) && c.Deleted.IsZero() && len(out.Live) < rules.Page(p.Limit) {
			out.Live = append(out.Live, c.ID)
		}
	}
	if len(out.Live) > 0 {
		return
	}
	for id, c := range t.conns {
		if of(c) {
			delete(t.conns, id)
			delete(t.cooling, id)
			delete(t.renewals, id)
			out.Connections++
		}
	}
	t.connOrder = slices.DeleteFunc(t.connOrder, of)
	maps.DeleteFunc(t.connKeys, func(_ key, c *connection) bool { return of(c) })
	t.stops = slices.DeleteFunc(t.stops, func(s store.Stop) bool { return s.Project == p.Project })
	for state, l := range t.logins {
		if l.Project == p.Project {
			delete(t.logins, state)
			out.Logins++
		}
	}
	for id, k := range t.apiKeys {
		if k.Project == p.Project {
			delete(t.apiKeys, id)
			out.APIKeys++
		}
	}
	maps.DeleteFunc(t.plans, func(_ job.ID, of *plan) bool { return of.Project == p.Project })
	erased := t.projects[p.Project]
	erased.Erased, erased.ErasedBy = t.now, p.Actor
}
