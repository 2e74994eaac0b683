package storetest

import (
	"bytes"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var keyTests = []test{
	{"use of the keys that seal", keyUse},
	{"use of the keys that seal, by logins", keyUseByLogins},
	{"credentials of other keys", keyOthers},
	{"a new seal", keyReseal},
	{"a new seal meets another one", keyResealRace},
	{"too many new seals", keyResealLimit},
	{"API keys", apiKeyStores},
	{"API keys and projects", apiKeyProjects},
	{"API keys: pages", apiKeyPages},
	{"projects", projectPages},
	{"API keys: an end", apiKeyEnds},
	{"API keys: last use", apiKeyTouched},
	{"API keys: refused", apiKeyRefused},
	{"API keys: names of live keys", apiKeyNames},
	{"API keys: one name at the same time", apiKeyNameRace},
}

// sealedWith stores a connection whose credential a key seals.
func (f *fixture) sealedWith(key, data string) store.Connection {
	f.Helper()
	conn, _, err := f.s.CreateConnection(f.ctx, store.NewConnection{
		Connection: store.Connection{
			ID: f.id(), Project: project, Connector: "fake", Class: job.Keyed, Settings: []byte("settings"), AccountIdentity: "ann",
		},
		Sealed: &store.Sealed{Version: 1, KeyID: key, Data: []byte(data), Fingerprint: "abcd"},
	})
	f.ok(err)
	return conn
}

func keyUse(f *fixture) {
	got, err := f.s.KeyUse(f.ctx)
	f.ok(err)
	f.is(len(got), 0, "keys in use")
	for _, key := range []string{"b", "a", "b"} {
		f.sealedWith(key, "sealed")
	}
	got, err = f.s.KeyUse(f.ctx)
	f.ok(err)
	f.is(got, []store.KeyUse{{KeyID: "a", Credentials: 1}, {KeyID: "b", Credentials: 2}}, "use")
}

// keyUseByLogins: a login counts until it is completed or expires.
func keyUseByLogins(f *fixture) {
	use := func(want ...store.KeyUse) {
		f.Helper()
		got, err := f.s.KeyUse(f.ctx)
		f.ok(err)
		f.is(got, want, "use")
	}
	by := func(key string) store.Login {
		f.Helper()
		l := f.login(func(l *store.Login) { l.KeyID = key })
		f.clock.advance(time.Minute)
		return l
	}
	f.sealedWith("a", "sealed")
	by("c")
	by("a")
	last := by("c")
	use(store.KeyUse{KeyID: "a", Credentials: 1, Logins: 1}, store.KeyUse{KeyID: "c", Logins: 2})
	f.clock.advance(7*time.Minute - time.Microsecond)
	use(store.KeyUse{KeyID: "a", Credentials: 1, Logins: 1}, store.KeyUse{KeyID: "c", Logins: 2})
	f.clock.advance(time.Microsecond) // the first one's time is over
	use(store.KeyUse{KeyID: "a", Credentials: 1, Logins: 1}, store.KeyUse{KeyID: "c", Logins: 1})
	_, err := f.s.TakeLogin(f.ctx, "", last.State)
	f.ok(err)
	use(store.KeyUse{KeyID: "a", Credentials: 1, Logins: 1})
	f.clock.advance(time.Minute)
	use(store.KeyUse{KeyID: "a", Credentials: 1})
	keys, err := f.s.CredentialKeys(f.ctx)
	f.ok(err)
	f.is(keys, []string{"a"}, "keys that credentials need")
}

func keyOthers(f *fixture) {
	var want []store.SealedAt
	for i := range 5 {
		key := "old"
		if i == 2 {
			key = "new"
		}
		data := fmt.Sprint("sealed ", i)
		conn := f.sealedWith(key, data)
		if key == "old" {
			want = append(want, store.SealedAt{
				SealedPlace: store.SealedPlace{Connection: conn.ID, Version: 1}, For: conn.SealedFor(), KeyID: key, Data: []byte(data),
			})
		}
	}
	for _, size := range []int{1, 2, 3, 10} {
		var got []store.SealedAt
		var after store.SealedPlace
		for {
			page, err := f.s.CredentialsOfOthers(f.ctx, "new", after, size)
			f.ok(err)
			f.is(len(page) <= size, true, "page of %d", len(page))
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = got[len(got)-1].SealedPlace
		}
		f.is(got, want, "pages of %d", size)
	}
}

func keyReseal(f *fixture) {
	conn := f.sealedWith("old", "sealed")
	before, err := f.s.Connection(f.ctx, store.Ref{Project: project, ID: conn.ID})
	f.ok(err)
	old, err := f.s.CredentialsOfOthers(f.ctx, "new", store.SealedPlace{}, 10)
	f.ok(err)
	f.clock.advance(time.Second)
	done, err := f.s.Reseal(f.ctx, []store.Reseal{{Old: old[0], KeyID: "new", Data: []byte("sealed anew")}})
	f.ok(err)
	f.is(done, []bool{true}, "done")
	got, err := f.s.Credential(f.ctx, conn.ID)
	f.ok(err)
	f.is(got, store.Sealed{Version: 1, KeyID: "new", Data: []byte("sealed anew"), Fingerprint: "abcd", For: got.For}, "credential")
	after, err := f.s.Connection(f.ctx, store.Ref{Project: project, ID: conn.ID})
	f.ok(err)
	f.is(after, before, "connection")
	keys, err := f.s.CredentialKeys(f.ctx)
	f.ok(err)
	f.is(keys, []string{"new"}, "keys in use")
}

// keyResealRace: a credential that has changed since it was read is left alone, and fails no
// other.
func keyResealRace(f *fixture) {
	f.sealedWith("old", "one")
	f.sealedWith("old", "two")
	old, err := f.s.CredentialsOfOthers(f.ctx, "new", store.SealedPlace{}, 10)
	f.ok(err)
	done, err := f.s.Reseal(f.ctx, []store.Reseal{{Old: old[0], KeyID: "newer", Data: []byte("first")}})
	f.ok(err)
	f.is(done, []bool{true}, "the first")
	items := []store.Reseal{
		{Old: old[0], KeyID: "new", Data: []byte("late")},
		{Old: old[1], KeyID: "new", Data: []byte("second")},
	}
	for i, edit := range []func(*store.SealedAt){
		func(s *store.SealedAt) { s.Version++ },
		func(s *store.SealedAt) { s.Connection = f.id() },
		func(s *store.SealedAt) { s.KeyID = "other" },
		func(s *store.SealedAt) { s.Data = []byte("other") },
	} {
		items = append(items, store.Reseal{Old: old[1], KeyID: "new", Data: []byte(fmt.Sprint("wrong ", i))})
		edit(&items[len(items)-1].Old)
	}
	items[1], items[5] = items[5], items[1] // the good one comes last
	done, err = f.s.Reseal(f.ctx, items)
	f.ok(err)
	f.is(done, []bool{false, false, false, false, false, true}, "done")
	for i, want := range []store.Sealed{
		{Version: 1, KeyID: "newer", Data: []byte("first"), Fingerprint: "abcd"},
		{Version: 1, KeyID: "new", Data: []byte("second"), Fingerprint: "abcd"},
	} {
		got, err := f.s.Credential(f.ctx, old[i].Connection)
		f.ok(err)
		want.For = old[i].For
		f.is(got, want, "credential %d", i)
	}
}

func keyResealLimit(f *fixture) {
	_, err := f.s.Reseal(f.ctx, make([]store.Reseal, store.MaxBatch+1))
	f.fails(err, store.ErrIllegal)
}

// newKey is a good API key of the default project.
func newKey(id string, edit ...func(*store.NewAPIKey)) store.NewAPIKey {
	k := store.NewAPIKey{
		ID: id, Project: project, Name: "name of " + id, Hash: bytes.Repeat([]byte(id[:1]), 32), Scopes: []string{"jobs:read", "jobs:write"},
	}
	for _, e := range edit {
		e(&k)
	}
	return k
}

func apiKeyStores(f *fixture) {
	got, err := f.s.CreateAPIKey(f.ctx, newKey("a", func(k *store.NewAPIKey) { k.Lifetime = time.Hour }))
	f.ok(err)
	want := store.APIKey{
		ID: "a", Project: project, Name: "name of a", Hash: bytes.Repeat([]byte("a"), 32),
		Scopes: []string{"jobs:read", "jobs:write"}, Created: start, Expires: start.Add(time.Hour), Now: start,
	}
	f.is(got, want, "key")
	f.clock.advance(time.Minute)
	want.Now = start.Add(time.Minute)
	got, err = f.s.APIKey(f.ctx, "a")
	f.ok(err)
	f.is(got, want, "key read back")
	bare, err := f.s.CreateAPIKey(f.ctx, newKey("b"))
	f.ok(err)
	f.is(bare.Expires, time.Time{}, "an end")
	_, err = f.s.APIKey(f.ctx, "c")
	f.fails(err, store.ErrNotFound)
}

func apiKeyProjects(f *fixture) {
	in := func(p string, anew bool) func(*store.NewAPIKey) {
		return func(k *store.NewAPIKey) { k.Project, k.NewProject = p, anew }
	}
	_, err := f.s.CreateAPIKey(f.ctx, newKey("a", in("other", false)))
	f.fails(err, store.ErrNotFound)
	_, err = f.s.APIKey(f.ctx, "a")
	f.fails(err, store.ErrNotFound)
	for i, k := range []store.NewAPIKey{
		newKey("a", in("other", true)), newKey("b", in("other", true)), newKey("c", in("other", false)), newKey("d", in(project, true)),
	} {
		got, err := f.s.CreateAPIKey(f.ctx, k)
		f.ok(err)
		f.is(got.Project, k.Project, "project of key %d", i)
	}
}

func apiKeyPages(f *fixture) {
	for _, id := range []string{"d", "b", "e", "a", "c"} {
		_, err := f.s.CreateAPIKey(f.ctx, newKey(id, func(k *store.NewAPIKey) {
			if id == "b" || id == "e" {
				k.Project, k.NewProject = "other", true
			}
		}))
		f.ok(err)
	}
	_, err := f.s.RevokeAPIKey(f.ctx, "c")
	f.ok(err)
	for p, want := range map[string]string{"": "abcde", project: "acd", "other": "be", "none": ""} {
		for _, size := range []int{1, 2, 10} {
			got, after := "", ""
			for {
				page, err := f.s.ListAPIKeys(f.ctx, p, after, size)
				f.ok(err)
				f.is(len(page) <= size, true, "page of %d", len(page))
				if len(page) == 0 {
					break
				}
				for _, k := range page {
					got += k.ID
				}
				after = page[len(page)-1].ID
			}
			f.is(got, want, "project %q in pages of %d", p, size)
		}
	}
}

func projectPages(f *fixture) {
	f.clock.advance(time.Hour)
	f.apiKey("other")
	f.apiKey("another")
	f.apiKey("other")
	for _, size := range []int{1, 2, 10} {
		var got []string
		after := ""
		for {
			page, err := f.s.Projects(f.ctx, after, size)
			f.ok(err)
			f.is(len(page) <= size, true, "page of %d", len(page))
			if len(page) == 0 {
				break
			}
			for _, p := range page {
				got = append(got, p.ID)
				f.is(p.Erased.IsZero() && p.ErasedBy == "", true, "%s was not erased", p.ID)
				f.is(p.ID == "default" || p.Created.Equal(start.Add(time.Hour)), true, "%s was created %v", p.ID, p.Created)
			}
			after = page[len(page)-1].ID
		}
		f.is(got, []string{"another", "default", "other"}, "projects in pages of %d", size)
	}
}

func apiKeyEnds(f *fixture) {
	k, err := f.s.CreateAPIKey(f.ctx, newKey("a", func(k *store.NewAPIKey) { k.Lifetime = time.Hour }))
	f.ok(err)
	f.is(k.Live(), true, "live")
	f.clock.advance(time.Hour - time.Microsecond)
	k, err = f.s.APIKey(f.ctx, "a")
	f.ok(err)
	f.is(k.Live(), true, "live just before its end")
	f.clock.advance(time.Microsecond)
	k, err = f.s.APIKey(f.ctx, "a")
	f.ok(err)
	f.is(k.Live(), false, "live at its end")

	_, err = f.s.CreateAPIKey(f.ctx, newKey("b"))
	f.ok(err)
	revoked := start.Add(time.Hour)
	for range 2 { // the first time stays
		k, err = f.s.RevokeAPIKey(f.ctx, "b")
		f.ok(err)
		f.is([]any{k.Revoked, k.Live()}, []any{revoked, false}, "revoked")
		f.clock.advance(time.Second)
	}
	k, err = f.s.APIKey(f.ctx, "b")
	f.ok(err)
	f.is(k.Revoked, revoked, "revoked, read back")
	_, err = f.s.RevokeAPIKey(f.ctx, "c")
	f.fails(err, store.ErrNotFound)
}

func apiKeyTouched(f *fixture) {
	_, err := f.s.CreateAPIKey(f.ctx, newKey("a"))
	f.ok(err)
	touch := func(id string, want bool) {
		f.Helper()
		did, err := f.s.TouchAPIKey(f.ctx, id, time.Minute)
		f.ok(err)
		f.is(did, want, "noted")
	}
	used := func(want time.Time) {
		f.Helper()
		k, err := f.s.APIKey(f.ctx, "a")
		f.ok(err)
		f.is(k.LastUsed, want, "last use")
	}
	used(time.Time{})
	touch("a", true)
	touch("a", false)
	used(start)
	f.clock.advance(time.Minute - time.Microsecond)
	touch("a", false)
	used(start)
	f.clock.advance(time.Microsecond)
	touch("a", true)
	used(start.Add(time.Minute))
	touch("none", false)
}

func apiKeyNames(f *fixture) {
	named := func(id, name string, edit ...func(*store.NewAPIKey)) error {
		_, err := f.s.CreateAPIKey(f.ctx, newKey(id, append(edit, func(k *store.NewAPIKey) { k.Name = name })...))
		return err
	}
	f.ok(named("a", "shop"))
	f.fails(named("b", "shop"), store.ErrNameTaken)
	_, err := f.s.APIKey(f.ctx, "b")
	f.fails(err, store.ErrNotFound)
	f.ok(named("c", "Shop"))
	f.ok(named("d", "shop", func(k *store.NewAPIKey) { k.Project, k.NewProject = "other", true }))
	f.ok(named("e", ""))
	f.ok(named("f", ""))
	_, err = f.s.RevokeAPIKey(f.ctx, "a")
	f.ok(err)
	f.ok(named("g", "shop", func(k *store.NewAPIKey) { k.Lifetime = time.Hour }))
	f.clock.advance(time.Hour - time.Microsecond)
	f.fails(named("h", "shop"), store.ErrNameTaken)
	f.clock.advance(time.Microsecond) // it is over
	f.ok(named("h", "shop"))
}

func apiKeyNameRace(f *fixture) {
	const callers = 8
	errs := make(chan error, callers)
	for i := range callers {
		go func() {
			_, err := f.s.CreateAPIKey(f.ctx, newKey(string(rune('a'+i)), func(k *store.NewAPIKey) { k.Name = "shop" }))
			errs <- err
		}()
	}
	won := 0
	for range callers {
		if err := <-errs; err == nil {
			won++
		} else {
			f.fails(err, store.ErrNameTaken)
		}
	}
	f.is(won, 1, "keys with one name")
}

func apiKeyRefused(f *fixture) {
	_, err := f.s.CreateAPIKey(f.ctx, newKey("a"))
	f.ok(err)
	for what, edit := range map[string]func(*store.NewAPIKey){
		"an id that is taken": func(k *store.NewAPIKey) { k.Name = "another" },
		"no id":               func(k *store.NewAPIKey) { k.ID, k.Name = "", "another" },
		"a hash too short":    func(k *store.NewAPIKey) { k.ID, k.Name, k.Hash = "b", "another", []byte("short") },
	} {
		if _, err := f.s.CreateAPIKey(f.ctx, newKey("a", edit)); err == nil {
			f.Errorf("%s was taken", what)
		} else {
			f.fails(err, store.ErrIllegal)
		}
	}
	got, err := f.s.APIKey(f.ctx, "a")
	f.ok(err)
	f.is(got.Name, "name of a", "name")
}
