package storetest

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/incident"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// incidentSize is the number of unknown jobs at one receiver.
const incidentSize = 10_000

// BenchmarkIncidents prints what a list of incidents costs beside the jobs of a SearchFixture, of
// which one in 20 has failed, and of an incident of 10,000 unknown jobs; and what the plan of a decision
// about that costs.
func BenchmarkIncidents(b *testing.B, s store.Store, f SearchFixture) {
	w := &searchBench{B: b, s: s, f: f}
	w.unknown(incidentSize)
	fmt.Fprintf(os.Stderr, "%-52s %10s %10s %8s %8s\n", "", "p50", "slowest", "pages", "rows")
	day := f.Now.Add(-24 * time.Hour)
	read := func(kind store.TroubleKind, since time.Time) store.TroublePage {
		page, err := s.Troubles(b.Context(), store.TroubleQuery{Project: project, Kind: kind, Since: since})
		if err != nil {
			b.Fatal(err)
		}
		return page
	}
	for _, q := range []struct {
		name  string
		kind  store.TroubleKind
		since time.Time
	}{
		{"unknown", store.TroubleUnknown, day}, {"failed in a day", store.TroubleFailed, day}, {"failed ever", store.TroubleFailed, time.Time{}},
		{"waiting", store.TroubleWaiting, day},
	} {
		w.report("Troubles: "+q.name, func() (string, error) {
			page := read(q.kind, q.since)
			return fmt.Sprintf("%d jobs, more: %t", len(page.Jobs), page.More), nil
		})
	}
	jobs := 0
	list := func() []*incident.Incident {
		var lists [][]store.Trouble
		jobs = 0
		for _, kind := range []store.TroubleKind{store.TroubleUnknown, store.TroubleFailed, store.TroubleWaiting} {
			lists = append(lists, read(kind, day).Jobs)
			jobs += len(lists[len(lists)-1])
		}
		return incident.Group(f.Now, lists...)
	}
	w.report("ListIncidents: all", func() (string, error) {
		found := list()
		return fmt.Sprintf("%d incidents, the largest of %d jobs", len(found), len(found[0].Jobs)), nil
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := list()
	runtime.ReadMemStats(&after)
	fmt.Fprintf(os.Stderr, "ListIncidents allocates %d MB for %d jobs\n", (after.TotalAlloc-before.TotalAlloc)>>20, jobs)
	w.report("Unproven: in a day", func() (string, error) {
		page, err := s.Unproven(b.Context(), store.TroubleQuery{Project: project, Since: day})
		return fmt.Sprintf("%d jobs", len(page.Jobs)), err
	})
	w.plan(found[0])
}

// plan stores, starts and finishes the plan of a decision about an incident.
func (w *searchBench) plan(in *incident.Incident) {
	w.Helper()
	items := make([]store.PlanItem, len(in.Jobs))
	for i, t := range in.Jobs {
		items[i] = store.PlanItem{Job: t.Job, Version: t.Version}
	}
	number := uint64(0)
	w.report(fmt.Sprintf("a plan of %d jobs, from its list to its end", len(items)), func() (string, error) {
		var id job.ID
		number++
		binary.BigEndian.PutUint64(id[:8], number)
		p, err := w.s.CreatePlan(w.Context(), store.Plan{ID: id, Project: project, Op: store.PlanResolve, Ruling: job.RuleNotSent, CreatedBy: "api"}, items)
		if err == nil {
			p, err = w.s.StartPlan(w.Context(), project, id, "api")
		}
		for page := 0; err == nil && page < p.Pages; page++ {
			var of []store.PlanItem
			if of, _, err = w.s.PlanPage(w.Context(), id, page); err != nil {
				break
			}
			for i := range of {
				of[i].Outcome = store.PlanStale
			}
			p, err = w.s.FinishPage(w.Context(), id, page, of)
		}
		return fmt.Sprintf("%d left out", p.LeftOut), err
	})
}

// unknown makes jobs whose outcome no one can find out, at one receiver.
func (w *searchBench) unknown(n int) {
	w.Helper()
	fail := func(err error) {
		w.Helper()
		if err != nil {
			w.Fatal(err)
		}
	}
	conn, _, err := w.s.CreateConnection(w.Context(), store.NewConnection{Connection: store.Connection{
		ID: job.ID{0xff}, Project: project, Connector: "fake", Class: job.Opaque, MaxInFlight: 1000,
	}})
	fail(err)
	for made := 0; made < n; made += store.MaxBatch {
		items := make([]store.NewJob, store.MaxBatch)
		for i := range items {
			id := job.ID{0xfe}
			binary.BigEndian.PutUint64(id[8:], uint64(made+i))
			items[i] = store.NewJob{Class: job.Opaque, Spec: job.Spec{
				ID: id, Project: project, Key: fmt.Sprintf("payment-%d", made+i), Connection: conn.ID, HoldKey: "https://receiver.example",
				PayloadKind: "webhook", Payload: []byte("payload"), StartWindow: time.Hour, Delivery: job.OnceOrAsk,
			}}
		}
		created, err := w.s.Create(w.Context(), items)
		fail(err)
		snaps := make([]job.Snapshot, len(created))
		for i, c := range created {
			fail(c.Err)
			snaps[i] = c.Snapshot
		}
		for _, e := range []job.Evidence{nil, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, HTTPStatus: 503}, job.LookDue{}} {
			if e == nil {
				snaps = w.armAll(conn.ID, len(snaps))
			} else {
				snaps = w.decideAll(snaps, e)
			}
		}
	}
}

// armAll claims and arms the due jobs of a connection.
func (w *searchBench) armAll(conn job.ID, n int) (out []job.Snapshot) {
	w.Helper()
	for len(out) < n {
		leased, err := w.s.Claim(w.Context(), store.ClaimParams{Worker: "worker", Lease: lease, Limit: store.MaxBatch})
		if err != nil {
			w.Fatal(err)
		}
		leased = slices.DeleteFunc(leased, func(l store.Leased) bool { return l.Job.Connection != conn })
		arms := make([]store.Arm, len(leased))
		for i, l := range leased {
			arms[i] = store.Arm{
				Job: l.ID, Version: l.Version, Claim: l.ClaimToken, Token: l.ClaimToken, Worker: "worker", Class: job.Opaque, EffectKey: l.EffectKey(""),
				Digest: []byte("digest"), Frozen: []byte("frozen"), SendBy: time.Second, AnswerBy: time.Second, Fence: fence,
			}
		}
		armed, err := w.s.Arm(w.Context(), arms)
		if err != nil {
			w.Fatal(err)
		}
		for i, a := range armed {
			if a.Err != nil {
				w.Fatal(a.Err)
			}
			out = append(out, a.Snapshot.Of(leased[i].Spec))
		}
	}
	return out
}

func (w *searchBench) decideAll(snaps []job.Snapshot, e job.Evidence) []job.Snapshot {
	w.Helper()
	changes := make([]store.Change, len(snaps))
	for i, s := range snaps {
		if _, err := changes[i].Decide(&s, job.Traits{Class: job.Opaque}, 0, e); err != nil {
			w.Fatal(err)
		}
	}
	applied, err := w.s.Apply(w.Context(), changes)
	if err != nil {
		w.Fatal(err)
	}
	for i, a := range applied {
		if a.Err != nil {
			w.Fatal(a.Err)
		}
		snaps[i] = a.Snapshot.Of(snaps[i].Spec)
	}
	return snaps
}
