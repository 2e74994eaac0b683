package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Marker is in everything of a store that RunErased fills and that may name a person.
const Marker = "erase-me-7f3a"

// RunErased fills two projects with Marker, erases a job of the one and the whole of the
// other, and hands the store to left, which returns where the marker is still found. It
// must find the marker before: found is left's answer then.
func RunErased(t *testing.T, open Open, left func(*testing.T, store.Store) []string) {
	for name, erase := range map[string]func(*fixture){
		"DeleteJob": func(f *fixture) {
			f.marked(project)
			f.found(left)
			for _, id := range f.list() {
				f.erase(id)
			}
		},
		"DeleteJob of an item": func(f *fixture) {
			f.markedItem()
			f.found(left)
			for _, id := range f.list() {
				f.erase(id)
			}
		},
		"EraseProject": func(f *fixture) {
			f.marked("other")
			f.markedConnection("other")
			f.markedSchedule("other")
			f.markedSubscription("other")
			id := f.id()
			k, err := f.s.CreateAPIKey(f.ctx, store.NewAPIKey{
				ID: id.String(), Project: "other", NewProject: true, Name: Marker, Hash: append(id[:], id[:]...),
			})
			f.ok(err)
			_, err = f.s.RevokeAPIKey(f.ctx, k.ID)
			f.ok(err)
			f.login(func(l *store.Login) { l.Project, l.Target, l.ReturnURL = "other", []byte(Marker), Marker })
			f.plan(planItems(f, 1, store.PlanActs), func(p *store.Plan) { p.Project, p.Note = "other", Marker })
			f.found(left)
			f.eraseAll("other", 50)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, open)
			other := f.submit(func(n *store.NewJob) { n.Spec.Payload = []byte("of somebody else") })
			f.apply(other, job.CancelAsked{})
			erase(f)
			f.submit() // the log's newest event belongs to another job
			if places := left(t, f.s); len(places) > 0 {
				t.Errorf("the marker is still in %s", strings.Join(places, ", "))
			}
		})
	}
}

// found checks that the marker is there.
func (f *fixture) found(left func(*testing.T, store.Store) []string) {
	f.Helper()
	if places := left(f.T, f.s); len(places) == 0 {
		f.Fatal("the marker is found nowhere before the erasure: the test looks wrongly")
	}
	f.clock.advance(store.LeastKept)
}

// marked makes ended jobs of a project that have the marker everywhere: two that were
// sent, one of which a person ruled on, and one with a large payload.
func (f *fixture) marked(project string) {
	f.Helper()
	conn := f.markedConnection(project)
	edit := func(n *store.NewJob) {
		n.Spec.Project, n.Spec.Connection, n.Spec.Key = project, conn.ID, Marker+n.Spec.ID.String()
		n.Spec.Payload = []byte(strings.Repeat(Marker+" ", 100))
		n.Spec.Labels, n.Spec.TimeZone, n.Spec.HoldKey = map[string]string{"label": Marker}, Marker, "hold"
		n.Recipients = []string{Marker}
	}
	change := func(s job.Snapshot, e job.Evidence) job.Snapshot {
		f.Helper()
		d := f.decide(s, e)
		out, err := f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d, Actor: "api:key", Reason: Marker}})
		f.ok(err)
		f.ok(out[0].Err)
		s, err = f.s.Job(f.ctx, store.Ref{ID: s.ID})
		f.ok(err)
		return s
	}
	arm := func(edit ...func(*store.NewJob)) job.Snapshot {
		f.Helper()
		id := f.create(f.new(edit...))[0].Snapshot.ID
		for _, l := range f.claimN(store.MaxBatch) {
			if l.ID == id {
				out, err := f.s.Arm(f.ctx, []store.Arm{f.intent(l, func(a *store.Arm) {
					a.Frozen, a.Watermark, a.AccountIdentity = []byte(Marker), Marker, Marker
				})})
				f.ok(err)
				f.ok(out[0].Err)
				return out[0].Snapshot
			}
		}
		f.Fatal("the job was not claimed")
		return job.Snapshot{}
	}
	s := arm(edit)
	s = change(s, job.Outcome{
		Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Message: Marker,
		Answer: &job.Answer{Status: 503, Headers: []job.AnswerHeader{{Name: "X", Value: Marker}}, Body: Marker},
	})
	s = change(s, job.Looked{Observation: job.Observation{Attempt: 1, Verdict: job.SawInconclusive, Detail: Marker}})
	change(s, job.Resolved{Ruling: job.RuleSent, Actor: "ann", Note: Marker, ExternalID: Marker, Override: true})
	s = arm(edit)
	change(s, job.Outcome{
		Attempt: 1, Result: job.ResultSucceeded, Message: Marker, ExternalID: Marker + "2", ExternalURL: "https://example.org/@" + Marker,
	})
	large := f.create(f.new(edit, func(n *store.NewJob) {
		n.Spec.Payload = []byte(strings.Repeat(Marker+" ", 8<<10))
	}, at(start.Add(time.Hour))))[0].Snapshot
	change(large, job.CancelAsked{})
}

// markedSchedule makes a schedule of a project with the marker in its texts, and a firing.
func (f *fixture) markedSchedule(project string) {
	f.Helper()
	of := f.schedule(func(s *store.Schedule) {
		s.Queued = true
		s.Project, s.Key, s.Spec, s.Template, s.Policies = project, Marker+s.ID.String(), []byte(Marker), []byte(Marker), []byte(Marker)
		s.DisplayName, s.Labels, s.Note, s.Cursor, s.CreatedBy = Marker, map[string]string{"label": Marker}, Marker, Marker, Marker
	})
	for _, state := range []string{"refused", "waiting"} {
		f.item(of, func(n *store.NewItem) {
			n.Project, n.Item.Key, n.Item.Payload, n.Item.CreatedBy = project, Marker+state, []byte(Marker), Marker
			n.Item.PayloadKind, n.Item.Labels = Marker, map[string]string{"label": Marker}
		})
	}
	f.ok(f.fired(func(d store.DueSchedule) store.FireDecision {
		s := d.Schedule
		s.Next, s.Skips = d.Now.Add(100*day), []string{Marker}
		s.Buffered = &store.Firing{Name: Marker, Nominal: d.Now, Origin: store.FiredByTime}
		refused := []store.RefusedItem{{Item: d.Items[0].ID, Reason: Marker}}
		return store.FireDecision{Schedule: s, RefusedItems: refused, Firings: []store.FiringDecision{{Firing: store.Firing{
			Name: Marker, Nominal: d.Now, LocalTime: Marker, Origin: store.FiredByTime, Outcome: store.FiringMissed, Reason: Marker,
		}}}}
	}).Err)
}

// markedSubscription makes a subscription of a project with the marker in its texts, and a notice
// that has ended.
func (f *fixture) markedSubscription(project string) {
	f.Helper()
	conn := f.markedConnection(project)
	s := f.subscribe(func(s *store.Subscription) {
		s.Project, s.Key, s.Spec, s.Memory = project, Marker+s.ID.String(), []byte(Marker), []byte(Marker)
		s.Connection, s.DisplayName, s.CreatedBy = conn.ID, Marker, Marker
	})
	s, err := f.tryStep(s, f.telling(s.Position), func(p *store.SubscriptionStep) {
		p.Subscription.LastError, p.Job.Spec.Payload = Marker, []byte(Marker)
		p.Subscription.State, p.Subscription.PauseCause = store.SubscriptionPaused, store.SubscriptionPausedByPerson
		p.Subscription.Note = Marker
	})
	f.ok(err)
	for _, l := range f.claimN(store.MaxBatch) {
		if l.ID == s.OpenJob {
			armed := f.arm(l, func(a *store.Arm) { a.Frozen = []byte(Marker) }).Snapshot
			f.applied(armed, job.Outcome{Attempt: 1, Result: job.ResultRejected, Kind: job.FailPermanent, Message: Marker})
		}
	}
}

// markedItem makes an ended job of an item that has the marker in its content.
func (f *fixture) markedItem() {
	f.Helper()
	of := f.schedule(func(s *store.Schedule) { s.Queued = true })
	f.item(of, func(n *store.NewItem) {
		n.Item.Payload, n.Item.Labels = []byte(strings.Repeat(Marker+" ", 100)), map[string]string{"label": Marker}
	})
	f.apply(f.fired(f.take).Firings[0].Job.Snapshot, job.CancelAsked{})
	f.changeSchedule(f.readSchedule(of.ID), func(s *store.Schedule) { s.Next = time.Time{} })
}

// markedConnection is a connection of a project with the marker in its texts.
func (f *fixture) markedConnection(project string) store.Connection {
	f.Helper()
	c := store.Connection{ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed, KeyWindow: 24 * time.Hour}
	n := store.NewConnection{Connection: c}
	if project != "default" { // a connection outlives DeleteJob
		n.Key = Marker + c.ID.String()
		n.Connection.DisplayName, n.Connection.Settings, n.Connection.AccountIdentity = Marker, []byte(Marker), Marker
		n.Connection.Labels = map[string]string{"label": Marker}
		n.Sealed = &store.Sealed{Version: 1, KeyID: "k", Data: []byte(Marker), Fingerprint: "abcd"}
	}
	out, _, err := f.s.CreateConnection(f.ctx, n)
	f.ok(err)
	return out
}
