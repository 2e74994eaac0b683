package storetest

import (
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// changeSeal: what a credential is sealed for changes together with its seal, or not at all.
func changeSeal(f *fixture) {
	conn := f.sealedWith("old", "sealed")
	before, err := f.s.Credential(f.ctx, conn.ID)
	f.ok(err)
	target := &store.ConnectionTarget{Settings: []byte("elsewhere"), Class: conn.Class}
	seal := &store.Seal{KeyID: "new", Data: []byte("sealed for it")}
	refused := func(name string, c store.ConnectionChange) {
		f.Helper()
		c.Project, c.ID, c.Version = project, conn.ID, conn.Version
		_, err := f.s.ChangeConnection(f.ctx, c)
		f.fails(err, store.ErrIllegal)
		f.is(f.connection(conn.ID), conn, "connection after %s", name)
		got, err := f.s.Credential(f.ctx, conn.ID)
		f.ok(err)
		f.is(got, before, "credential after %s", name)
	}
	refused("settings without a seal", store.ConnectionChange{Target: target})
	refused("an identity without a seal", store.ConnectionChange{Identity: ptr("eve")})
	refused("a seal and a credential", store.ConnectionChange{Seal: seal, Credential: sealedNext(conn, "k")})
	refused("a seal and a delete", store.ConnectionChange{Seal: seal, Delete: true})

	// Settings that stay as they are need none.
	conn = f.revise(conn, store.ConnectionChange{Target: &store.ConnectionTarget{Settings: conn.Settings, Class: job.Opaque}})
	conn = f.revise(conn, store.ConnectionChange{Target: target, Identity: ptr("bob"), Seal: seal})
	got, err := f.s.Credential(f.ctx, conn.ID)
	f.ok(err)
	want := before
	want.KeyID, want.Data, want.For = "new", []byte("sealed for it"), conn.SealedFor()
	f.is(got, want, "credential")
	f.is([]any{conn.CredentialVersion, string(conn.Settings), conn.AccountIdentity}, []any{1, "elsewhere", "bob"}, "connection")

	// A reseal of what was read before changes nothing.
	done, err := f.s.Reseal(f.ctx, []store.Reseal{{
		Old:   store.SealedAt{SealedPlace: store.SealedPlace{Connection: conn.ID, Version: 1}, KeyID: before.KeyID, Data: before.Data},
		KeyID: "newer", Data: []byte("sealed for the old target"),
	}})
	f.ok(err)
	f.is(done, []bool{false}, "resealed")

	// A new credential has a seal of its own. A connection without one needs none.
	f.revise(conn, store.ConnectionChange{Target: target, Identity: ptr("eve"), Credential: sealedNext(conn, "k")})
	bare := f.connect(store.Connection{})
	_, err = f.s.ChangeConnection(f.ctx, store.ConnectionChange{Project: project, ID: bare.ID, Version: bare.Version, Seal: seal})
	f.fails(err, store.ErrIllegal)
	f.revise(bare, store.ConnectionChange{Target: target, Identity: ptr("eve")})
}
