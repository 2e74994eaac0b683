package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var connectionChangeTests = []test{
	{"each part", changeParts},
	{"the actor of the last change", changeActor},
	{"refusals", changeRefused},
	{"a pause", changePause},
	{"a pause holds back what was leased", changePauseLeased},
	{"a resume lifts nothing but the pause", changeResume},
	{"a new credential", changeCredential},
	{"a new seal follows a new target", changeSeal},
	{"a late refusal of the old credential", changeLateRefusal},
	{"refusals while credentials are replaced", changeRefusalRace},
	{"bounds", changeBounds},
	{"the pace", changePace},
	{"hints", changeHints},
	{"a connection in use", changeInUse},
	{"a deleted connection", changeDeleted},
	{"nothing starts anew on a deleted connection", changeDeletedRestart},
	{"a pause before its first hold keys", changePauseRace},
	{"deleted while jobs come", changeDeleteRace},
	{"one of many wins", changeConcurrent},
	{"missed in a pause", missedJobs},
	{"missed, batch by batch", missedBatches},
}

// revise changes a connection as it is, which must work.
func (f *fixture) revise(conn store.Connection, c store.ConnectionChange) store.Connection {
	f.Helper()
	before := f.connection(conn.ID)
	c.Project, c.ID, c.Version = before.Project, before.ID, before.Version
	out, err := f.s.ChangeConnection(f.ctx, c)
	f.ok(err)
	f.is(f.connection(conn.ID), out, "connection read back")
	f.is(out.Version, before.Version+1, "version")
	return out
}

func (f *fixture) connection(id job.ID) store.Connection {
	f.Helper()
	c, err := f.s.Connection(f.ctx, store.Ref{ID: id})
	f.ok(err)
	return c
}

func ptr[T any](v T) *T { return &v }

// sealedNext is the next credential of a connection.
func sealedNext(c store.Connection, key string) *store.Sealed {
	return &store.Sealed{
		Version: c.CredentialVersion + 1, KeyID: key, Data: []byte("sealed " + key), Fingerprint: "print " + key,
		Expires: start.Add(time.Hour),
	}
}

func changeParts(f *fixture) {
	f.clock.advance(time.Minute)
	now := start.Add(time.Minute)
	target := store.ConnectionTarget{Settings: []byte("other"), Class: job.Observable, KeyWindow: time.Minute}
	sealed := sealedNext(f.conn, "k")
	for name, tt := range map[string]struct {
		change store.ConnectionChange
		edit   func(*store.Connection)
	}{
		"nothing": {store.ConnectionChange{}, func(*store.Connection) {}},
		"name":    {store.ConnectionChange{DisplayName: ptr("Bob")}, func(c *store.Connection) { c.DisplayName = "Bob" }},
		"labels": {store.ConnectionChange{Labels: map[string]string{"user": "7", "plan": "free"}}, func(c *store.Connection) {
			c.Labels = map[string]string{"user": "7", "plan": "free"}
		}},
		"no labels": {store.ConnectionChange{Labels: map[string]string{}}, func(c *store.Connection) { c.Labels = nil }},
		"target": {store.ConnectionChange{Target: &target}, func(c *store.Connection) {
			c.Settings, c.Class, c.KeyWindow = []byte("other"), job.Observable, time.Minute
		}},
		"no settings": {store.ConnectionChange{Target: &store.ConnectionTarget{Class: job.Opaque}}, func(c *store.Connection) {
			c.Settings, c.Class, c.KeyWindow = nil, job.Opaque, 0
		}},
		"limits": {store.ConnectionChange{Limits: &store.ConnectionLimits{MaxInFlight: 3, MaxPerMinute: 7}}, func(c *store.Connection) {
			c.MaxInFlight, c.MaxPerMinute = 3, 7
		}},
		"retry": {store.ConnectionChange{Retry: &job.RetryPolicy{KeepTrying: time.Hour}}, func(c *store.Connection) {
			c.Retry = job.RetryPolicy{KeepTrying: time.Hour}
		}},
		"no retry": {store.ConnectionChange{Retry: &job.RetryPolicy{}}, func(c *store.Connection) { c.Retry = job.RetryPolicy{} }},
		"identity": {store.ConnectionChange{Identity: ptr("bob@example")}, func(c *store.Connection) { c.AccountIdentity = "bob@example" }},
		"pause":    {store.ConnectionChange{Pause: ptr("why")}, func(c *store.Connection) { c.PausedAt, c.PausedReason = now, "why" }},
		"credential": {store.ConnectionChange{Credential: sealed}, func(c *store.Connection) {
			c.CredentialVersion, c.CredentialFingerprint, c.CredentialExpires = 1, "print k", start.Add(time.Hour)
		}},
		"delete": {store.ConnectionChange{Delete: true}, func(c *store.Connection) { c.Deleted = now }},
	} {
		want := f.connect(store.Connection{DisplayName: "Ann", Settings: []byte("settings"), KeyWindow: time.Hour, MaxInFlight: 9, Labels: map[string]string{"user": "42"}})
		got := f.revise(want, tt.change)
		tt.edit(&want)
		want.Version, want.Updated = 2, now
		f.is(got, want, "%s", name)
	}
}

func changeActor(f *fixture) {
	conn := f.connect(store.Connection{CreatedBy: "api:ann/1"})
	for _, step := range []struct {
		change store.ConnectionChange
		want   string
	}{
		{store.ConnectionChange{Actor: "api:bob/2", Pause: ptr("")}, "api:bob/2"},
		{store.ConnectionChange{Credential: sealedNext(conn, "a")}, "api:bob/2"}, // the server itself
		{store.ConnectionChange{Actor: "api:key", Resume: true}, "api:key"},
		{store.ConnectionChange{Actor: "api:eve/3", Delete: true}, "api:eve/3"},
	} {
		got := f.revise(conn, step.change)
		f.is([]string{got.CreatedBy, got.UpdatedBy}, []string{"api:ann/1", step.want}, "actors")
	}
}

func changeRefused(f *fixture) {
	change := store.ConnectionChange{Project: project, ID: f.conn.ID, Version: f.conn.Version, DisplayName: ptr("x")}
	for name, tt := range map[string]struct {
		edit func(*store.ConnectionChange)
		want error
	}{
		"no such connection":   {func(c *store.ConnectionChange) { c.ID = f.id() }, store.ErrNotFound},
		"another project":      {func(c *store.ConnectionChange) { c.Project = "other" }, store.ErrNotFound},
		"an older version":     {func(c *store.ConnectionChange) { c.Version-- }, store.ErrStale},
		"a later version":      {func(c *store.ConnectionChange) { c.Version++ }, store.ErrStale},
		"the same credential":  {func(c *store.ConnectionChange) { c.Credential = &store.Sealed{} }, store.ErrIllegal},
		"a credential skipped": {func(c *store.ConnectionChange) { c.Credential = &store.Sealed{Version: 2} }, store.ErrIllegal},
		"pause and resume":     {func(c *store.ConnectionChange) { c.Pause, c.Resume = ptr(""), true }, store.ErrIllegal},
		"delete and pause":     {func(c *store.ConnectionChange) { c.Pause, c.Delete = ptr(""), true }, store.ErrIllegal},
		"no class":             {func(c *store.ConnectionChange) { c.Target = &store.ConnectionTarget{} }, store.ErrIllegal},
		"a negative bound":     {func(c *store.ConnectionChange) { c.Limits = &store.ConnectionLimits{MaxInFlight: -1} }, store.ErrIllegal},
	} {
		c := change
		tt.edit(&c)
		if _, err := f.s.ChangeConnection(f.ctx, c); err == nil {
			f.Errorf("%s: written", name)
		} else {
			f.fails(err, tt.want)
		}
		f.is(f.connection(f.conn.ID), f.conn, "%s: connection after a refusal", name)
	}
}

func changeCredential(f *fixture) {
	first := f.revise(f.conn, store.ConnectionChange{Credential: sealedNext(f.conn, "a")})
	jobs := []job.ID{f.submit(holding("x")).ID, f.submit(holding("y")).ID}
	for range jobs {
		f.holdIt(job.FailAuth, 1)
	}
	limited := f.submit(holding("z")).ID
	f.holdIt(job.FailRateLimited, 0)
	f.claimed()
	second := sealedNext(first, "b")
	got := f.revise(f.conn, store.ConnectionChange{Credential: second})
	f.is([]any{got.AuthHoldAt, got.AuthHoldReason, got.AuthHoldCause, got.CredentialVersion},
		[]any{time.Time{}, "", job.AuthCause(0), 2}, "hold and version")
	f.is(f.hold("x"), store.Hold{}, "hold of one key")
	stored, err := f.s.Credential(f.ctx, f.conn.ID)
	f.ok(err)
	second.For = got.SealedFor()
	f.is(stored, *second, "credential")
	keys, err := f.s.CredentialKeys(f.ctx)
	f.ok(err)
	f.is(keys, []string{"b"}, "keys: the old credential is erased")
	for _, l := range f.claimed(jobs...) {
		f.is(l.Connection.CredentialVersion, 2, "version in the lease")
	}
	f.clock.advance(time.Minute)
	f.claimed(limited)
}

// changeLateRefusal: the refusal of an older credential holds nothing, however it arrives;
// the refusal of the new one does.
func changeLateRefusal(f *fixture) {
	conn := f.revise(f.conn, store.ConnectionChange{Credential: sealedNext(f.conn, "a")})
	sent := f.sending()
	f.submit()
	leased := f.claim()
	f.revise(f.conn, store.ConnectionChange{Credential: sealedNext(conn, "b")})
	refused := answer(sent.Snapshot, job.ResultRejected)
	refused.Kind, refused.CredentialVersion = job.FailAuth, 1
	got := f.apply(sent.Snapshot, refused).Snapshot
	f.is(got.State, job.Retrying, "state")
	f.apply(leased.Snapshot, job.Deferred{Kind: job.FailAuth, Message: "refused", CredentialVersion: 1})
	f.is(f.connection(f.conn.ID).AuthHoldAt, time.Time{}, "hold by an old credential")
	l := f.claimed(got.ID, leased.ID)[0]
	f.apply(l.Snapshot, job.Deferred{Kind: job.FailAuth, Message: "refused", CredentialVersion: 2})
	f.is(f.connection(f.conn.ID).AuthHoldAt, start, "hold by the present one")
}

// changeRefusalRace: refusals of each credential come while it is replaced, to leases and to
// looks. In every order, none of them holds the next credential.
func changeRefusalRace(f *fixture) {
	conn := f.connect(store.Connection{Class: job.Observable})
	for round := range 15 {
		var leased []job.Snapshot
		for i := range crowd / 2 {
			f.submit(on(conn), holding(string(rune('a'+i))))
		}
		for i, l := range f.claimN(store.MaxBatch) {
			if i%2 == 0 {
				leased = append(leased, l.Snapshot)
				continue
			}
			s := f.arm(l).Snapshot
			leased = append(leased, f.apply(s, answer(s, job.ResultUnknown)).Snapshot)
		}
		conn = f.connection(conn.ID)
		change := store.ConnectionChange{
			Project: project, ID: conn.ID, Version: conn.Version, Credential: sealedNext(conn, "k"),
		}
		together(len(leased)+1, func(i int) {
			if i == 0 {
				if _, err := f.s.ChangeConnection(f.ctx, change); err != nil {
					f.Error(err)
				}
				return
			}
			s := leased[i-1]
			d, err := job.Decide(s.View(f.traits(s), 0), job.Deferred{
				Kind: job.FailAuth, Message: "refused", CredentialVersion: conn.CredentialVersion,
			})
			if err == nil {
				_, err = f.s.Apply(f.ctx, []store.Change{{Job: s.ID, Version: s.Version, Decision: d}})
			}
			if err != nil {
				f.Error(err)
			}
		})
		f.is(f.connection(conn.ID).AuthHoldAt, time.Time{}, "round %d: hold of version %d", round, conn.CredentialVersion+1)
		for _, s := range leased {
			f.end(s.ID)
		}
	}
}

func changeBounds(f *fixture) {
	conn := f.connect(store.Connection{MaxInFlight: 1})
	for range 5 {
		f.submit(on(conn))
	}
	f.is(len(f.claimN(10)), 1, "claimed of one at a time")
	f.is(len(f.claimN(10)), 0, "claimed at the bound")
	f.revise(conn, store.ConnectionChange{Limits: &store.ConnectionLimits{MaxInFlight: 3}})
	got := f.claimN(10)
	f.is(len(got), 2, "claimed after a higher bound")
	f.is(got[0].Connection.MaxInFlight, 3, "bound in the lease")
	f.revise(conn, store.ConnectionChange{Limits: &store.ConnectionLimits{MaxInFlight: 2}})
	f.is(len(f.claimN(10)), 0, "claimed above a lower bound")
	f.apply(got[0].Snapshot, job.CancelAsked{})
	f.is(len(f.claimN(10)), 0, "claimed at a lower bound")
	f.apply(got[1].Snapshot, job.CancelAsked{})
	f.is(len(f.claimN(10)), 1, "claimed below a lower bound")
}

func changePace(f *fixture) {
	conn := f.connect(store.Connection{MaxPerMinute: 1})
	for range 60 {
		f.submit(on(conn))
	}
	f.is(len(f.claimN(100)), 1, "claimed of one a minute")
	f.is(len(f.claimN(100)), 0, "claimed at the pace")
	f.revise(conn, store.ConnectionChange{Limits: &store.ConnectionLimits{MaxPerMinute: 20}})
	// 20 a minute are one every 60/19 s, and the bucket was empty.
	f.is(len(f.claimN(100)), 0, "tokens of a bucket that was empty")
	next, err := f.s.NextDue(f.ctx, time.Hour)
	f.ok(err)
	f.is(next <= 3157895*time.Microsecond, true, "next due in %v", next)
	f.clock.advance(next)
	f.is(len(f.claimN(100)), 1, "claimed at the new pace")
	f.is(len(f.claimN(100)), 0, "claimed at the new pace, again")
	f.revise(conn, store.ConnectionChange{Limits: &store.ConnectionLimits{MaxInFlight: 50}})
	f.is(len(f.claimN(100)), 48, "claimed without a pace")
}

func changeHints(f *fixture) {
	work, end := f.s.Watch(store.WatchWork)
	defer end()
	for _, tt := range []struct {
		name   string
		change store.ConnectionChange
		want   bool
	}{
		{"a name", store.ConnectionChange{DisplayName: ptr("x")}, false},
		{"a pause", store.ConnectionChange{Pause: ptr("")}, false},
		{"a resume", store.ConnectionChange{Resume: true}, true},
		{"bounds", store.ConnectionChange{Limits: &store.ConnectionLimits{}}, true},
		{"a credential", store.ConnectionChange{Credential: sealedNext(f.conn, "k")}, true},
	} {
		f.revise(f.conn, tt.change)
		f.is(token(work), tt.want, "hint of %s", tt.name)
	}
}

func changeInUse(f *fixture) {
	for _, state := range job.States {
		s := f.inState(state)
		conn := f.connection(s.Connection)
		if s.Connection == f.conn.ID {
			// The other jobs of the fixture's connection have ended.
			_, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: project, ID: conn.ID, Version: conn.Version + 1, Delete: true})
			f.fails(err, store.ErrStale)
		}
		if state.Terminal() {
			continue
		}
		_, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: project, ID: conn.ID, Version: conn.Version, Delete: true})
		f.fails(err, store.ErrInUse)
		f.is(f.connection(conn.ID), conn, "%s: connection after a refusal", state)
		f.end(s.ID)
	}
	// A job of another connection waits for one that will not end soon.
	other := f.connect(store.Connection{})
	waits := f.submit(on(other), replying(f.submit().ID))
	_, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: project, ID: other.ID, Version: 1, Delete: true})
	f.fails(err, store.ErrInUse)
	f.end(waits.ID)
	f.is(f.revise(other, store.ConnectionChange{Delete: true}).Deleted, start, "deleted")
}

func changeDeleted(f *fixture) {
	sealed := sealedNext(store.Connection{}, "k")
	conn, _, err := f.s.CreateConnection(f.ctx, store.NewConnection{
		Connection: store.Connection{ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed}, Key: "c", Sealed: sealed,
	})
	f.ok(err)
	bound := f.new(on(conn))
	f.create(bound)
	f.end(bound.Spec.ID)
	f.revise(conn, store.ConnectionChange{Pause: ptr("why")})
	gone := f.revise(conn, store.ConnectionChange{Delete: true})
	f.is([]any{gone.CredentialVersion, gone.CredentialFingerprint, gone.CredentialExpires, gone.PausedAt, gone.PausedReason},
		[]any{0, "", time.Time{}, time.Time{}, ""}, "credential and pause")
	_, err = f.s.Credential(f.ctx, conn.ID)
	f.fails(err, store.ErrNotFound)
	keys, err := f.s.CredentialKeys(f.ctx)
	f.ok(err)
	f.is(len(keys), 0, "keys: the credential is erased")
	for _, c := range []store.ConnectionChange{
		{DisplayName: ptr("x")}, {Delete: true}, {Pause: ptr("")}, {Credential: sealed},
	} {
		c.Project, c.ID, c.Version = project, gone.ID, gone.Version
		_, err = f.s.ChangeConnection(f.ctx, c)
		f.fails(err, store.ErrIllegal)
	}
	for deleted, want := range map[bool][]job.ID{false: {f.conn.ID}, true: {gone.ID, f.conn.ID}} {
		list, err := f.s.ListConnections(f.ctx, store.ConnectionQuery{Project: project, Deleted: deleted})
		f.ok(err)
		var ids []job.ID
		for _, c := range list.Connections {
			ids = append(ids, c.ID)
		}
		f.is(ids, want, "list with deleted ones: %v", deleted)
	}
	// No new jobs are stored; bound keys return their jobs.
	for _, edit := range []func(*store.NewJob){func(*store.NewJob) {}, replying(f.submit().ID)} {
		out, err := f.s.Create(f.ctx, []store.NewJob{f.new(on(conn), edit), f.new()})
		f.ok(err)
		f.fails(out[0].Err, store.ErrNotFound)
		f.ok(out[1].Err)
	}
	out, err := f.s.Create(f.ctx, []store.NewJob{bound})
	f.ok(err)
	f.is([]any{out[0].Created, out[0].Snapshot.State, out[0].Err}, []any{false, job.Canceled, error(nil)}, "a bound key")
	again, created, err := f.s.CreateConnection(f.ctx, store.NewConnection{
		Connection: store.Connection{ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed}, Key: "c",
	})
	f.ok(err)
	f.is([]any{created, again}, []any{false, gone}, "the connection's own key")
}

func changeDeletedRestart(f *fixture) {
	failed := f.inState(job.Failed)
	expired := f.inState(job.Expired)
	f.revise(f.conn, store.ConnectionChange{Delete: true})
	for _, s := range []job.Snapshot{failed, expired} {
		got := f.change(s, f.decide(s, job.RetryAsked{}))
		f.fails(got.Err, store.ErrNotFound)
		f.unchanged(s)
	}
	// An effect that happened is written nevertheless.
	late := f.apply(failed, job.Outcome{Attempt: 1, Result: job.ResultSucceeded, ExternalID: "x"}).Snapshot
	f.is(late.State, job.Succeeded, "state after late evidence")
}

// changeDeleteRace: jobs are stored in every way while the connection is deleted. Either the
// delete is refused, or each of them is.
func changeDeleteRace(f *fixture) {
	never := f.submit(at(start.Add(time.Hour)))
	var deleted, stored atomic.Int64
	for round := range 20 {
		conn := f.connect(store.Connection{})
		old := f.submit(on(conn))
		f.end(old.ID)
		ways := []func(*store.NewJob){
			func(*store.NewJob) {}, holding("new"), replying(never.ID),
			func(n *store.NewJob) {
				n.Start = &store.ClaimParams{Worker: "w", Lease: lease, Intent: func(l store.Leased) *store.Arm { return ptr(f.intent(l)) }}
			},
		}
		var gone atomic.Bool
		var ids sync.Map
		together(2*len(ways)+1, func(i int) {
			if i == round%(2*len(ways)) {
				_, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: project, ID: conn.ID, Version: 1, Delete: true})
				gone.Store(err == nil)
				return
			}
			out, err := f.s.Create(f.ctx, []store.NewJob{f.new(on(conn), ways[i%len(ways)])})
			if err != nil {
				f.Error(err)
			} else if out[0].Err == nil {
				ids.Store(out[0].Snapshot.ID, true)
			}
		})
		left := 0
		for range ids.Range {
			left++
		}
		f.is(gone.Load() && left > 0, false, "round %d: deleted with %d jobs stored", round, left)
		f.is(!f.connection(conn.ID).Deleted.IsZero(), gone.Load(), "deleted")
		if gone.Load() {
			deleted.Add(1)
		}
		stored.Add(int64(left))
	}
	f.Logf("%d of 20 deletes came through; %d jobs were stored", deleted.Load(), stored.Load())
	f.is(deleted.Load()+stored.Load() > 0, true, "anything happened")
}

func changeConcurrent(f *fixture) {
	var won, stale atomic.Int64
	together(crowd, func(i int) {
		_, err := f.s.ChangeConnection(f.ctx, store.ConnectionChange{
			Project: project, ID: f.conn.ID, Version: 1, Credential: sealedNext(f.conn, string(rune('a'+i))),
		})
		if err == nil {
			won.Add(1)
		} else if errors.Is(err, store.ErrStale) {
			stale.Add(1)
		}
	})
	f.is([]int64{won.Load(), stale.Load()}, []int64{1, crowd - 1}, "won and stale")
	f.is(f.connection(f.conn.ID).CredentialVersion, 1, "version of the credential")
}
