package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
)

// safe makes a vault of keys, the first one first.
func safe(t *testing.T, fills ...byte) *vault.Vault {
	t.Helper()
	var keys [][]byte
	for _, fill := range fills {
		keys = append(keys, bytes.Repeat([]byte{fill}, 32))
	}
	v, err := vault.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sealedStore is a store with credentials under a key.
func sealedStore(t *testing.T, n int, with *vault.Vault) store.Store {
	t.Helper()
	db := memory.Open(memory.Options{})
	for i := range n {
		conn := store.Connection{
			ID: idOf(i), Project: "p", Connector: "fake", Class: job.Keyed, Settings: []byte("settings"), AccountIdentity: "ann",
		}
		sealed, err := seal.Credential(with, conn, 1, []byte("secret"))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = db.CreateConnection(t.Context(), store.NewConnection{Connection: conn, Sealed: sealed})
		if err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// opens counts the credentials that a vault opens, of n.
func opens(t *testing.T, db store.Store, n int, v *vault.Vault) (open int) {
	t.Helper()
	for i := range n {
		s, err := db.Credential(t.Context(), idOf(i))
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Open(s.Data, s.KeyID, seal.Binding(idOf(i), s.Version, s.For))
		if err == nil && string(got) == "secret" {
			open++
		}
	}
	return open
}

func idOf(i int) (id job.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(i+1))
	return id
}

// meddling is a store in which something happens before a write.
type meddling struct {
	store.Store
	before func(call int, items []store.Reseal) error
	calls  int
}

func (m *meddling) Reseal(ctx context.Context, items []store.Reseal) ([]bool, error) {
	m.calls++
	if err := m.before(m.calls, items); err != nil {
		return nil, err
	}
	return m.Store.Reseal(ctx, items)
}

// resealPage is the default number of credentials in one page of a rotation.
const resealPage = 100

// direct answers as a server would.
func direct(t *testing.T, db store.Store, v *vault.Vault) access {
	t.Helper()
	a, err := server.Direct(t.Context(), db, v)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func quiet(int, []store.Reseal) error { return nil }

// TestReseal: all credentials come under the first key, in bounded batches, and a
// second run finds nothing to do.
func TestReseal(t *testing.T) {
	const n = 2*resealPage + 50
	old, both, young := safe(t, 1), safe(t, 2, 1), safe(t, 2)
	db := &meddling{Store: sealedStore(t, n, old), before: func(_ int, items []store.Reseal) error {
		if len(items) > resealPage {
			t.Errorf("a batch of %d", len(items))
		}
		return nil
	}}
	for _, want := range []int{n, 0} {
		r, err := reseal(t.Context(), direct(t, db, both))
		if err != nil || r.done != want || r.changed != 0 || len(r.failed) != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if got := opens(t, db, n, young); got != n || db.calls != 3 {
		t.Errorf("the new key opens %d of %d, after %d writes", got, n, db.calls)
	}
}

// TestResealGoesOn: what was done before a failure is done.
func TestResealGoesOn(t *testing.T) {
	const n = 3 * resealPage
	broken := errors.New("gone")
	db := &meddling{Store: sealedStore(t, n, safe(t, 1))}
	db.before = func(call int, _ []store.Reseal) error {
		if call == 2 {
			return broken
		}
		return nil
	}
	r, err := reseal(t.Context(), direct(t, db, safe(t, 2, 1)))
	if !errors.Is(err, broken) || r.done != resealPage {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := opens(t, db, n, safe(t, 2, 1)); got != n {
		t.Errorf("both keys open %d of %d in between", got, n)
	}
	r, err = reseal(t.Context(), direct(t, db, safe(t, 2, 1)))
	if err != nil || r.done != n-resealPage || opens(t, db, n, safe(t, 2)) != n {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestResealMeetsChanges: what another process seals again meanwhile is not overwritten, and is
// sealed in the next pass; a credential that does not open fails no other.
func TestResealMeetsChanges(t *testing.T) {
	const n = 5
	both := safe(t, 2, 1)
	db := &meddling{Store: sealedStore(t, n, safe(t, 1))}
	db.before = func(call int, items []store.Reseal) error {
		if call > 1 {
			return nil
		}
		// Another credential under the same version would be one with other bytes.
		at := items[3].Old
		data, err := safe(t, 1).Seal([]byte("secret"), seal.Binding(at.Connection, at.Version, at.For))
		if err != nil {
			return err
		}
		_, err = db.Store.Reseal(t.Context(), []store.Reseal{{Old: at, KeyID: at.KeyID, Data: data}})
		return err
	}
	r, err := reseal(t.Context(), direct(t, db, both))
	if err != nil || r.done != n || r.changed != 0 || opens(t, db, n, safe(t, 2)) != n {
		t.Fatalf("%+v, %v", r, err)
	}

	// One is under an unknown key, one is damaged.
	broken := sealedStore(t, n, safe(t, 1))
	all, err := broken.CredentialsOfOthers(t.Context(), "", store.SealedPlace{}, n)
	if err != nil {
		t.Fatal(err)
	}
	for i, to := range []store.Reseal{
		{Old: all[1], KeyID: safe(t, 9).KeyID(), Data: all[1].Data}, {Old: all[2], KeyID: all[2].KeyID, Data: []byte("damaged")},
	} {
		if done, err := broken.Reseal(t.Context(), []store.Reseal{to}); err != nil || !done[0] {
			t.Fatal(i, err)
		}
	}
	r, err = reseal(t.Context(), direct(t, &meddling{Store: broken, before: quiet}, both))
	if err != nil || r.done != n-2 || len(r.failed) != 2 || r.failed[0] != all[1].Connection.String() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestParseLifetime(t *testing.T) {
	for text, hours := range map[string]float64{"90d": 2160, "12h": 12, "1h30m": 1.5, "36500d": 876000} {
		if got, err := parseLifetime(text); err != nil || got.Hours() != hours {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "0d", "-1d", "d", "1", "soon", "1.5d", "36501d", "99999999999999999999d", "1ms", "-1h"} {
		if got, err := parseLifetime(text); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}
