package storetest

import (
	"fmt"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// The ways in which a job names an object.
const (
	byLook = iota
	byWord
	byAnswer
	waysToName
)

// evidenceOrders: four jobs name one object, in every order of the ways to do so. The first
// one owns it, unless the platform's answer for a later one is better evidence. Each owner
// gets one event when the platform answers another job with its object.
func evidenceOrders(f *fixture) {
	jobs, orders := 4, waysToName*waysToName*waysToName*waysToName
	if testing.Short() {
		jobs, orders = 3, waysToName*waysToName*waysToName
	}
	conn := f.connect(store.Connection{Class: job.Observable, AccountIdentity: "me"})
	for order := range orders {
		object := fmt.Sprint("object ", order)
		ways := make([]int, jobs)
		for i := range ways {
			ways[i] = order % waysToName
			order /= waysToName
		}
		f.sharedBy(conn, object, ways)
	}
}

func (f *fixture) sharedBy(conn store.Connection, object string, ways []int) {
	f.Helper()
	all, shared, notified := make([]job.ID, len(ways)), make([]job.ID, len(ways)), make([]int, len(ways))
	owner, owned := -1, byLook // by which way the owner came to it
	for i, way := range ways {
		s := f.observable(conn)
		all[i] = s.ID
		got := f.apply(s, naming(way, object))
		if way == byLook && owner >= 0 {
			f.is(got.Snapshot.State, job.NeedsResolution, "%v: job %d", ways, i)
			continue
		}
		f.is(got.Snapshot.State, job.Succeeded, "%v: job %d", ways, i)
		if owner < 0 {
			owner, owned = i, way
			continue
		}
		shared[i] = all[owner]
		if way != byAnswer {
			continue
		}
		if notified[owner] == 0 {
			notified[owner], shared[owner] = 1, s.ID
		}
		if owned != byAnswer {
			owner, owned = i, way
		}
	}
	for i, id := range all {
		s, events := f.job(id), 0
		for _, e := range f.events(id) {
			if e.Cause == job.CauseEffectShared {
				events++
			}
		}
		f.is(events, notified[i], "%v: events of job %d", ways, i)
		if s.Effect != nil {
			f.is(s.Effect.SharedWith, shared[i], "%v: job %d shares with", ways, i)
		}
	}
	owners, err := f.s.Owners(f.ctx, f.observable(conn).ID, 1, []string{object})
	f.ok(err)
	f.is(owners[object], all[owner], "%v: owner", ways)
}

// naming is the evidence by which a job comes to name an object.
func naming(way int, object string) job.Evidence {
	switch way {
	case byLook:
		return saw(object)
	case byWord:
		return job.Resolved{Ruling: job.RuleSent, Actor: "ops", ExternalID: object, Override: true}
	default:
		return job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: object}
	}
}
