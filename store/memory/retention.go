package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// removedKey is a key that outlives its job.
type removedKey struct {
	job   job.ID
	until time.Time // zero: forever
}

// Retain implements store.Store. A step is a whole phase, because no other caller waits for
// it.
func (s *Store) Retain(ctx context.Context, p store.RetainParams) (store.Retained, error) {
	return call(ctx, s, "retain", func(t *tx) (store.Retained, error) {
		place, err := store.ParseRetainPlace(p.After)
		if err == nil {
			err = p.Check()
		}
		if err == nil {
			err = t.refuseClosed()
		}
		if err != nil {
			return store.Retained{}, err
		}
		var out store.Retained
		switch place.Phase {
		case store.PhaseEvents:
			out.Events = t.dropEvents(p)
		case store.PhaseJobs:
			t.removeJobs(p, &out)
		case store.PhaseKeys:
			out.Keys = t.forgetKeys()
		case store.PhaseObjects:
			out.Objects = t.forgetObjects()
		case store.PhaseFirings:
			out.Firings = t.pruneFirings()
		case store.PhaseDone: // no place has it
		}
		if place.Phase++; place.Phase == store.PhaseDone {
			out.Done = true
			return out, nil
		}
		out.Next = store.RetainPlace{Phase: place.Phase}.String()
		return out, nil
	})
}

// dropEvents moves the log's beginning, never past the newest event, and counts the
// events before it.
func (t *tx) dropEvents(p store.RetainParams) (dropped int) {
	last := int64(len(t.log))
	for p.Keep.Events > 0 && t.logFrom+1 < last && p.EventOver(t.now, t.log[t.logFrom].At, t.logFrom < t.rolled) {
		dropped++
		t.logFrom++
	}
	return dropped
}

// removeJobs removes the jobs that ended long enough ago and to which no job replies.
func (t *tx) removeJobs(p store.RetainParams, out *store.Retained) {
	if p.Keep.Jobs == 0 {
		return
	}
	until := t.now.Add(-p.Keep.Jobs)
	var ids []job.ID
	var replies []store.Reply
	for _, r := range t.all {
		if r.job.State.Terminal() && !r.job.Ended.After(until) {
			ids = append(ids, r.job.ID)
		}
		if !r.job.ReplyTo.IsZero() {
			replies = append(replies, store.Reply{Job: r.job.ID, To: r.job.ReplyTo})
		}
	}
	for _, id := range store.Unanswered(ids, replies) {
		t.remove(t.jobs[id], p.Keep, t.jobs[id].job.Ended, out)
	}
}

// remove removes a job. Its key is kept from a time on.
func (t *tx) remove(r *record, p store.Keep, from time.Time, out *store.Retained) {
	bound := key{r.job.Project, r.job.Key}
	delete(t.keys, bound)
	conn := t.conns[r.job.Connection]
	keep, ends := p.KeepKey(conn.Connector, conn.KeyWindow)
	switch until := from.Add(keep); {
	case !ends:
		t.removedKeys[bound] = removedKey{job: r.job.ID}
	case until.After(t.now):
		t.removedKeys[bound] = removedKey{r.job.ID, until}
	default:
		out.Keys++
	}
	looked := r.job.Class == job.Handle || r.job.Class == job.Observable
	if owns := r.effect != nil && t.owners[r.effect.object()] == r.job.ID; owns && looked {
		r.effect.ExternalURL = ""
		t.removedEffects[r.job.ID] = r.effect
	} else {
		t.unown(r)
	}
	delete(t.jobs, r.job.ID)
	t.all = slices.DeleteFunc(t.all, func(other *record) bool { return other == r })
	t.touch(r)
	out.Jobs++
}

// forgetKeys forgets the keys that have outlived their jobs for long enough.
func (t *tx) forgetKeys() (forgotten int) {
	for bound, k := range t.removedKeys {
		if !k.until.IsZero() && !k.until.After(t.now) {
			delete(t.removedKeys, bound)
			forgotten++
		}
	}
	return forgotten
}

// forgetObjects forgets the objects of removed jobs that no look can find any more.
func (t *tx) forgetObjects() (forgotten int) {
	first := t.now
	for _, r := range t.all {
		if len(r.attempts) > 0 {
			first = earlier(r.firstArmed, first)
		}
	}
	for id, e := range t.removedEffects {
		if e.At.Before(first.Add(-store.LookSlack)) {
			if t.owners[e.object()] == id {
				delete(t.owners, e.object())
			}
			delete(t.removedEffects, id)
			forgotten++
		}
	}
	return forgotten
}

// removed returns the verdict on a key whose job was removed; nil: the key is not one.
func (t *tx) removed(bound key) error {
	if k, ok := t.removedKeys[bound]; ok {
		return fmt.Errorf("key %q: %w", bound.key, &store.RemovedError{Job: k.job})
	}
	return nil
}
