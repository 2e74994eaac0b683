package storetest

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var quotaTests = []test{
	{"stored jobs and their bytes", quotaStored},
	{"a repeat stores nothing", quotaRepeat},
	{"jobs that are refused in a batch", quotaRefusedItems},
	{"jobs that are started as they are stored", quotaStarted},
	{"a payload that changes", quotaUpdate},
	{"answers that are kept", quotaAnswers},
	{"items of a queue", quotaItems},
	{"removed jobs", quotaRemoved},
	{"many writes", quotaManyWrites},
	{"connections", quotaConnections},
	{"API keys", quotaAPIKeys},
	{"logins", quotaLogins},
	{"concurrent additions", quotaConcurrent},
}

// stores checks what a project stores.
func (f *fixture) stores(p string, jobs, bytes int64) {
	f.Helper()
	got, err := f.s.StoredJobs(f.ctx, p)
	f.ok(err)
	f.is(got, store.StoredJobs{Jobs: jobs, Bytes: bytes}, "stored by %s", p)
}

// paying sets a job's payload.
func paying(size int) func(*store.NewJob) {
	return func(n *store.NewJob) { n.Spec.Payload = make([]byte, size) }
}

func quotaStored(f *fixture) {
	f.stores(project, 0, 0)
	other := f.connect(store.Connection{Project: "other"})
	f.create(f.new(paying(10)), f.new(paying(0)), f.new(paying(100_000)),
		f.new(paying(7), on(other), func(n *store.NewJob) { n.Spec.Project = "other" }))
	f.submit(paying(1))
	f.stores(project, 4, 100_011)
	f.stores("other", 1, 7)
	f.stores("none", 0, 0)
	f.claimN(10)
	f.stores(project, 4, 100_011)
}

func quotaRepeat(f *fixture) {
	n := f.new(paying(10))
	again := n
	again.Spec.ID, again.Spec.Payload = f.id(), make([]byte, 99)
	f.create(n, again)
	again.Spec.ID = f.id()
	f.is(f.create(again)[0].Created, false, "created")
	f.stores(project, 1, 10)
}

func quotaRefusedItems(f *fixture) {
	bad := f.new(paying(50), func(n *store.NewJob) { n.Spec.Connection = f.id() })
	reply := f.new(paying(50), replying(f.id()))
	out, err := f.s.Create(f.ctx, []store.NewJob{f.new(paying(3)), bad, f.new(paying(4)), reply})
	f.ok(err)
	f.fails(out[1].Err, store.ErrNotFound)
	f.fails(out[3].Err, store.ErrReplyTo)
	f.stores(project, 2, 7)
	// One that the database itself refuses, when others of the batch are written already.
	good, taken := f.new(paying(10)), f.new(paying(50))
	taken.Spec.ID = good.Spec.ID
	out, err = f.s.Create(f.ctx, []store.NewJob{good, taken, f.new(paying(20))})
	f.ok(err)
	f.fails(out[1].Err, store.ErrIllegal)
	f.stores(project, 4, 37)
	f.submit(paying(1))
	f.stores(project, 5, 38)
}

func quotaStarted(f *fixture) {
	for i := range 3 {
		n := f.new(paying(5))
		n.Start = &store.ClaimParams{Worker: "w", Lease: lease}
		if i > 0 {
			n.Start.Intent = func(l store.Leased) *store.Arm { a := f.intent(l); return &a }
		}
		f.create(n)
	}
	f.stores(project, 3, 15)
}

func quotaUpdate(f *fixture) {
	s := f.submit(paying(10), at(start.Add(time.Hour)))
	f.submit(paying(1))
	s = f.update(s, store.Content{Payload: make([]byte, 400), HoldKey: "another"})
	f.stores(project, 2, 401)
	s = f.update(s, store.Content{Labels: map[string]string{"a": "b"}})
	f.stores(project, 2, 401)
	f.update(s, store.Content{Payload: []byte("x"), HoldKey: "another"})
	f.stores(project, 2, 2)
	f.fails(f.changeContent(s, f.decide(s, job.UpdateAsked{}), store.Content{Payload: make([]byte, 9)}).Err, store.ErrStale)
	f.stores(project, 2, 2)
}

func quotaAnswers(f *fixture) {
	other := f.submit(paying(7), at(start.Add(1000*time.Hour)))
	s := f.sending(paying(10)).Snapshot
	f.stores(project, 2, 17)
	size := func(a job.Answer) int64 { return int64(len(a.Encode())) }
	unknown := job.Answer{Status: 500, Headers: []job.AnswerHeader{{Name: "Request-Id", Value: "<1>"}}, Body: strings.Repeat("<\n", 1000)}
	s = f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultUnknown, Kind: job.FailAmbiguous, Answer: &unknown}).Snapshot
	f.stores(project, 2, 17+size(unknown))
	known := job.Answer{Status: 200, Body: "ok"}
	f.apply(s, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, Answer: &known})
	f.is(*f.attempts(s.ID)[0].Answer, known, "the answer that is kept")
	f.stores(project, 2, 17+size(known))
	f.clock.advance(20 * day)
	f.is(f.retain(keeping).Jobs, 1, "removed")
	f.stores(project, 1, 7)
	f.apply(other, job.CancelAsked{})
	f.stores(project, 1, 7)
}

// quotaItems: the content of an item counts until it leaves, and then as that of its job.
func quotaItems(f *fixture) {
	s := f.queued()
	sized := func(size int) func(*store.NewItem) {
		return func(n *store.NewItem) { n.Item.Payload = make([]byte, size) }
	}
	first, second := f.item(s, sized(10)), f.item(s, sized(200))
	third, fourth := f.item(s, sized(3000)), f.item(s, sized(40_000))
	f.stores(project, 0, 43_210)
	f.item(s, sized(0))
	again := f.newItem(s, sized(99))
	again.Item.Key = first.Key
	_, _, err := f.s.AddItem(f.ctx, again)
	f.ok(err)
	again.Item.ID, again.Item.Key = first.ID, "of a taken id"
	_, _, err = f.s.AddItem(f.ctx, again)
	f.fails(err, store.ErrIllegal)
	f.stores(project, 0, 43_210)
	f.ok(f.fired(f.take).Err)
	f.stores(project, 1, 43_210) // the job has it
	f.clock.advance(time.Minute)
	f.ok(f.fired(f.refuse).Err)
	f.stores(project, 1, 43_210) // it is kept
	f.changeItem(f.readItem(s, second.ID), removal)
	f.stores(project, 1, 43_010)
	third = f.changeItem(f.readItem(s, third.ID), func(c *store.ItemChange) { c.Content = &store.ItemContent{Payload: make([]byte, 3001)} })
	f.stores(project, 1, 43_011)
	third = f.changeItem(third, func(c *store.ItemChange) { c.To = &store.ItemTarget{} })
	f.stores(project, 1, 43_011)
	f.changeItem(third, func(c *store.ItemChange) { c.Content = &store.ItemContent{Payload: make([]byte, 1)} })
	f.stores(project, 1, 40_011)
	f.clock.advance(time.Minute)
	known := f.firings(s.ID)[0].Name
	f.ok(f.fired(func(d store.DueSchedule) store.FireDecision { // its name is there, so it makes no job
		out := f.take(d)
		out.Firings[0].Firing.Name = known
		return out
	}).Err)
	f.stores(project, 1, 40_011)
	f.is(f.readItem(s, fourth.ID).State, store.ItemWaiting, "state")
	f.stores("other", 0, 0)
	f.changeSchedule(f.readSchedule(s.ID), func(s *store.Schedule) { s.State = store.ScheduleDeleted })
	f.stores(project, 1, 10)
}

func quotaRemoved(f *fixture) {
	first := f.inState(job.Failed)
	f.inState(job.Succeeded)
	f.submit(paying(12), at(start.Add(1000*time.Hour)))
	size := int64(len(first.Payload))
	f.stores(project, 3, 2*size+12)
	f.clock.advance(20 * day)
	f.is(f.retain(keeping).Jobs, 2, "removed")
	f.stores(project, 1, 12)
}

// quotaManyWrites: the sums are right after many concurrent writes with concurrent reads.
func quotaManyWrites(f *fixture) {
	const writers, each = 8, 40
	together(writers+2, func(i int) {
		for range each {
			if i >= writers {
				if _, err := f.s.StoredJobs(f.ctx, project); err != nil {
					f.Error(err)
				}
				continue
			}
			out, err := f.s.Create(f.ctx, []store.NewJob{f.new(paying(3))})
			if err = errors.Join(err, out[0].Err); err != nil {
				f.Error(err)
			}
		}
	})
	for range 3 {
		f.stores(project, writers*each, 3*writers*each)
	}
}

// holds checks what else a project has.
func (f *fixture) holds(p string, want store.Holdings) {
	f.Helper()
	got, err := f.s.Holdings(f.ctx, p)
	f.ok(err)
	f.is(got, want, "holdings of %s", p)
}

// full checks that an addition to two was refused, with the figures.
func (f *fixture) full(err error, limit int64) {
	f.Helper()
	f.fails(err, store.ErrQuota)
	var q *store.QuotaError
	f.is(errors.As(err, &q), true, "a QuotaError")
	f.is(*q, store.QuotaError{Used: 2, Limit: limit}, "figures")
}

func quotaConnections(f *fixture) {
	add := func(key string, most int64) (store.Connection, bool, error) {
		return f.s.CreateConnection(f.ctx, store.NewConnection{
			Connection: store.Connection{ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed}, Key: key, Most: most,
			Sealed: &store.Sealed{Version: 1, KeyID: "k", Data: []byte("d"), Fingerprint: "f"},
		})
	}
	f.connect(store.Connection{Project: "other"})
	a, created, err := add("a", 2) // beside the fixture's
	f.ok(err)
	f.is(created, true, "created")
	_, _, err = add("b", 2)
	f.full(err, 2)
	_, _, err = add("b", 1)
	f.full(err, 1)
	f.holds(project, store.Holdings{Connections: 2})
	keys, err := f.s.CredentialKeys(f.ctx)
	f.ok(err)
	f.is(keys, []string{"k"}, "keys of credentials")
	again, created, err := add("a", 2)
	f.ok(err)
	f.is([]any{again.ID, created}, []any{a.ID, false}, "a bound key when the quota is used up")
	_, err = f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: project, ID: a.ID, Version: a.Version, Delete: true})
	f.ok(err)
	f.holds(project, store.Holdings{Connections: 1})
	_, created, err = add("b", 2)
	f.ok(err)
	f.is(created, true, "created in place of a deleted one")
	_, _, err = add("c", 0)
	f.ok(err)
	f.holds(project, store.Holdings{Connections: 3})
	f.holds("other", store.Holdings{Connections: 1})
}

func quotaAPIKeys(f *fixture) {
	add := func(id string, edit ...func(*store.NewAPIKey)) error {
		_, err := f.s.CreateAPIKey(f.ctx, newKey(id, append(edit, func(k *store.NewAPIKey) { k.Most = 2 })...))
		return err
	}
	f.ok(add("a", func(k *store.NewAPIKey) { k.Lifetime = time.Hour }))
	f.ok(add("b", func(k *store.NewAPIKey) { k.Name = "name" }))
	f.full(add("c"), 2)
	// The quota comes first, before every other error.
	f.full(add("c", func(k *store.NewAPIKey) { k.Name = "name" }), 2)
	f.full(add("b"), 2)
	_, err := f.s.APIKey(f.ctx, "c")
	f.fails(err, store.ErrNotFound)
	f.ok(add("d", func(k *store.NewAPIKey) { k.Project, k.NewProject = "other", true }))
	f.holds(project, store.Holdings{Connections: 1, APIKeys: 2})
	f.clock.advance(time.Hour) // the end of a
	f.holds(project, store.Holdings{Connections: 1, APIKeys: 1})
	f.ok(add("c"))
	f.full(add("e"), 2)
	_, err = f.s.RevokeAPIKey(f.ctx, "b")
	f.ok(err)
	f.ok(add("e"))
	f.holds("other", store.Holdings{APIKeys: 1})
}

func quotaLogins(f *fixture) {
	add := func(edit ...func(*store.Login)) (store.Login, error) {
		l := store.Login{
			State: make([]byte, 32), Project: project, Actor: "a", App: "x", Target: []byte("t"), KeyID: "k", Sealed: []byte("s"),
			RedirectURL: "https://example.org", Most: 2,
		}
		id := f.id()
		copy(l.State, id[:])
		for _, e := range edit {
			e(&l)
		}
		return l, f.s.StartLogin(f.ctx, l, 10*time.Minute)
	}
	first, err := add()
	f.ok(err)
	f.clock.advance(time.Minute)
	_, err = add()
	f.ok(err)
	refused, err := add()
	f.full(err, 2)
	_, err = add(func(l *store.Login) { l.State = first.State }) // the quota comes before a state that is taken
	f.full(err, 2)
	_, err = f.s.TakeLogin(f.ctx, "", refused.State)
	f.fails(err, store.ErrNotFound)
	_, err = add(func(l *store.Login) { l.Project = "other" })
	f.ok(err)
	f.holds(project, store.Holdings{Connections: 1, Logins: 2})
	got, err := f.s.TakeLogin(f.ctx, project, first.State)
	f.ok(err)
	f.is(got.Most, int64(0), "the bound of a stored login")
	_, err = add()
	f.ok(err)
	_, err = add()
	f.full(err, 2)
	f.clock.advance(10 * time.Minute) // their end
	f.holds(project, store.Holdings{Connections: 1})
	_, err = add()
	f.ok(err)
}

// quotaConcurrent: of many concurrent additions exactly as many succeed as the limit allows.
func quotaConcurrent(f *fixture) {
	const many, most = 16, 5
	var conns, keys, logins atomic.Int64
	count := func(n *atomic.Int64, err error) {
		switch {
		case err == nil:
			n.Add(1)
		case !errors.Is(err, store.ErrQuota):
			f.Error(err)
		}
	}
	together(many, func(i int) {
		id := f.id()
		_, _, err := f.s.CreateConnection(f.ctx, store.NewConnection{
			Connection: store.Connection{ID: id, Project: "new", Connector: "fake", Class: job.Keyed}, Key: id.String(), Most: most,
		})
		count(&conns, err)
		_, err = f.s.CreateAPIKey(f.ctx, newKey(id.String(), func(k *store.NewAPIKey) { k.Project, k.NewProject, k.Most = "new", true, most }))
		count(&keys, err)
		state := make([]byte, 32)
		copy(state, id[:])
		count(&logins, f.s.StartLogin(f.ctx, store.Login{
			State: state, Project: "new", Actor: "a", App: "x", Target: []byte("t"), KeyID: "k", Sealed: []byte("s"), Most: most,
		}, time.Minute))
	})
	f.is([]int64{conns.Load(), keys.Load(), logins.Load()}, []int64{most, most, most}, "added")
	f.holds("new", store.Holdings{Connections: most, APIKeys: most, Logins: most})
}
