package storetest

import (
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var connectionTests = []test{
	{"stores what was asked for", connectionStores},
	{"a key binds once", connectionKey},
	{"credentials", connectionCredential},
	{"pages", connectionPages},
	{"not found", connectionNotFound},
	{"the database describes itself", connectionMeta},
}

func connectionStores(f *fixture) {
	var fp job.Fingerprint
	fp.Set("name", []byte("x"))
	want := store.Connection{
		ID: f.id(), Project: project, Connector: "mastodon", DisplayName: "Ann", Settings: []byte("settings"),
		Class: job.Observable, KeyWindow: time.Hour, AccountIdentity: "ann@example", MaxInFlight: 3, MaxPerMinute: 7,
		Retry:    job.RetryPolicy{MaxAttempts: 3, Delays: []time.Duration{time.Second, time.Hour}, KeepTrying: 5 * time.Hour},
		PausedAt: start, PausedReason: "holiday", CreatedBy: "api:ann/1",
		Labels: map[string]string{"user": "42", "plan": ""},
	}
	got, created, err := f.s.CreateConnection(f.ctx, store.NewConnection{Connection: want, Key: "k", Fingerprint: fp})
	f.ok(err)
	f.is(created, true, "created")
	want.Key, want.Fingerprint, want.Version, want.Created, want.Updated = "k", fp, 1, start, start
	want.UpdatedBy = want.CreatedBy
	f.is(got, want, "connection")
	got, err = f.s.Connection(f.ctx, store.Ref{Project: project, ID: want.ID})
	f.ok(err)
	f.is(got, want, "connection read back")
}

func connectionKey(f *fixture) {
	var fp job.Fingerprint
	fp.Set("name", []byte("x"))
	n := store.NewConnection{
		Connection: store.Connection{ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed},
		Key:        "k", Fingerprint: fp, Sealed: &store.Sealed{KeyID: "key", Data: []byte("sealed")},
	}
	first, created, err := f.s.CreateConnection(f.ctx, n)
	f.ok(err)
	f.is(created, true, "created")
	again := n
	again.Connection.ID, again.Fingerprint = f.id(), job.Fingerprint{}
	got, created, err := f.s.CreateConnection(f.ctx, again)
	f.ok(err)
	f.is(created, false, "created again")
	f.is(got, first, "bound connection")
	f.is(got.Fingerprint.Equal(fp), true, "fingerprint of the first request")
	_, err = f.s.Credential(f.ctx, again.Connection.ID)
	f.fails(err, store.ErrNotFound)
	keys, err := f.s.CredentialKeys(f.ctx)
	f.ok(err)
	f.is(keys, []string{"key"}, "keys of the credentials")
	again.Connection.Project = "other"
	_, created, err = f.s.CreateConnection(f.ctx, again)
	f.ok(err)
	f.is(created, true, "created in another project")
	byKey, err := f.s.Connection(f.ctx, store.Ref{Project: project, Key: "k"})
	f.ok(err)
	f.is(byKey, first, "connection by its key")
	f.revise(first, store.ConnectionChange{Delete: true})
	byKey, err = f.s.Connection(f.ctx, store.Ref{Project: project, Key: "k"})
	f.ok(err)
	f.is(byKey.ID, first.ID, "a deleted connection by its key")
	got, created, err = f.s.CreateConnection(f.ctx, n)
	f.ok(err)
	f.is([]any{got.ID, created}, []any{first.ID, false}, "the key of a deleted connection stays bound")
	// No key binds nothing.
	for range 2 {
		f.connect(store.Connection{})
	}
}

func connectionCredential(f *fixture) {
	sealed := store.Sealed{Version: 1, KeyID: "key", Data: []byte("sealed"), Fingerprint: "abcd", Expires: start.Add(time.Hour)}
	conn, _, err := f.s.CreateConnection(f.ctx, store.NewConnection{
		Connection: store.Connection{
			ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed, Settings: []byte("settings"), AccountIdentity: "ann",
		}, Sealed: &sealed,
	})
	f.ok(err)
	f.is([]any{conn.CredentialVersion, conn.CredentialFingerprint, conn.CredentialExpires}, []any{1, "abcd", sealed.Expires}, "credential")
	got, err := f.s.Credential(f.ctx, conn.ID)
	f.ok(err)
	sealed.For = store.SealedFor{Project: project, Connector: "fake", Settings: []byte("settings"), AccountIdentity: "ann"}
	f.is(got, sealed, "sealed")
	_, err = f.s.Credential(f.ctx, f.conn.ID)
	f.fails(err, store.ErrNotFound)
}

func connectionPages(f *fixture) {
	want := []job.ID{f.conn.ID}
	for i := range 6 {
		if i%2 == 0 {
			f.clock.advance(time.Second)
		}
		want = append(want, f.connect(store.Connection{}).ID)
	}
	f.connect(store.Connection{Project: "other"})
	slices.Reverse(want)
	for _, size := range []int{1, 2, 3, 7, 100} {
		var got []job.ID
		var after job.ID
		for {
			page, err := f.s.ListConnections(f.ctx, store.ConnectionQuery{Project: project, After: after, Limit: size})
			f.ok(err)
			for _, c := range page.Connections {
				got = append(got, c.ID)
			}
			if page.Next.IsZero() {
				break
			}
			f.is(page.Next, got[len(got)-1], "where a page of %d ends", size)
			after = page.Next
		}
		f.is(got, want, "pages of %d", size)
	}
}

func connectionNotFound(f *fixture) {
	_, err := f.s.Connection(f.ctx, store.Ref{Project: project, ID: f.id()})
	f.fails(err, store.ErrNotFound)
	_, err = f.s.Connection(f.ctx, store.Ref{Project: project, Key: "none"})
	f.fails(err, store.ErrNotFound)
	got, err := f.s.Connection(f.ctx, store.Ref{ID: f.conn.ID})
	f.ok(err)
	f.is(got, f.conn, "any project")
}

func connectionMeta(f *fixture) {
	m, err := f.s.Meta(f.ctx)
	f.ok(err)
	f.is(m.StoreID.IsZero(), false, "no store id")
	f.is(m.Engine == "", false, "no engine")
	f.is(m.Created, start, "created")
	f.is(m.Quarantined, "", "quarantined")
	f.ok(f.s.Release(f.ctx))
}
