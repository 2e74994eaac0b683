package sim

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// theme is a world in which a few faults strike hard and everything else is quiet:
// they meet there, which they hardly ever do among all the other faults.
type theme struct {
	name string
	// class of all targets; zero: any.
	class  job.Class
	policy job.Delivery // of all jobs; zero: any
	rates  map[fault]int
	// strokes at nodes; none: they are left alone.
	strokes []fault
	// tends are the deeds at connections; none: any, if w.care is set.
	tends []fault
	nodes int // zero: any number
	set   func(w *simWorld)
}

var themes = []theme{
	{
		name: "outcomes of attempts that were given up", class: job.Keyed,
		rates: map[fault]int{faultLateOutcome: 500, faultRejected: 250, faultSlowAnswer: 400, faultLostAnswer: 600, faultDeadLine: 250},
	},
	{
		name: "outcomes after a word", class: job.Opaque,
		rates: map[fault]int{faultLateOutcome: 500, faultRejected: 300, faultLostAnswer: 200, faultPanicAfter: 50},
		set:   func(w *simWorld) { w.hurry = 20 * time.Second },
	},
	{
		name: "outcomes after an assumption", class: job.Opaque, policy: job.AtMostOnce,
		rates: map[fault]int{faultLateOutcome: 500, faultRejected: 500, faultDeadLine: 200},
	},
	{
		name: "hasty persons", class: job.Opaque, policy: job.OnceOrAsk,
		rates: map[fault]int{faultLateRequest: 500, faultLostAnswer: 300},
		set:   func(w *simWorld) { w.hurry, w.truthful = 5*time.Second, false },
	},
	{
		name: "twins", class: job.Observable, nodes: 2,
		rates: map[fault]int{
			faultLostRequest: 400, faultLostAnswer: 500, faultLateRequest: 100, faultReadLag: 500, faultSlowAnswer: 200,
			faultLateOutcome: 100, faultRejected: 100,
		},
		set: func(w *simWorld) { w.alike, w.close, w.few = true, true, true },
	},
	{
		name: "twins and crashes", class: job.Observable, nodes: 2, strokes: []fault{faultCrash, faultStop, faultFreeze},
		rates: map[fault]int{faultLostRequest: 300, faultLostAnswer: 300, faultReadLag: 500, faultUnavailable: 50},
		set:   func(w *simWorld) { w.alike, w.close, w.calm = true, true, 2*time.Minute },
	},
	{
		name: "twins that are given up", class: job.Observable, nodes: 2,
		rates: map[fault]int{
			faultLostRequest: 300, faultLostAnswer: 500, faultReadLag: 500, faultBlindLook: 300, faultOwners: 300, faultLateOutcome: 300,
			faultDeadLine: 200,
		},
		set: func(w *simWorld) { w.alike, w.close, w.few, w.hurry = true, true, true, 15*time.Second },
	},
	{
		name: "looks that fail", class: job.Observable,
		rates: map[fault]int{
			faultLostAnswer: 500, faultLateRequest: 300, faultBlindLook: 300, faultStaleLook: 500, faultOwners: 500, faultReadLag: 500,
		},
		// What they see besides is another job's.
		set: func(w *simWorld) { w.alike, w.close = true, true },
	},
	{
		name: "keys that are forgotten", class: job.Keyed, strokes: []fault{faultCrash, faultStop},
		rates: map[fault]int{faultLateRequest: 400, faultLostAnswer: 600, faultUnreachable: 100, faultPaused: 30},
		set:   func(w *simWorld) { w.brief = true },
	},
	{
		name: "senders that are gone, or seem to be", class: job.Keyed, strokes: []fault{faultCrash, faultCrash, faultHidden, faultStop}, nodes: 2,
		rates: map[fault]int{faultLateRequest: 300, faultLostAnswer: 200, faultSlowAnswer: 600, faultLateOutcome: 200, faultRejected: 100, faultNearSend: 200},
		// Windows that end, and keys that are forgotten, before the fence.
		set: func(w *simWorld) {
			w.calm, w.close, w.poll = 10*time.Second, true, time.Second
			w.narrow, w.brief = w.upTo(2) == 0, w.upTo(2) == 0
		},
	},
	{
		name: "the database's clock", class: job.Observable, strokes: []fault{faultAheadJump, faultBackJump}, nodes: 1,
		rates: map[fault]int{faultLostAnswer: 300, faultSlowAnswer: 500, faultLostRequest: 300, faultLateOutcome: 200},
		set:   func(w *simWorld) { w.clockJumps, w.calm = true, 30*time.Second },
	},
	{
		name: "a machine that comes up with another time", class: job.Keyed, strokes: []fault{faultStoreRestart, faultAheadJump, faultBackJump}, nodes: 1,
		rates: map[fault]int{faultLostAnswer: 600, faultUnreachable: 100, faultPaused: 30},
		set:   func(w *simWorld) { w.clockJumps, w.brief, w.calm = true, true, time.Minute },
	},
	{
		name: "clocks of nodes", strokes: []fault{faultWall, faultSleep, faultFreeze},
		rates: map[fault]int{faultNearSend: 400, faultPaused: 50, faultLostAnswer: 200, faultLateRequest: 200},
		set:   func(w *simWorld) { w.calm = 20 * time.Second },
	},
	{
		name: "windows that end", strokes: []fault{faultCrash, faultStop},
		rates: map[fault]int{faultSlowStore: 300, faultNearSend: 300, faultUnreachable: 300, faultLostAnswer: 100, faultPaused: 20},
		set:   func(w *simWorld) { w.narrow = true },
	},
	{
		name: "late arms", strokes: []fault{faultCrash, faultFreeze},
		rates: map[fault]int{faultLeftOpen: 200, faultLostAfter: 200, faultLostBefore: 100, faultPaused: 100, faultNearSend: 300},
	},
	{
		name: "answers that only the worker has", class: job.Opaque,
		rates: map[fault]int{faultLateOutcome: 400, faultUnavailable: 200, faultLostAfter: 200, faultLostBefore: 100},
	},
	{
		name: "credentials that are replaced", tends: []fault{faultRevoked, faultRotate}, strokes: []fault{faultCrash, faultFreeze},
		rates: map[fault]int{
			faultAuth: 60, faultAuthLate: 200, faultRejected: 200, faultLateOutcome: 300, faultSlowAnswer: 200, faultPaused: 50, faultLostAnswer: 100,
			faultLeftOpen: 50,
		},
		set: func(w *simWorld) { w.care, w.cared, w.hurry = 40*time.Second, true, 20*time.Second },
	},
	{
		name: "pauses", tends: []fault{faultPause, faultResume, faultHalt, faultHaltEnd},
		rates: map[fault]int{faultSlowStore: 150, faultPaused: 50, faultLostAnswer: 300, faultLeftOpen: 100, faultRejected: 200, faultUnreachable: 100},
		set:   func(w *simWorld) { w.care, w.wide, w.hurry = 2*time.Minute, true, 10*time.Minute },
	},
	{
		name: "limits", tends: []fault{faultLimits}, strokes: []fault{faultCrash, faultStop},
		rates: map[fault]int{faultSlowAnswer: 500, faultLateOutcome: 200, faultLostAnswer: 200, faultRejected: 200, faultLateAnswer: 100},
		set:   func(w *simWorld) { w.care, w.close, w.hurry = 2*time.Minute, true, 10*time.Minute },
	},
	{
		name: "logins that are renewed", tends: []fault{faultRotate, faultPause}, strokes: []fault{faultCrash, faultStop},
		rates: map[fault]int{faultNotRenewed: 300, faultLoginDead: 100, faultAuth: 60, faultAuthLate: 250, faultLateOutcome: 200, faultLostAnswer: 100, faultPaused: 20},
		set:   func(w *simWorld) { w.care, w.renewals = 2*time.Minute, true },
	},
	{
		name: "targets that have to be asked", strokes: []fault{faultCrash, faultStop},
		rates: map[fault]int{faultUnreachable: 200, faultLostAnswer: 300, faultLateRequest: 200, faultLostRequest: 200, faultPanicBefore: 50},
		set:   func(w *simWorld) { w.unsure = true },
	},
	{
		name: "contents that change", strokes: []fault{faultCrash},
		rates: map[fault]int{faultLeftOpen: 300, faultLostAfter: 200, faultSlowStore: 200, faultRejected: 200, faultLostAnswer: 200},
		set:   func(w *simWorld) { w.hurry = 5 * time.Second },
	},
}

// pick lets two of three seeds have a theme.
func (w *simWorld) pick() {
	list, n := themes, w.seed-1-w.seed/3
	switch {
	case w.kind.recurring:
		list, n = recurringThemes, w.seed-1
	case w.kind.breakers:
		list, n = breakerThemes, w.seed-1
		w.wide, w.breakAfter = true, 2+w.upTo(4)
	case w.seed%3 == 0:
		return
	}
	t := &list[n%uint64(len(list))]
	w.theme = t
	w.clockJumps, w.care = false, 0
	w.rates = [faults]int{}
	for f, n := range t.rates {
		w.rates[f] = n
	}
	if len(t.strokes) == 0 {
		w.calm = 24 * time.Hour
	}
	if t.nodes > 0 {
		w.nodes = make([]*node, t.nodes)
	}
	if t.set != nil {
		t.set(w)
	}
}

// recurringThemes are those of recurring worlds: each of them has one.
var recurringThemes = []theme{
	{
		name: "schedules beside everything", strokes: []fault{faultCrash, faultCrash, faultStop, faultFreeze, faultSleep, faultHidden}, nodes: 2,
		rates: map[fault]int{
			faultUnavailable: 60, faultLostAfter: 60, faultLostBefore: 40, faultLeftOpen: 60, faultSlowStore: 40, faultLateAnswer: 40, faultPaused: 10,
			faultKilledDeciding: 60, faultKilledFired: 60, faultLateRequest: 100, faultLostRequest: 100, faultLostAnswer: 200, faultRejected: 60,
			faultSlowAnswer: 100, faultReadLag: 300, faultUnreachable: 50,
		},
		set: func(w *simWorld) { w.calm, w.schedulesMost, w.manage = 2*time.Minute, 2, 10*time.Minute },
	},
	{
		name: "servers that are killed as they fire", class: job.Keyed, strokes: []fault{faultCrash}, nodes: 2,
		rates: map[fault]int{faultKilledDeciding: 300, faultKilledFired: 300, faultLeftOpen: 150, faultLostAfter: 100, faultLostBefore: 100, faultLostAnswer: 200},
		set:   func(w *simWorld) { w.calm, w.schedulesMost, w.only = 5*time.Minute, 2, []string{"5m", "*/10", "15m"} },
	},
	{
		name: "pauses and changes of schedules", nodes: 2,
		rates: map[fault]int{faultLeftOpen: 100, faultSlowStore: 200, faultLostAfter: 100, faultLostAnswer: 100, faultUnavailable: 50},
		set: func(w *simWorld) {
			w.schedulesMost, w.manage, w.only = 2, 90*time.Second, []string{"5m", "*/10", "2,9"}
		},
	},
	{
		name: "an outage across a change of the clocks", strokes: []fault{faultCrash}, nodes: 2,
		rates: map[fault]int{faultLostAnswer: 100, faultLateRequest: 100, faultKilledFired: 50, faultLeftOpen: 50},
		set: func(w *simWorld) {
			w.schedulesMost, w.outage = 2, w.oneOf(10*time.Minute, 8*time.Hour, 30*time.Hour)
			w.only = []string{"*/20", "0,30", "2,9", "hourly"}
		},
	},
	{
		name: "an outage of more firings than a decision takes", strokes: []fault{faultCrash}, nodes: 2,
		rates: map[fault]int{faultLostAnswer: 50, faultKilledFired: 100, faultKilledDeciding: 100, faultLeftOpen: 50},
		set: func(w *simWorld) {
			w.schedulesMost, w.outage, w.only = 1, w.oneOf(2*time.Hour, 3*time.Hour), []string{"1m"}
		},
	},
	{
		name: "servers with other zone data", strokes: []fault{faultCrash, faultStop}, nodes: 2,
		rates: map[fault]int{faultKilledDeciding: 100, faultKilledFired: 50, faultLostAnswer: 100, faultLeftOpen: 50},
		set: func(w *simWorld) {
			w.schedulesMost, w.disagree, w.calm = 2, true, 10*time.Minute
			w.outage, w.only = w.oneOf(0, 10*time.Hour), []string{"2,9"} // names that do not depend on the zone
		},
	},
	{
		name: "schedules and the database's clock", class: job.Observable, strokes: []fault{faultAheadJump, faultBackJump, faultStoreRestart}, nodes: 1,
		rates: map[fault]int{faultLostAnswer: 200, faultKilledDeciding: 50},
		set: func(w *simWorld) {
			w.clockJumps, w.schedulesMost, w.calm, w.only = true, 2, 3*time.Minute, []string{"5m", "*/10", "15m"}
			w.manage = 2 * time.Minute
		},
	},
	{
		name: "an outage, and an earlier time", class: job.Keyed, strokes: []fault{faultStop}, nodes: 2,
		rates: map[fault]int{faultLostAnswer: 700, faultUnreachable: 100, faultDeadLine: 100},
		set: func(w *simWorld) {
			w.clockJumps, w.brief, w.wide, w.earlier, w.close, w.amid, w.calm = true, true, true, true, true, inDoubt, 24*time.Hour
			w.schedulesMost, w.outage, w.only = 1, w.oneOf(10*time.Minute, time.Hour, 5*time.Hour), []string{"*/20", "hourly"}
		},
	},
	{
		name: "an outage, an earlier time, and looks", class: job.Observable, strokes: []fault{faultCrash}, nodes: 1,
		rates: map[fault]int{faultLostAnswer: 400, faultLostRequest: 200, faultUnreachable: 200},
		set: func(w *simWorld) {
			w.clockJumps, w.earlier, w.calm = true, true, 10*time.Minute
			w.schedulesMost, w.outage, w.only = 1, w.oneOf(2*time.Minute, time.Hour, 5*time.Hour), []string{"*/10", "*/20"}
		},
	},
	{
		name: "cool-downs", strokes: []fault{faultCrash, faultFreeze}, nodes: 2,
		rates: map[fault]int{
			faultLostAnswer: 150, faultLostRequest: 100, faultRejected: 200, faultLeftOpen: 150, faultLostAfter: 100, faultSlowStore: 100,
			faultUnreachable: 50, faultNearSend: 100, faultDeadLine: 50,
		},
		set: func(w *simWorld) { w.schedulesMost, w.cools, w.close, w.calm = 2, true, true, 3*time.Minute },
	},
	{
		name: "cool-downs, outages and the database's clock", strokes: []fault{faultAheadJump, faultBackJump}, nodes: 1,
		rates: map[fault]int{faultLostAnswer: 100, faultRejected: 150},
		set: func(w *simWorld) {
			w.schedulesMost, w.cools, w.close, w.clockJumps, w.wide, w.calm = 1, true, true, true, true, 12*time.Minute
			w.outage, w.earlier, w.amid = w.oneOf(0, 5*time.Minute, time.Hour), true, kept
		},
	},
	{
		name: "contents that are there already", class: job.Observable, strokes: []fault{faultCrash, faultStop}, nodes: 1,
		rates: map[fault]int{
			faultDoubtfulPresence: 150, faultBlindLook: 100, faultLostAnswer: 200, faultLostRequest: 200, faultReadLag: 200, faultSlowAnswer: 300,
			faultUnreachable: 100, faultLeftOpen: 50, faultPanicBefore: 10,
		},
		set: func(w *simWorld) {
			w.alike, w.close, w.calm = true, true, 5*time.Minute
			w.schedulesMost, w.present = 1, w.oneOf(time.Minute, 10*time.Minute, time.Hour)
			w.doubled = w.upTo(2) == 0
		},
	},
	{
		name: "contents that are there already, and two servers", class: job.Observable, strokes: []fault{faultCrash}, nodes: 2,
		rates: map[fault]int{
			faultDoubtfulPresence: 200, faultLatePresence: 600, faultLostRequest: 200, faultLostAnswer: 100, faultRejected: 100,
			faultSlowAnswer: 200, faultLateOutcome: 100,
		},
		// Each server works on one job, so that both look for one content.
		set: func(w *simWorld) {
			w.alike, w.close, w.senders, w.calm = w.upTo(4) > 0, true, 1, 5*time.Minute
			w.schedulesMost, w.present = 1, w.oneOf(2*time.Minute, 20*time.Minute)
			w.doubled = w.upTo(2) == 0
		},
	},
}
