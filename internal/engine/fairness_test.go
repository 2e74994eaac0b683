package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// connect makes a connection for the world's next jobs.
func (w *world) connect(name string) {
	w.t.Helper()
	w.connectIn("default", name)
}

func (w *world) connectIn(project, name string) {
	w.t.Helper()
	var err error
	w.conn, _, err = w.store.CreateConnection(w.t.Context(), store.NewConnection{
		Key: name,
		Connection: store.Connection{
			ID: newID(), Project: project, Connector: "scripted", Class: w.platform.class, KeyWindow: 24 * time.Hour,
			MaxInFlight: w.room,
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// hole loses every request, and makes every look at a text of "hole" hang.
func (w *world) hole() {
	w.platform.publish = func(_ int, c connector.Commit) job.Outcome {
		w.platform.commit(c.EffectKey)
		return unknown("connection reset")
	}
	w.platform.observe = func(l connector.Look) job.Observation {
		if textOf(string(l.First.Frozen))[:4] == "hole" {
			time.Sleep(time.Minute)
			return job.Observation{Verdict: job.SawInconclusive}
		}
		return job.Observation{Verdict: job.SawPresent, ExternalID: "post of " + l.First.EffectKey}
	}
}

// One target does not answer any look at its hundreds of unknown jobs. Another
// connection's outcome is found as if it were alone.
func TestABlackHoleDelaysNobodyElsesLooks(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.hole()
		w.config.Senders = 512
		for i := range 150 {
			w.submit(fmt.Sprint("hole ", i), says(fmt.Sprint("hole ", i)))
		}
		w.start()
		w.pass(5 * time.Minute) // they are all due by now
		w.connect("healthy")
		for i := range 20 {
			id := w.submit(fmt.Sprint("healthy ", i), says(fmt.Sprint("healthy ", i)))
			s := w.until(id, job.Succeeded, 2*time.Minute)
			if took := s.Ended.Sub(s.ScheduleTime); took > 80*time.Second { // fence and read lag are 70 s
				t.Errorf("found after %v\n%s", took, w.story(id))
			}
		}
	})
}

// A project's many connections do not answer any look: each may have some lookers, and together
// they leave some to others.
func TestAProjectOfBlackHolesDelaysNobodyElsesLooks(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.hole()
		own := w.conn
		for c := range 20 {
			w.connectIn("attackers", fmt.Sprint("hole ", c))
			for i := range 4 {
				w.submit(fmt.Sprint("hole ", c, " ", i), says(fmt.Sprint("hole ", c, " ", i)))
			}
		}
		w.start()
		w.pass(5 * time.Minute) // they are all due by now
		w.conn = own
		for i := range 4 {
			id := w.submit(fmt.Sprint("healthy ", i), says(fmt.Sprint("healthy ", i)))
			s := w.until(id, job.Succeeded, 2*time.Minute)
			if took := s.Ended.Sub(s.ScheduleTime); took > 80*time.Second { // fence and read lag are 70 s
				t.Errorf("found after %v\n%s", took, w.story(id))
			}
		}
	})
}

// A connection that is alone gets through its looks, though it may have only
// half of the lookers: a look that is handed back is made later.
func TestManyUnknownJobsOfOneConnectionAreAllLookedAt(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.hole()
		w.config.Senders, w.config.Lookers = 512, 4
		var ids []job.ID
		for i := range 200 {
			ids = append(ids, w.submit(fmt.Sprint("healthy ", i), says(fmt.Sprint("healthy ", i))))
		}
		w.start()
		w.pass(80 * time.Second) // fence and read lag are 70 s
		for _, id := range ids {
			// A look is handed back for a second for each one before it until the first has ended,
			// which is up to the scheduler: 200 looks at two lookers may take 100 s.
			w.until(id, job.Succeeded, 2*time.Minute)
			if n := len(w.events(id)); n > 5 {
				t.Errorf("%d events: handing back wrote some\n%s", n, w.story(id))
			}
		}
	})
}

func TestALookerAloneServesEverybody(t *testing.T) {
	observable(t, func(t *testing.T, w *world) {
		w.hole()
		w.config.Lookers = 1
		a := w.submit("a", says("a text"))
		w.connect("other")
		b := w.submit("b", says("b text"))
		w.start()
		w.until(a, job.Succeeded, 5*time.Minute)
		w.until(b, job.Succeeded, 5*time.Minute)
	})
}
