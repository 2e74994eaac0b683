package seal_test

import (
	"errors"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

func newVault(t *testing.T) *vault.Vault {
	t.Helper()
	v, err := vault.New(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// changes are changes of a row, one field at a time.
var changes = map[string]func(*store.Connection){
	"project":     func(c *store.Connection) { c.Project = "other" },
	"id":          func(c *store.Connection) { c.ID = job.ID{2} },
	"connector":   func(c *store.Connection) { c.Connector = "bluesky" },
	"settings":    func(c *store.Connection) { c.Settings = []byte("https://evil.example") },
	"no settings": func(c *store.Connection) { c.Settings = nil },
	"identity":    func(c *store.Connection) { c.AccountIdentity = "eve" },
}

func home() store.Connection {
	return store.Connection{
		ID: job.ID{1}, Project: "shop", Connector: "mastodon", Settings: []byte("https://home.example"), AccountIdentity: "ann",
	}
}

// TestOpen checks that a credential opens only for the connection for which it was sealed. The
// store's version of the connection distinguishes a change through the API from a change in the
// database.
func TestOpen(t *testing.T) {
	v := newVault(t)
	sealed, err := seal.Credential(v, home(), 3, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	sealed.For = home().SealedFor()
	if got, err := seal.Open(v, home(), *sealed); err != nil || string(got) != "secret" {
		t.Fatalf("%q, %v", got, err)
	}
	for name, change := range changes {
		conn := home()
		change(&conn)
		// The row was changed in the database: the store returns the changed row.
		tampered := *sealed
		tampered.For = conn.SealedFor()
		if _, err := seal.Open(v, conn, tampered); !errors.Is(err, vault.ErrSealed) || errors.Is(err, store.ErrStale) {
			t.Errorf("%s, tampered with: %v", name, err)
		}
		// The caller has an older version of the connection than the store.
		if _, err := seal.Open(v, conn, *sealed); name != "id" && !errors.Is(err, store.ErrStale) {
			t.Errorf("%s, out of date: %v", name, err)
		}
		// The caller's version counts: a changed row has no effect on a caller that does not
		// use it.
		if got, err := seal.Open(v, home(), tampered); err != nil || string(got) != "secret" {
			t.Errorf("%s, not used: %q, %v", name, got, err)
		}
	}
	other := *sealed
	other.Version++
	if _, err := seal.Open(v, home(), other); !errors.Is(err, vault.ErrSealed) {
		t.Errorf("another version: %v", err)
	}
	other = *sealed
	other.KeyID = "0000000000000000"
	if _, err := seal.Open(v, home(), other); !errors.Is(err, vault.ErrKeyID) {
		t.Errorf("another key: %v", err)
	}
}

func TestAgain(t *testing.T) {
	v, conn := newVault(t), home()
	conn.CredentialVersion = 3
	moved := conn
	moved.Settings, moved.AccountIdentity = []byte("https://home.example/"), "ann@home"
	anew, err := seal.Again(v, moved, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	sealed := store.Sealed{Version: 3, KeyID: anew.KeyID, Data: anew.Data, For: moved.SealedFor()}
	if got, err := seal.Open(v, moved, sealed); err != nil || string(got) != "secret" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := seal.Open(v, conn, sealed); !errors.Is(err, store.ErrStale) {
		t.Errorf("for the old target: %v", err)
	}
}

// TestLogin checks that a login's verifier opens only with everything that was stored of the
// login, and never as a connection's credential.
func TestLogin(t *testing.T) {
	v := newVault(t)
	login := func() store.Login {
		return store.Login{
			State: make([]byte, 32), Project: "shop", Actor: "api:key", App: "x", Target: []byte("target"),
			RedirectURL: "https://fireonce.example/back", ReturnURL: "https://app.example/done",
		}
	}
	sealed, err := v.Seal([]byte("verifier"), seal.Login(login()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Open(sealed, v.KeyID(), seal.Login(login())); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*store.Login){
		"state":    func(l *store.Login) { l.State[31] = 1 },
		"project":  func(l *store.Login) { l.Project = "other" },
		"actor":    func(l *store.Login) { l.Actor = "api:other" },
		"app":      func(l *store.Login) { l.App = "evil" },
		"target":   func(l *store.Login) { l.Target = []byte("evil") },
		"redirect": func(l *store.Login) { l.RedirectURL = "https://evil.example" },
		"return":   func(l *store.Login) { l.ReturnURL = "https://evil.example" },
		"shifted":  func(l *store.Login) { l.RedirectURL, l.ReturnURL = l.RedirectURL+"h", l.ReturnURL[1:] },
	} {
		l := login()
		change(&l)
		if _, err := v.Open(sealed, v.KeyID(), seal.Login(l)); !errors.Is(err, vault.ErrSealed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	conn := store.Connection{Project: "shop"}
	if _, err := v.Open(sealed, v.KeyID(), seal.Binding(conn.ID, 0, conn.SealedFor())); !errors.Is(err, vault.ErrSealed) {
		t.Errorf("as a credential: %v", err)
	}
}
