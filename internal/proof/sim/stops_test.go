package sim

import (
	"context"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// halt is a stop that a person has made, and what it covers by the documents.
type halt struct {
	id     job.ID
	covers func(j *simJob) bool
}

// halt stops everything, or what a target's jobs have in common.
func (w *simWorld) halt(t *target) {
	conn := w.connection(t)
	s := store.Stop{ID: w.newID(), Cause: store.StoppedByPerson, Note: "an incident", CreatedBy: "a person"}
	h := halt{id: s.ID, covers: func(*simJob) bool { return true }}
	switch w.upTo(5) {
	case 0:
		s.Scope = store.StopEverything
	case 1:
		s.Scope, s.Project = store.StopProject, conn.Project
	case 2:
		s.Scope, s.Connector = store.StopConnector, conn.Connector
		h.covers = func(j *simJob) bool { return w.connection(j.target).Connector == conn.Connector }
	case 3:
		s.Scope, s.Project, s.Connection = store.StopConnection, conn.Project, conn.ID
		h.covers = func(j *simJob) bool { return j.connection() == conn.ID }
	default:
		of := w.jobs[w.upTo(len(w.jobs))]
		s.Scope, s.Destination = store.StopDestination, of.spec.Spec.HoldKey
		h.covers = func(j *simJob) bool { return j.spec.Spec.HoldKey == of.spec.Spec.HoldKey }
	}
	made, created, err := w.store.CreateStop(context.Background(), store.NewStop{Stop: s})
	if err != nil {
		w.t.Error(err)
		return
	}
	if created {
		h.id = made.ID
		w.halts = append(w.halts, h)
	}
}

// endHalt ends a stop.
func (w *simWorld) endHalt(i int) {
	id := w.halts[i].id
	w.halts = slices.Delete(w.halts, i, i+1)
	if _, err := w.store.EndStop(context.Background(), "", id, "a person"); err != nil {
		w.t.Error(err)
	}
}

// stopped reports whether a stop covers a job: no claim and no arm may follow.
func (w *simWorld) stopped(j *simJob) bool {
	return slices.ContainsFunc(w.halts, func(h halt) bool { return h.covers(j) })
}

// haltSoon lets a person stop something while a job is prepared.
func (w *simWorld) haltSoon(j *simJob) {
	if w.theme == nil || !slices.Contains(w.theme.tends, faultHalt) || w.upTo(6) > 0 {
		return
	}
	w.director.plan(0, "halt", func() {
		if w.plagued.Load() && !w.down && len(w.halts) < 3 {
			w.note("client", faultNames[faultHalt], j.id, 0, j.target.name)
			w.stats.faults[faultHalt]++
			w.halt(j.target)
		}
	})
}
