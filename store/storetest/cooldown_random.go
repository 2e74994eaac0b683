package storetest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// coolHistory is a random history of jobs under two cool-downs, that of a connection and
// that of a schedule, beside a list of the arms that count.
type coolHistory struct {
	*fixture
	r        *rand.Rand
	conn     store.Connection // has a cool-down
	schedule job.ID           // has a cool-down
	ids      []job.ID         // those that have not ended
	owners   map[job.ID][]job.ID
	leases   map[job.ID]store.Leased
	counted  []coolArm

	refused, repeats, early int
}

// coolArm is an arm that counts.
type coolArm struct {
	owner, job job.ID
	at         time.Time
}

// coolDownRandom: after every history of the jobs, an arm that is no repeat is refused if and
// only if another job's arm was too short a time ago, and a repeat never is.
func coolDownRandom(f *fixture) {
	var refused, repeats, early int
	for seed := range uint64(4) {
		f := newFixture(f.T, f.open)
		h := &coolHistory{
			fixture: f, r: rand.New(rand.NewPCG(seed, 3)), //nolint:gosec // repeatable
			conn: f.cooling(), schedule: f.id(), owners: make(map[job.ID][]job.ID), leases: make(map[job.ID]store.Leased),
		}
		for range 120 {
			h.step()
		}
		for i, a := range h.counted {
			for _, b := range h.counted[:i] {
				if a.owner == b.owner && a.job != b.job && a.at.Sub(b.at) < coolFor {
					f.Fatalf("seed %d: %s at %v, and %s at %v", seed, b.job, b.at, a.job, a.at)
				}
			}
		}
		refused, repeats, early = refused+h.refused, repeats+h.repeats, early+h.early
	}
	if min(refused, repeats, early) < 5 {
		f.Fatalf("%d refused, %d repeats, %d of them in another job's cool-down: the histories show too little", refused, repeats, early)
	}
}

func (h *coolHistory) step() {
	h.Helper()
	h.clock.advance(time.Duration(h.r.IntN(20)) * time.Minute)
	if len(h.ids) < 6 {
		h.add()
	}
	for _, claim := range []func(store.ClaimParams) ([]store.Leased, error){
		func(p store.ClaimParams) ([]store.Leased, error) { return h.s.Claim(h.ctx, p) },
		func(p store.ClaimParams) ([]store.Leased, error) { return h.s.ClaimLooks(h.ctx, p) },
	} {
		got, err := claim(store.ClaimParams{Worker: "worker", Lease: 1000 * time.Hour, Limit: 10})
		h.ok(err)
		for _, l := range got {
			h.leases[l.ID] = l
		}
	}
	id := h.ids[h.r.IntN(len(h.ids))]
	l, leased := h.leases[id]
	s := h.job(id)
	switch {
	case s.State.Terminal() || s.State == job.NeedsResolution:
		h.ids = slices.DeleteFunc(h.ids, func(one job.ID) bool { return one == id })
	case s.State == job.Sending:
		out := answer(s, []job.Result{job.ResultUnknown, job.ResultUnknown, job.ResultRejected, job.ResultNotSent, job.ResultSucceeded}[h.r.IntN(5)])
		out.Kind = job.FailTransient
		if out.Result == job.ResultSucceeded {
			h.apply(s, succeeded(s, ""))
			return
		}
		h.apply(s, out)
	case s.State == job.Ambiguous && h.r.IntN(3) == 0:
		// No attempt had an effect after all: what follows is a new effect.
		for n := range s.Attempt {
			s = h.job(id)
			if d := h.decide(s, job.Outcome{Attempt: n + 1, Result: job.ResultRejected, Kind: job.FailTransient}); d.Action == job.ActWrite {
				h.ok(h.change(s, d).Err)
			}
		}
		delete(h.leases, id)
	case leased:
		h.tryArm(l)
	}
}

// add submits a job under one of the cool-downs or both.
func (h *coolHistory) add() {
	h.Helper()
	var owners []job.ID
	which := 1 + h.r.IntN(3)
	s := h.submit(func(n *store.NewJob) {
		n.Spec.StartWindow, n.Spec.Retry.KeepTrying, n.Spec.Retry.MaxAttempts = 1000*time.Hour, job.MaxKeepTrying, 20
		if which&1 != 0 {
			n.Spec.Connection, owners = h.conn.ID, append(owners, h.conn.ID)
		}
		if which&2 != 0 {
			n.Spec.Schedule, n.Spec.CoolDown, owners = h.schedule, coolFor, append(owners, h.schedule)
		}
	})
	h.ids, h.owners[s.ID] = append(h.ids, s.ID), owners
}

func (h *coolHistory) tryArm(l store.Leased) {
	h.Helper()
	a := h.intent(l)
	busy := false
	for _, c := range h.counted {
		for _, owner := range h.owners[l.ID] {
			busy = busy || c.owner == owner && c.job != l.ID && h.clock.now().Sub(c.at) < coolFor
		}
	}
	got := h.armOne(a)
	switch {
	case a.Rearm:
		h.ok(got.Err)
		h.repeats++
		if busy {
			h.early++
		}
	case busy:
		h.fails(got.Err, store.ErrCoolDown)
		h.refused++
		return
	default:
		h.ok(got.Err)
		for _, owner := range h.owners[l.ID] {
			h.counted = append(h.counted, coolArm{owner, l.ID, got.Attempt.ArmedAt})
		}
	}
	delete(h.leases, l.ID)
}
