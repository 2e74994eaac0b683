package sim

import (
	"time"

	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// Rules of this file: the store's clock is set, and the true time shows what must not
// happen. The oracle knows only what is written: a clock that is wrong is believed once it
// has been wrong for the bound, or if it is later than before when a machine comes up.

// simSlack is what the believed time may be off without a doubt, and more.
const simSlack = 2 * time.Second

// simSlewed is the part of the time passed that a clock may be slewed by: as much is
// believed without a doubt.
const simSlewed = 1000

// wrongness is how far the store's clock is ahead, and since when.
type wrongness struct {
	off   time.Duration
	since time.Time
	// atOnce is set if it could not be distinguished from a right clock.
	atOnce bool
}

// moment is a time by the store's clock and by the true one. A step of the store's clock
// moves what is stored, but not what a rule has noted of it before: a span is too short if
// it is by both.
type moment struct{ stored, true time.Time }

// written is now, when a time of the store's was written.
func written(stored time.Time) moment { return moment{stored, time.Now()} }

func (m moment) add(d time.Duration) moment { return moment{m.stored.Add(d), m.true.Add(d)} }

// after reports whether m is after n by both clocks.
func (m moment) after(n moment) bool { return m.stored.After(n.stored) && m.true.After(n.true) }

// laterOf returns the later of each.
func laterOf(m, n moment) moment { return moment{later(m.stored, n.stored), later(m.true, n.true)} }

// openStore makes the store, on a clock that can be set.
func (w *simWorld) openStore() {
	w.booted = time.Now().Add(-24 * time.Hour)
	w.wrong = []wrongness{{since: time.Now()}}
	w.store = memory.Open(memory.Options{
		NewID: w.newID,
		Clock: store.ClockOptions{Read: func() store.ClockReading {
			if w.down {
				w.t.Error("the store is asked while nobody runs")
			}
			r := store.ClockReading{Wall: w.dbNow().UnixMicro(), Boot: time.Since(w.booted)}
			if w.dbShift.Load() == 0 && w.synchronized {
				r.Proof = "it is synchronized"
			}
			return r
		}},
	})
}

// setClock sets the store's clock.
func (w *simWorld) setClock(by time.Duration) {
	off := time.Duration(w.dbShift.Add(int64(by)))
	is := wrongness{off: off, since: time.Now()}
	if time.Now().Before(w.comingUp) {
		is = w.believedAtOnce(is)
	}
	w.wrong = append(w.wrong, is)
}

// believedAtOnce is a clock that cannot be distinguished from a right one: a machine has come up,
// and may be set right as long as it does not know the time.
func (w *simWorld) believedAtOnce(is wrongness) wrongness {
	w.comingUp = time.Now().Add(store.DefaultSuspectFor + simSlack)
	is.atOnce = true
	return is
}

// restartStore ends every process; the next one finds a clock that may have been set, and
// often a machine that has come up again.
func (w *simWorld) restartStore() {
	for _, n := range w.nodes {
		if n != nil {
			w.crash(n)
		}
	}
	if w.upTo(3) > 0 {
		w.setClock(w.oneOf(-w.pause(), w.pause()))
	}
	if w.upTo(3) > 0 {
		w.booted = time.Now().Add(-time.Second)
		last := &w.wrong[len(w.wrong)-1]
		*last = w.believedAtOnce(*last)
	}
	w.store.Restart(store.ClockOptions{})
}

// ahead is how far the believed time may be ahead of the true one.
func (w *simWorld) ahead() time.Duration {
	most := time.Duration(0)
	for i, is := range w.wrong {
		until := time.Now()
		if i+1 < len(w.wrong) {
			until = w.wrong[i+1].since
		}
		if is.atOnce || until.Sub(is.since) >= store.DefaultSuspectFor-simSlack {
			most = max(most, is.off)
		}
	}
	return most + simSlack + time.Since(w.started)/simSlewed
}

// leapt is how much shorter than it is a time may seem that was measured by the store: by
// what a machine that came up, or did not know the time yet, was set ahead. Any other step
// moves along what was measured before.
func (w *simWorld) leapt() time.Duration {
	most := time.Duration(0)
	for i, is := range w.wrong {
		for _, before := range w.wrong[:i] { // any of them may have been believed
			if is.atOnce {
				most = max(most, is.off-before.off)
			}
		}
	}
	return most + simSlack + time.Since(w.started)/simSlewed
}

// isNotEarly: no clock that is wrong for a moment starts what is due later.
func (w *simWorld) isNotEarly(j *simJob, r memory.Record) {
	early := time.Until(r.Snapshot.ScheduleTime)
	if early > w.ahead() && !hurried(r.Events) {
		w.broke("EARLY", j, "attempt %d armed %v before its time, when the clock could be believed to be %v ahead",
			len(r.Attempts), early, w.ahead())
	}
}

// probe reads the store's clock each minute, as a request for a server's health does:
// a change counts from when it was seen, and a simulated node that has nothing to do may not
// look for ten minutes.
func (w *simWorld) probe() {
	_, _ = w.store.Meta(w.t.Context()) // standsTooLong asks again
	w.director.plan(time.Minute, "probe", w.probe)
}

// standsTooLong: once faults are over, the clock is believed within the bound.
func (w *simWorld) standsTooLong() {
	if time.Since(w.healed) < store.DefaultSuspectFor+time.Minute {
		return
	}
	if m, err := w.store.Meta(w.t.Context()); err == nil && m.Clock.Why != "" {
		w.broke("STANDS", w.jobs[0], "the clock is doubted %v after it was set last: %s", time.Since(w.healed), m.Clock.Why)
	}
}
