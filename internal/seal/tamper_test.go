//go:build unix

package seal_test

import (
	"cmp"
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/seal"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

// database is a database to which another program can write too.
type database interface {
	// open opens the store.
	open(t *testing.T) store.Store
	// exec runs a statement directly in the database, while the store is closed.
	exec(t *testing.T, statement string)
	// bytes and id return the literals of bytes and ids in a statement.
	bytes(b []byte) string
	id(id jobID) string
}

type sqliteFile struct{ path string }

func (d sqliteFile) open(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: d.path})
	must(t, err)
	return s
}

func (d sqliteFile) exec(t *testing.T, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", d.path)
	must(t, err)
	defer db.Close()
	res, err := db.ExecContext(t.Context(), statement)
	must(t, err)
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		t.Fatalf("%d rows, %v", n, err)
	}
}

func (sqliteFile) bytes(b []byte) string { return "X'" + hex.EncodeToString(b) + "'" }

func (d sqliteFile) id(id jobID) string { return d.bytes(id[:]) }

type pgDatabase struct{ url string }

func (d pgDatabase) open(t *testing.T) store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{URL: d.url, Migrate: true})
	must(t, err)
	return s
}

func (d pgDatabase) exec(t *testing.T, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.url)
	must(t, err)
	defer func() { must(t, conn.Close(t.Context())) }()
	tag, err := conn.Exec(t.Context(), statement)
	must(t, err)
	if tag.RowsAffected() == 0 {
		t.Fatal("no rows")
	}
}

func (pgDatabase) bytes(b []byte) string { return `'\x` + hex.EncodeToString(b) + `'::bytea` }

func (pgDatabase) id(id jobID) string { return "'" + id.String() + "'::uuid" }

// onBoth runs a test on each database.
func onBoth(t *testing.T, test func(t *testing.T, d database)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, sqliteFile{litetest.New(t)})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("left out of the ordinary tests: make test-postgres runs it")
		}
		test(t, pgDatabase{pgtest.Reused(t, postgres.Migrate)})
	})
}

// customAt returns the settings of a connection to a place.
func customAt(t *testing.T, place string) []byte {
	t.Helper()
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(&connectionsv1.CustomSettings{Values: map[string]string{"to": place}})
	must(t, err)
	return out
}

// tampering is a change of connection ann by an attacker with access to the database.
type tampering struct {
	// statement returns the attacker's statement. %[1]s is ann's id, %[2]s bob's.
	statement func(t *testing.T, d database) string
	// project is the connection's project afterwards; empty: it stays the same.
	project string
}

var tamperings = map[string]tampering{
	"settings": {statement: func(t *testing.T, d database) string {
		return "UPDATE connections SET settings = " + d.bytes(customAt(t, "evil")) + " WHERE id = %[1]s"
	}},
	"connector": {statement: func(*testing.T, database) string {
		return "UPDATE connections SET connector = 'other' WHERE id = %[1]s"
	}},
	"identity": {statement: func(*testing.T, database) string {
		return "UPDATE connections SET account_identity = 'eve' WHERE id = %[1]s"
	}},
	"project": {project: "other", statement: func(*testing.T, database) string {
		return "UPDATE connections SET project = 'other', idem_key = 'k' WHERE id = %[1]s"
	}},
	"another connection's credential": {statement: func(*testing.T, database) string {
		return "UPDATE connection_credentials SET data = (SELECT b.data FROM connection_credentials AS b WHERE b.connection_id = %[2]s) WHERE connection_id = %[1]s"
	}},
	"the settings of another connection": {statement: func(*testing.T, database) string {
		return "UPDATE connections SET settings = (SELECT b.settings FROM connections AS b WHERE b.id = %[2]s) WHERE id = %[1]s"
	}},
	"another version": {statement: func(*testing.T, database) string {
		return "UPDATE connection_credentials SET version = 2 WHERE connection_id = %[1]s"
	}},
}

// TestTampering checks that an attacker who can write to the database, but not read the key
// file, gets no credential. Jobs wait, no attempt is spent, and the log and TestConnection
// report why.
func TestTampering(t *testing.T) {
	for name, how := range tamperings {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, d database) {
				w := start(t, d)
				ann, bob := w.connect("ann", "home"), w.connect("bob", "work")
				w.delivered(w.schedule(ann, "before"), "ann@home ann-secret")
				w.stop()
				statement := how.statement(t, d)
				d.exec(t, fmt.Sprintf(statement, d.id(ann), d.id(bob)))

				w = start(t, d)
				project := cmp.Or(how.project, server.DefaultProject)
				first, second := w.scheduleIn(project, ann, "first"), w.scheduleIn(project, ann, "second")
				for _, id := range []jobID{first, second} {
					s := w.blocked(id)
					if s.Attempt != 0 || s.Failures != 0 || s.Blocked != seal.Explain(vault.ErrSealed) {
						t.Errorf("attempt %d, %d failures, blocked: %q", s.Attempt, s.Failures, s.Blocked)
					}
				}
				if n := w.logged("a credential cannot be opened; its jobs wait"); n != 1 {
					t.Errorf("%d lines in the log", n)
				}
				if how.project == "" {
					w.refusesAll(ann)
				}
				// The other connection is not affected.
				w.delivered(w.schedule(bob, "other"), "bob@work bob-secret")
				if got := w.sent("ann-secret"); got != 0 {
					t.Errorf("ann's credential was sent %d times", got)
				}
				w.stop()
			})
		})
	}
}

// refusesAll checks that no method of the API accepts the changed row.
func (w *world) refusesAll(conn jobID) {
	w.Helper()
	tested, err := w.api.TestConnection(w.Context(), &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: conn.String()}})
	must(w.T, err)
	if tested.GetOk() || tested.GetPlatformReached() || tested.GetDetail() != seal.Explain(vault.ErrSealed) {
		w.Errorf("tested: %v", tested)
	}
	for name, call := range map[string]func() error{
		"rotate": func() error {
			_, err := w.api.RotateCredential(w.Context(), &connectionsv1.RotateCredentialRequest{
				Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: conn.String()}, Credential: tokenOf("eve-secret"),
			})
			return err
		},
		"rotate to the same": func() error {
			_, err := w.api.RotateCredential(w.Context(), &connectionsv1.RotateCredentialRequest{
				Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: conn.String()}, Credential: tokenOf("ann-secret"),
			})
			return err
		},
		"update": func() error {
			_, err := w.api.UpdateConnection(w.Context(), updateTo(conn, "nowhere"))
			return err
		},
	} {
		err := call()
		if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(err.Error(), seal.Explain(vault.ErrSealed)) {
			w.Errorf("%s: %v", name, err)
		}
	}
}

// TestChangesThroughTheAPI checks that a change through the API seals the credential again, with
// whatever key seals, and that its jobs continue.
func TestChangesThroughTheAPI(t *testing.T) {
	onBoth(t, func(t *testing.T, d database) {
		w := start(t, d)
		ann := w.connect("ann", "home")
		// The account becomes known.
		tested, err := w.api.TestConnection(t.Context(), &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: ann.String()}})
		must(t, err)
		if !tested.GetOk() || tested.GetAccountIdentity() != "ann" {
			t.Fatalf("tested: %v", tested)
		}
		w.delivered(w.schedule(ann, "tested"), "ann@home ann-secret")
		// Its settings change.
		_, err = w.api.UpdateConnection(t.Context(), updateTo(ann, "new home"))
		must(t, err)
		w.delivered(w.schedule(ann, "moved"), "ann@new home ann-secret")
		// Another key seals.
		w.stop()
		w = start(t, d, 2, 1)
		turned, err := w.access.RotateSealingKey(t.Context(), &adminv1.RotateSealingKeyRequest{})
		must(t, err)
		if turned.GetResealedCount() != 1 || len(turned.GetFailedConnectionIds()) != 0 {
			t.Errorf("turned: %v", turned)
		}
		w.stop()
		w = start(t, d, 2)
		w.delivered(w.schedule(ann, "turned"), "ann@new home ann-secret")
		// The credential is replaced, with the settings as they are.
		_, err = w.api.RotateCredential(t.Context(), &connectionsv1.RotateCredentialRequest{
			Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: ann.String()}, Credential: tokenOf("ann-second"),
		})
		must(t, err)
		w.delivered(w.schedule(ann, "rotated"), "ann@new home ann-second")
		w.stop()
		// A key that is lost takes no connection with it.
		w = start(t, d, 3)
		s := w.blocked(w.schedule(ann, "lost"))
		if s.Blocked != seal.Explain(vault.ErrKeyID) || s.Attempt != 0 {
			t.Errorf("attempt %d, blocked: %q", s.Attempt, s.Blocked)
		}
		_, err = w.api.RotateCredential(t.Context(), &connectionsv1.RotateCredentialRequest{
			Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: ann.String()}, Credential: tokenOf("ann-third"),
		})
		must(t, err)
		w.delivered(w.schedule(ann, "found"), "ann@new home ann-third")
		w.stop()
	})
}
