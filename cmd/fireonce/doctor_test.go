package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/vault"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs/certstest"
	"github.com/fireonce/fireonce/store/postgres"
)

// diagnosed is one finding, as --json prints it.
type diagnosed struct{ Check, Status, Found, Do string }

// diagnose runs the doctor. Its exit code must match its findings.
func diagnose(t *testing.T, args ...string) []diagnosed {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	out, code := command(t, append([]string{"doctor", "--json"}, args...)...)
	var found []diagnosed
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := 0
	for _, f := range found {
		if f.Status == "failure" {
			want = 1
		}
		if (f.Do == "") != (f.Status == "ok") {
			t.Errorf("what to do is said where something is wrong, and only there: %+v", f)
		}
	}
	if code != want {
		t.Errorf("exit code %d, want %d: %s", code, want, out)
	}
	return found
}

// finds checks that a check has a status, and that its text contains some words.
func finds(t *testing.T, found []diagnosed, check, status, words string) {
	t.Helper()
	if !slices.ContainsFunc(found, func(f diagnosed) bool {
		return f.Check == check && f.Status == status && strings.Contains(f.Found, words)
	}) {
		t.Errorf("no %s of %q with %q in %+v", status, check, words, found)
	}
}

// healthy returns a migrated SQLite file with a key file.
func healthy(t *testing.T) (database string) {
	t.Helper()
	path := litetest.New(t)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.LoadOrCreateKeyFile(path + ".key"); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDoctorOnSQLite checks that the doctor finds nothing wrong with a file as serve makes it,
// and that it finds each fault.
func TestDoctorOnSQLite(t *testing.T) {
	t.Parallel()
	t.Run("well", func(t *testing.T) {
		t.Parallel()
		found := diagnose(t, "--database", "sqlite:"+healthy(t))
		for _, check := range []string{"lock", "schema", "database", "disk", "key file", "egress", "tls"} {
			finds(t, found, check, "ok", "")
		}
		if os.Geteuid() == 0 {
			finds(t, found, "user", "warning", "root")
		} else {
			finds(t, found, "user", "ok", "")
		}
	})
	t.Run("beside a server", func(t *testing.T) {
		t.Parallel()
		database := "sqlite:" + healthy(t)
		startSecured(t, certstest.Leaf{}, "--database", database)
		finds(t, diagnose(t, "--database", database), "lock", "ok", "in use by another process")
	})
	t.Run("readable by others", func(t *testing.T) {
		t.Parallel()
		path := healthy(t)
		for _, file := range []string{path, path + ".key"} {
			if err := os.Chmod(file, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		found := diagnose(t, "--database", "sqlite:"+path)
		finds(t, found, "database", "warning", "others of this machine may read")
		startSecured(t, certstest.Leaf{}, "--database", "sqlite:"+path, "--key-file", path+".other")
		finds(t, diagnose(t, "--database", "sqlite:"+path), "database", "warning", "others of this machine may read")
		finds(t, found, "key file", "failure", path+".key")
	})
	t.Run("no key file", func(t *testing.T) {
		t.Parallel()
		path := healthy(t)
		if err := os.Remove(path + ".key"); err != nil {
			t.Fatal(err)
		}
		finds(t, diagnose(t, "--database", "sqlite:"+path), "key file", "warning", "there is no")
	})
	t.Run("no database", func(t *testing.T) {
		t.Parallel()
		path := healthy(t)
		if err := os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		finds(t, diagnose(t, "--database", "sqlite:"+path), "database", "failure", path)
	})
	t.Run("no folder", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "missing", "fireonce.db")
		found := diagnose(t, "--database", "sqlite:"+path)
		finds(t, found, "database", "failure", path)
		for _, f := range found {
			if f.Status == "ok" && f.Check != "egress" && f.Check != "tls" && f.Check != "clock" && f.Check != "user" {
				t.Errorf("without its folder this is no news: %+v", f)
			}
		}
	})
	t.Run("no disk to write to", func(t *testing.T) {
		t.Parallel()
		finds(t, diagnose(t, "--database", "sqlite:"+healthy(t), "--state-dir", "/proc"), "state-dir", "failure", "/proc")
	})
}

// TestDoctorOfFlags checks that the doctor finds flags that are dangerous.
func TestDoctorOfFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := certstest.NewCA(t, dir, "test")
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	of := func(l certstest.Leaf) []string {
		ca.Issue(t, cert, key, l)
		return []string{"--tls-cert", cert, "--tls-key", key}
	}
	database := "sqlite:" + healthy(t)
	look := func(args ...string) []diagnosed {
		return diagnose(t, append([]string{"--database", database}, args...)...)
	}
	finds(t, look("--allow-egress", "169.254.0.0/16"), "egress", "failure", "metadata")
	finds(t, look("--allow-egress", "10.0.0.0/8"), "egress", "warning", "large part")
	finds(t, look("--dev"), "egress", "warning", "--dev")
	finds(t, look("--allow-http"), "egress", "warning", "--allow-http")
	finds(t, look("--allow-egress", "10.1.2.3"), "egress", "ok", "1 more ranges by --allow-egress")
	finds(t, look("--listen", "0.0.0.0:0", "--require-api-key"), "tls", "warning", "in the clear")
	finds(t, look("--allow-http", "--connectors", connectorsFile(t, `{"name": "own", "url": "http://connector.invalid"}`)), "tls", "failure", "in the clear")
	finds(t, look("--ops-listen", "0.0.0.0:0"), "operations", "warning", "without a key")
	finds(t, look(of(certstest.Leaf{Until: time.Now().Add(60 * 24 * time.Hour)})...), "tls", "ok", "localhost")
	finds(t, look(of(certstest.Leaf{})...), "tls", "warning", "ends on")
	finds(t, look(of(certstest.Leaf{From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)})...), "tls", "failure", "expired")
	finds(t, look("--tls-cert", key, "--tls-key", key), "tls", "failure", key)
	finds(t, look(append(of(certstest.Leaf{}), "--tls-client-ca", key)...), "tls", "failure", "no certificate")
	own := func(files string) []string {
		return []string{"--connectors", connectorsFile(t, `{"name": "own", "url": "https://connector.invalid", `+files+`}`)}
	}
	finds(t, look(own(`"ca_file": "`+key+`"`)...), "connector own", "failure", "no certificate")
	finds(t, look(own(`"ca_file": "`+ca.File+`"`)...), "connector own", "ok", ca.File)
	finds(t, look(own(`"client_cert_file": "`+cert+`", "client_key_file": "`+key+`"`)...), "connector own", "warning", "ends on")
	finds(t, look(own(`"token": "between-us"`)...), "connectors", "failure", `unknown field "token"`)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("between-us\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	finds(t, look(own(`"token_file": "`+token+`"`)...), "connector own", "warning", "may read its token")
	finds(t, look(own(`"token_file": "`+token+`"`)...), "connectors", "ok", "can be read")
	ca.Issue(t, cert, key, certstest.Leaf{Until: time.Now().Add(60 * 24 * time.Hour)})
	if err := os.Chmod(key, 0o644); err != nil {
		t.Fatal(err)
	}
	finds(t, look("--tls-cert", cert, "--tls-key", key), "tls", "warning", "private key")
	out, code := command(t, "doctor", "--database", database, "--allow-egress", "169.254.0.0/16")
	if code != 1 || !strings.Contains(out, "FAILURE") || !strings.Contains(out, "→ allow the single addresses") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestDoctorOnACME checks that the doctor reads obtained certificates as autocert stores them.
func TestDoctorOnACME(t *testing.T) {
	t.Parallel()
	const name = "fireonce.example.org"
	dir, cache := t.TempDir(), t.TempDir()
	ca, database := certstest.NewCA(t, dir, "test"), "sqlite:"+healthy(t)
	look := func() []diagnosed {
		return diagnose(t, "--database", database, "--acme-domain", name, "--acme-cache", cache, "--acme-accept-terms")
	}
	finds(t, look(), "tls", "ok", "there is no certificate for "+name)
	day := 24 * time.Hour
	for _, c := range []struct {
		until         time.Duration
		status, words string
	}{
		{60 * day, "ok", "is good until"}, {7 * day, "warning", "should have been renewed"}, {-day, "failure", "expired"},
	} {
		cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
		ca.Issue(t, cert, key, certstest.Leaf{Names: []string{name}, From: time.Now().Add(-80 * day), Until: time.Now().Add(c.until)})
		var both []byte
		for _, file := range []string{key, cert} {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, data...)
		}
		if err := os.WriteFile(filepath.Join(cache, name), both, 0o600); err != nil {
			t.Fatal(err)
		}
		finds(t, look(), "tls", c.status, c.words)
	}
	if err := os.WriteFile(filepath.Join(cache, name), []byte("half of a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	finds(t, look(), "tls", "failure", "cannot be used")
}

// doctorsCluster makes a migrated database and a key file. look runs the doctor on them.
func doctorsCluster(t *testing.T, c *pgtest.Cluster) (database string, look func(...string) []diagnosed) {
	t.Helper()
	database = c.NewDatabase(t)
	url, key := c.URL(database), filepath.Join(t.TempDir(), "key")
	if err := postgres.Migrate(waiting(t), url); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.LoadOrCreateKeyFile(key); err != nil {
		t.Fatal(err)
	}
	return database, func(args ...string) []diagnosed {
		return diagnose(t, append([]string{"--database", url, "--key-file", key}, args...)...)
	}
}

// TestDoctorOnPostgres checks that the doctor finds nothing wrong with a durable server, and
// that it finds the schema of a newer program, a role that may not write, and standbys.
func TestDoctorOnPostgres(t *testing.T) {
	long(t)
	t.Parallel()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	c := pgtest.Start(t, pgtest.Options{})
	database, look := doctorsCluster(t, c)
	found := look()
	for _, check := range []string{"database", "database clock", "fsync", "synchronous_commit", "standbys", "lock", "schema", "horizon", "key file", "database tls"} {
		finds(t, found, check, "ok", "")
	}
	finds(t, look("--synchronous-standby"), "standbys", "failure", "a failover would lose commits")
	c.Exec(t, database, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)")
	finds(t, look(), "schema", "failure", "version 9999")
	c.Exec(t, database, "DELETE FROM goose_db_version WHERE version_id = 9999")
	finds(t, look(), "schema", "ok", "")
	c.Exec(t, database, fmt.Sprintf("ALTER DATABASE %s SET default_transaction_read_only = on", database))
	finds(t, look(), "lock", "failure", "read-only")
	c.Stop(t, pgtest.Fast)
	found = look()
	finds(t, found, "database", "failure", "cannot be asked")
	if out, _ := command(t, "doctor", "--database", c.URL(database), "--key-file", "none"); strings.Count(out, "cannot be asked") != 1 || strings.Contains(out, "\n\t") {
		t.Errorf("a finding is not one line:\n%s", out)
	}
}

// TestDoctorOnUnsafePostgres checks that the doctor finds settings that lose confirmed writes.
func TestDoctorOnUnsafePostgres(t *testing.T) {
	long(t)
	t.Parallel()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	_, look := doctorsCluster(t, pgtest.Start(t, pgtest.Options{Settings: map[string]string{"synchronous_commit": "off", "full_page_writes": "off"}}))
	found := look()
	finds(t, found, "synchronous_commit", "warning", "it is off")
	finds(t, found, "fsync", "failure", "full_page_writes is off")

	c := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"fsync": "off"}})
	key := filepath.Join(t.TempDir(), "key")
	finds(t, diagnose(t, "--database", c.URL(c.NewDatabase(t)), "--key-file", key), "fsync", "failure", "fsync is off")
}

// TestDoctorOnAnotherTime checks a PostgreSQL whose clock is an hour ahead, so that a transaction
// seems to have been open for an hour.
func TestDoctorOnAnotherTime(t *testing.T) {
	long(t)
	t.Parallel()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	c, clock := pgtest.StartWithClock(t, pgtest.Options{})
	database, look := doctorsCluster(t, c)
	conn, err := pgx.Connect(waiting(t), c.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(waiting(t), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	clock.Set(t, time.Hour)
	found := look()
	finds(t, found, "database clock", "failure", "1h0m")
	finds(t, found, "horizon", "failure", "a transaction has been open for 1h0m")
	clock.Set(t, -time.Hour)
	finds(t, look(), "database clock", "failure", "1h0m0s behind this machine's")
}
