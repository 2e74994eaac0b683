package seal_test

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// TestBindingVectors holds what seals are bound to. internal/vault has the vector of its
// encoding.
func TestBindingVectors(t *testing.T) {
	conn := job.ID{1, 2, 3}
	got := seal.Binding(conn, 7, store.SealedFor{
		Project: "default", Connector: "mastodon", Settings: []byte("s"), AccountIdentity: "ann",
	})
	want := vault.Binding{Project: "default", Connection: conn, Version: 7, Connector: "mastodon", Settings: []byte("s"), Identity: "ann"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a credential: %+v, want %+v", got, want)
	}
	got = seal.Login(store.Login{
		State: []byte("0123456789abcdef0123456789abcdef"), Project: "default", Actor: "key:1", App: "x",
		Target: []byte{9}, RedirectURL: "https://a.example/cb", ReturnURL: "https://b.example",
	})
	settings, err := hex.DecodeString("20" + "3031323334353637383961626364656630313233343536373839616263646566" + "056b65793a31" + "0178" + "0109" +
		"1468747470733a2f2f612e6578616d706c652f6362" + "1168747470733a2f2f622e6578616d706c65")
	if err != nil {
		t.Fatal(err)
	}
	want = vault.Binding{Project: "default", Connection: job.ID([]byte("0123456789abcdef")), Connector: "oauth login", Settings: settings}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a login: %+v, settings %x", got, got.Settings)
	}
}

// TestExplainVectors holds the texts that waiting jobs store.
func TestExplainVectors(t *testing.T) {
	for err, want := range map[error]string{
		vault.ErrKeyID: "This server does not have the key that seals this connection's credential. Its operator has to add it to the key file.",
		vault.ErrSealed: "The seal of this connection's credential does not fit the connection: its project, connector, settings, account or " +
			"credential were changed in the database. Nothing is sent. Its operator has to restore the row, or make a new connection.",
		errors.New("another"): "This server cannot open this connection's credential. Its operator finds the cause in the log.",
	} {
		if got := seal.Explain(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
