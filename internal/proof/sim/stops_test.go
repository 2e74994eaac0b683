package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// halt is a stop that a person has made, and what it covers by the documents.
type halt struct {
	id     job.ID
	covers func(j *simJob) bool
	// When it began, and was ended; zero: it was not.
	begin, ended time.Time
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
	s.HoldWindows = s.ID[len(s.ID)-1]%2 == 1 // no draw of its own
	made, created, err := w.store.CreateStop(context.Background(), store.NewStop{Stop: s})
	if err != nil {
		w.t.Error(err)
		return
	}
	if created {
		h.id, h.begin = made.ID, made.Begin
		w.halts = append(w.halts, h)
		if s.HoldWindows {
			w.holding = append(w.holding, h)
		}
	}
}

// endHalt ends a stop.
func (w *simWorld) endHalt(i int) {
	id := w.halts[i].id
	w.halts = slices.Delete(w.halts, i, i+1)
	stop, err := w.store.EndStop(context.Background(), "", id, "a person")
	if err != nil {
		w.t.Error(err)
	}
	for i := range w.holding {
		if w.holding[i].id == id {
			w.holding[i].ended = stop.Ended
		}
	}
}

// windowIsHeld: HELD_WINDOW. A window that ends while a stop that holds windows is in force, or that
// began before the stop's end and ends in the hour after it, begins again, and no other does.
func (w *simWorld) windowIsHeld(j *simJob, e job.Event, is job.Snapshot) {
	missed := strings.Contains(e.Detail, "fell due while its connection was paused")
	if e.Cause != job.CauseWindowOver || missed || w.clockJumps || w.stats.stood > 0 {
		return
	}
	was, length := j.last, cmp.Or(j.last.StartWindow, 2*time.Hour)
	if !was.WaitsFor.IsZero() {
		length = cmp.Or(was.WaitWindow, 72*time.Hour)
	}
	if was.KeepTrying > 0 {
		length = was.KeepTrying
	}
	end := was.StartDeadline
	held := slices.ContainsFunc(w.holding, func(h halt) bool {
		in := h.ended.IsZero() || h.ended.After(h.begin) && end.Add(-length).Before(h.ended) && !end.After(h.ended.Add(time.Hour))
		return in && end.After(h.begin) && h.covers(j)
	})
	switch again := e.To.Runnable(); {
	case held != again:
		w.broke("HELD_WINDOW", j, "its window ended at %v; a stop holds it: %v; %s -> %s", end, held, e.From, e.To)
	case again:
		w.stats.held++
		j.begunAgain = true
		if want := e.At.Add(max(length, 10*time.Minute)); !is.StartDeadline.Equal(want) || is.KeepTrying != was.KeepTrying {
			w.broke("HELD_WINDOW", j, "it begins again and ends at %v, and not %v", is.StartDeadline, want)
		}
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
