package sim

import (
	"slices"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: every server is down for a while, and the store's clock is not read.
// Then all start, with the right time or with an earlier one. What must follow from that is
// reckoned from docs/guarantees.md: a time that is behind the newest one that was believed is
// not believed, and meanwhile everything stands still.

// startDoubt is what follows from a start with an earlier time.
type startDoubt struct {
	stands bool
	since  time.Time
	// windows are the ends of the start windows as they were, of jobs that nothing has
	// touched since.
	windows map[job.ID]openWindow
}

// openWindow is the end of a start window, of a job at a version.
type openWindow struct {
	version int64
	ends    time.Time
	// left is what was left of it. A window that no one asked for moves with the clock, so
	// that its end says nothing after a step.
	left time.Duration
}

// inDoubt and kept are states of jobs in which an outage is awkward.
func inDoubt(s job.Snapshot) bool { return s.State == job.Sending || s.State == job.Ambiguous }

func kept(s job.Snapshot) bool { return s.State.Runnable() && s.Blocked != "" }

// goDown ends every server for a while. What was being written is decided as the database
// ends.
func (w *simWorld) goDown() {
	if !w.plagued.Load() || w.down {
		return
	}
	if w.amid != nil && !slices.ContainsFunc(w.jobs, func(j *simJob) bool { return w.amid(j.last) }) {
		w.director.plan(2*time.Second, "outage", w.goDown)
		return
	}
	w.stats.faults[faultOutage]++
	w.note("", "every server is down", job.ID{}, 0, "")
	for slot, n := range w.nodes {
		if n != nil {
			n.die()
			w.nodes[slot] = nil
		}
	}
	synctest.Wait() // no goroutine of theirs reads the store any more
	for _, u := range w.director.limbo {
		w.director.settle(u)
	}
	w.director.limbo = nil
	w.check()
	newest := w.believed()
	w.endOfDoubt()
	w.doubt.stands = false // the next server to start begins again
	w.down = true
	began, lasts := time.Now(), w.outage/4+time.Duration(w.upTo(int(w.outage)))
	earlier := w.earlier && w.upTo(3) > 0
	w.director.plan(lasts, "power again", func() {
		if !w.down {
			return
		}
		w.powerOn(began, newest, earlier)
	})
}

// comeUp ends an outage before its time.
func (w *simWorld) comeUp() {
	if w.down {
		w.powerOn(time.Now(), time.Time{}, false)
	}
}

// powerOn starts every server.
func (w *simWorld) powerOn(began, newest time.Time, earlier bool) {
	w.dark += time.Since(began)
	w.booted = time.Now().Add(-time.Second)
	if earlier {
		w.stats.faults[faultEarlierStart]++
		behind := time.Now().Add(time.Duration(w.dbShift.Load())).Sub(newest) + w.pause()
		w.note("", "the machine comes up with an earlier time", job.ID{}, 0, behind.String())
		w.setClock(-behind)
	}
	w.down = false
	last := &w.wrong[len(w.wrong)-1]
	*last = w.believedAtOnce(*last)
	w.store.Restart(store.ClockOptions{})
	if earlier && (w.dbShift.Load() != 0 || !w.synchronized) {
		w.standsStill()
	}
	for slot := range w.nodes {
		w.revive(slot)
	}
}

// standsStill: EARLIER, if the earlier time is believed all the same.
func (w *simWorld) standsStill() {
	w.stats.stood++
	m, err := w.store.Meta(w.t.Context())
	if err != nil {
		w.t.Error(err)
		return
	}
	if !m.Clock.Suspends {
		w.broke("EARLIER", w.jobs[0], "the machine came up with an earlier time, and it is believed")
		return
	}
	w.doubt = startDoubt{stands: true, since: time.Now(), windows: make(map[job.ID]openWindow)}
	for _, j := range w.jobs {
		s := w.store.Inspect(j.id).Snapshot
		if w.waits(s) {
			continue // it gets another window at the end of its predecessor
		}
		if s.State.Runnable() && !s.ScheduleTime.After(s.Now) && s.StartDeadline.After(s.Now) {
			w.doubt.windows[j.id] = openWindow{s.Version, s.StartDeadline, s.StartDeadline.Sub(s.Now)}
		}
	}
	if w.clockJumps {
		w.director.plan(time.Minute, "ask for the time", w.askForTheTime)
	}
}

// waits reports whether a job is a reply to one that has not ended.
func (w *simWorld) waits(s job.Snapshot) bool {
	before := w.byID[s.ReplyTo]
	return before != nil && !w.store.Inspect(before.id).Snapshot.State.Terminal()
}

// askForTheTime reads the store's clock while it is doubted, as probe does later.
func (w *simWorld) askForTheTime() {
	if !w.doubt.stands || w.down {
		return
	}
	if w.endOfDoubt(); w.doubt.stands {
		w.director.plan(time.Minute, "ask for the time", w.askForTheTime)
	}
}

// endOfDoubt: WINDOW, once the time is believed: what was open meanwhile is that much longer.
func (w *simWorld) endOfDoubt() {
	if !w.doubt.stands {
		return
	}
	m, err := w.store.Meta(w.t.Context())
	if err != nil || m.Clock.Suspends {
		return
	}
	w.doubt.stands = false
	stood := time.Since(w.doubt.since)
	for _, j := range w.jobs {
		was, noted := w.doubt.windows[j.id]
		s := w.store.Inspect(j.id).Snapshot
		if !noted || s.Version != was.version || s.ScheduleTime.After(s.Now.Add(-time.Minute-simSlack)) {
			continue // it was touched, or by the time that is believed now it was not due yet
		}
		longer := s.StartDeadline.Sub(was.ends)
		if s.Unasked || s.KeepTrying > 0 { // no client asked for the moment from which it counts
			longer = s.StartDeadline.Sub(s.Now) - was.left + stood
		}
		if (longer - stood).Abs() > time.Minute+simSlack {
			w.broke("WINDOW", j, "everything stood still for %v, and its start window is %v longer", stood, longer)
		}
	}
}

// nothingInADoubt: DOUBT, when something starts, or ends because its time is over, while
// everything stands still.
func (w *simWorld) nothingInADoubt(j *simJob, e job.Event) {
	if !w.doubt.stands {
		return
	}
	if w.endOfDoubt(); !w.doubt.stands {
		return
	}
	if e.Cause == job.CauseClaimed || e.Cause == job.CauseArmed || e.To == job.Expired && e.From != e.To {
		w.broke("DOUBT", j, "%s -> %s by %s while nobody knows what the time is", e.From, e.To, e.Cause)
	}
}
