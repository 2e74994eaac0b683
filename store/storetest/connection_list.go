package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var connectionListTests = []test{
	{"each filter", listsByFilter},
	{"labels that change", listsRelabeled},
	{"states", listsByState},
	{"a page ends where its scan does", listsScan},
	{"a text with NUL", listsByNUL},
}

// listed reads all pages of a query.
func (f *fixture) listed(q store.ConnectionQuery) []job.ID {
	f.Helper()
	var ids []job.ID
	q.Project = project
	for range 100 {
		page, err := f.s.ListConnections(f.ctx, q)
		f.ok(err)
		for _, c := range page.Connections {
			ids = append(ids, c.ID)
		}
		if q.After = page.Next; q.After.IsZero() {
			return ids
		}
	}
	f.Fatal("the list has no end")
	return nil
}

// listsByNUL checks that a text that a database cannot store is no bug of the caller: it matches
// nothing, or fails with ErrBadText.
func listsByNUL(f *fixture) {
	page, err := f.s.ListConnections(f.ctx, store.ConnectionQuery{Project: project, AccountIdentity: "a\x00b"})
	if len(page.Connections) > 0 || err != nil && !errors.Is(err, store.ErrBadText) {
		f.Errorf("%d connections, %v", len(page.Connections), err)
	}
}

func listsByFilter(f *fixture) {
	expires := store.Sealed{Version: 1, KeyID: "key", Data: []byte("sealed"), Expires: start.Add(time.Hour)}
	made := make(map[string]job.ID)
	for _, n := range []store.NewConnection{
		{Key: "user-41", Connection: store.Connection{Connector: "mastodon", DisplayName: "Ann's", AccountIdentity: "@ann", Labels: map[string]string{"user": "41", "plan": "free"}}},
		{Key: "user-42", Connection: store.Connection{Connector: "x", DisplayName: "Bob's", AccountIdentity: "@bob", Labels: map[string]string{"user": "42", "plan": "free"}}, Sealed: &expires},
		{Key: "user-43", Connection: store.Connection{Connector: "slack", AccountIdentity: "@ann", Labels: map[string]string{"user": "43", "plan": "paid"}}},
		{Key: "100%_", Connection: store.Connection{Connector: "x", DisplayName: "Ärger", Labels: map[string]string{"plan": ""}}},
	} {
		n.Connection.ID, n.Connection.Project, n.Connection.Class = f.id(), project, job.Opaque
		c, _, err := f.s.CreateConnection(f.ctx, n)
		f.ok(err)
		made[n.Key] = c.ID
		n.Connection.ID, n.Connection.Project = f.id(), "other"
		_, _, err = f.s.CreateConnection(f.ctx, n)
		f.ok(err)
	}
	free := map[string]string{"plan": "free"}
	for name, tt := range map[string]struct {
		q    store.ConnectionQuery
		want []string // newest first
	}{
		"a connector":             {store.ConnectionQuery{Connectors: []string{"x"}}, []string{"100%_", "user-42"}},
		"connectors":              {store.ConnectionQuery{Connectors: []string{"x", "slack"}}, []string{"100%_", "user-43", "user-42"}},
		"a label":                 {store.ConnectionQuery{Labels: free}, []string{"user-42", "user-41"}},
		"labels":                  {store.ConnectionQuery{Labels: map[string]string{"plan": "free", "user": "41"}}, []string{"user-41"}},
		"labels of nothing":       {store.ConnectionQuery{Labels: map[string]string{"plan": "paid", "user": "41"}}, nil},
		"an empty label":          {store.ConnectionQuery{Labels: map[string]string{"plan": ""}}, []string{"100%_"}},
		"a label and a connector": {store.ConnectionQuery{Labels: free, Connectors: []string{"x"}}, []string{"user-42"}},
		"an account":              {store.ConnectionQuery{AccountIdentity: "@ann"}, []string{"user-43", "user-41"}},
		"an account and a label":  {store.ConnectionQuery{AccountIdentity: "@ann", Labels: free}, []string{"user-41"}},
		"ids":                     {store.ConnectionQuery{Connections: []job.ID{made["user-41"], made["user-43"], {1}}}, []string{"user-43", "user-41"}},
		"ids and an account":      {store.ConnectionQuery{Connections: []job.ID{made["user-41"], made["user-42"]}, AccountIdentity: "@ann"}, []string{"user-41"}},
		"keys":                    {store.ConnectionQuery{Keys: []string{"user-41", "user-42", "", "none"}}, []string{"user-42", "user-41"}},
		"ids and keys":            {store.ConnectionQuery{Keys: []string{"user-41", "user-42"}, Connections: []job.ID{made["user-41"]}}, []string{"user-41"}},
		"a text in names":         {store.ConnectionQuery{Text: "ANN'S"}, []string{"user-41"}},
		"a text in accounts":      {store.ConnectionQuery{Text: "@A"}, []string{"user-43", "user-41"}},
		"a text in keys":          {store.ConnectionQuery{Text: "%_"}, []string{"100%_"}},
		"of letters A to Z":       {store.ConnectionQuery{Text: "ärger"}, nil},
		"the end of a credential": {store.ConnectionQuery{ExpiresBefore: expires.Expires}, nil},
		"and later":               {store.ConnectionQuery{ExpiresBefore: expires.Expires.Add(time.Microsecond)}, []string{"user-42"}},
	} {
		var want []job.ID
		for _, key := range tt.want {
			want = append(want, made[key])
		}
		for _, size := range []int{1, 2, 100} {
			tt.q.Limit = size
			f.is(f.listed(tt.q), want, "%s, in pages of %d", name, size)
		}
	}
}

func listsRelabeled(f *fixture) {
	query := func(value string) store.ConnectionQuery {
		return store.ConnectionQuery{Labels: map[string]string{"plan": value}}
	}
	conn := f.connect(store.Connection{Labels: map[string]string{"plan": "free", "user": "42"}})
	f.revise(conn, store.ConnectionChange{DisplayName: ptr("Ann")})
	f.is(f.listed(query("free")), []job.ID{conn.ID}, "after another change")
	f.revise(conn, store.ConnectionChange{Labels: map[string]string{"plan": "paid"}})
	f.is(f.listed(query("free")), []job.ID(nil), "the old label")
	f.is(f.listed(query("paid")), []job.ID{conn.ID}, "the new label")
	f.is(f.listed(store.ConnectionQuery{Labels: map[string]string{"user": "42"}}), []job.ID(nil), "a label that is gone")
	f.revise(conn, store.ConnectionChange{Labels: map[string]string{}})
	f.is(f.listed(query("paid")), []job.ID(nil), "without labels")
}

func listsByState(f *fixture) {
	paused, limited, held := f.connect(store.Connection{}), f.connect(store.Connection{}), f.connect(store.Connection{})
	gone := f.connect(store.Connection{})
	f.revise(gone, store.ConnectionChange{Delete: true})
	f.revise(paused, store.ConnectionChange{Pause: ptr("")})
	f.submit(on(limited))
	f.holdIt(job.FailRateLimited, 0)
	// More than one hold of a connection lists it once.
	for _, account := range []string{"a", "b"} {
		f.submit(on(held), holding(account))
		f.holdIt(job.FailAuth, 0)
	}
	f.revise(held, store.ConnectionChange{Pause: ptr("")}) // the hold is graver
	of := map[store.ConnectionState]job.ID{
		store.ConnectionActive: f.conn.ID, store.ConnectionPaused: paused.ID, store.ConnectionAuthHold: held.ID,
		store.ConnectionRateLimited: limited.ID, store.ConnectionDeleted: gone.ID,
	}
	m, err := f.s.Meta(f.ctx)
	f.ok(err)
	f.is(m.Quarantined, "", "quarantined")
	for state, want := range of {
		f.is(f.listed(store.ConnectionQuery{States: []store.ConnectionState{state}}), []job.ID{want}, "state %d", state)
	}
	both := store.ConnectionQuery{States: []store.ConnectionState{store.ConnectionPaused, store.ConnectionAuthHold}, Limit: 1}
	f.is(f.listed(both), []job.ID{held.ID, paused.ID}, "two states")
	all := []job.ID{held.ID, limited.ID, paused.ID, f.conn.ID}
	f.is(f.listed(store.ConnectionQuery{}), all, "all but the deleted")
	f.is(f.listed(store.ConnectionQuery{Deleted: true}), slices.Concat([]job.ID{gone.ID}, all), "all")
	needy := store.ConnectionQuery{States: []store.ConnectionState{store.ConnectionAuthHold}, CredentialRequired: []string{f.conn.Connector}}
	var without []job.ID
	for _, id := range all {
		if c := f.connection(id); id == held.ID || c.CredentialVersion == 0 && c.Connector == f.conn.Connector {
			without = append(without, id)
		}
	}
	f.is(len(without) > 1, true, "connections without a credential")
	f.is(f.listed(needy), without, "held, or without a credential")
}

func listsScan(f *fixture) {
	var want []job.ID
	for i := range 7 {
		c := f.connect(store.Connection{DisplayName: []string{"odd", "even"}[i%2], Labels: map[string]string{"a": "b"}})
		if i%2 == 0 {
			want = append(want, c.ID)
		}
	}
	slices.Reverse(want)
	for _, labels := range []map[string]string{nil, {"a": "b"}} {
		q := store.ConnectionQuery{Project: project, Text: "odd", Labels: labels, Scan: 2}
		page, err := f.s.ListConnections(f.ctx, q)
		f.ok(err)
		f.is(len(page.Connections), 1, "connections of a scan of two")
		f.is(page.Next.IsZero() || page.Next == page.Connections[0].ID, false, "the page ends after the connection that was met last")
		for scan := range 9 {
			q.Scan = scan
			f.is(f.listed(q), want, "scans of %d", scan)
		}
		q.Text, q.Scan = "nothing", 2
		page, err = f.s.ListConnections(f.ctx, q)
		f.ok(err)
		f.is([]any{len(page.Connections), page.Next.IsZero()}, []any{0, false}, "an empty page that is not the last")
		f.is(f.listed(q), []job.ID(nil), "nothing")
	}
}
