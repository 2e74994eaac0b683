//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// settings are the cluster's: durable like a real one, and small.
var settings = map[string]string{
	"listen_addresses":        "",
	"unix_socket_permissions": "0700",
	"fsync":                   "on",
	"max_connections":         "200",
	"shared_buffers":          "32MB",
	"max_wal_size":            "256MB",
	"min_wal_size":            "32MB",
	"wal_keep_size":           "64MB",
	"logging_collector":       "off",
	"log_line_prefix":         "%m [%p] %d ",
	"timezone":                "UTC",
	"log_timezone":            "UTC",
	"huge_pages":              "off",
}

// Options of a cluster.
type Options struct {
	// Settings are lines of postgresql.conf, by name, beside or instead of the
	// package's own.
	Settings map[string]string
	// Env is added to the environment of the server.
	Env []string
}

// Cluster is a PostgreSQL server with its data. Its methods fail the test that
// they are given. They may be called by several goroutines, except that one
// starts and stops it.
type Cluster struct {
	bin, dir string
	owner    owner
	env      []string
	watchdog *watchdog
	names    atomic.Int64 // of databases

	mu     sync.Mutex
	server *server // nil: stopped
	log    *tail
}

// Start runs a cluster of the test's own. It is removed when the test ends; what
// the server logged is shown if the test failed. Making one takes a second of processor
// time: `go test -short` leaves such tests out.
func Start(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	if testing.Short() {
		tb.Skip("left out of the ordinary tests: it needs a PostgreSQL server of its own")
	}
	c, err := create(opts)
	if err != nil {
		tb.Fatal(err)
	}
	c.removeAfter(tb)
	return c
}

func (c *Cluster) removeAfter(tb testing.TB) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("PostgreSQL said:\n%s", c.log)
		}
		if err := c.remove(); err != nil {
			tb.Error(err)
		}
	})
}

func (c *Cluster) remove() error {
	err := c.watchdog.release()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		<-c.server.done
		c.server = nil
	}
	return err
}

// create makes a cluster and starts it.
func create(opts Options) (*Cluster, error) {
	c, err := prepare()
	if err != nil {
		return nil, err
	}
	if err := c.initialise(opts); err != nil {
		return nil, errors.Join(err, c.remove())
	}
	return c, nil
}

// prepare makes a cluster's folder, and has it watched.
func prepare() (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	o, err := findOwner()
	if err != nil {
		return nil, err
	}
	dir, err := o.folder()
	if err != nil {
		return nil, err
	}
	w, err := watch(o, bin, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Cluster{bin: bin, dir: dir, owner: o, watchdog: w, log: new(tail)}, nil
}

func (c *Cluster) initialise(opts Options) error {
	// It is thrown away: that its creation outlives a power cut is not needed.
	if err := c.build("initdb", "-D", c.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		return err
	}
	if err := c.configure(opts.Settings); err != nil {
		return err
	}
	c.env = opts.Env
	if err := c.up(); err != nil {
		return err
	}
	_, err := c.query("postgres", "CREATE ROLE "+role+" LOGIN")
	return err
}

// build runs a program that writes the data folder. It holds the watchdog off:
// the folder is removed after it, not under it.
func (c *Cluster) build(program string, args ...string) error {
	return c.hold(filepath.Join(c.bin, program), args...)
}

// hold runs any program as build does.
func (c *Cluster) hold(program string, args ...string) error {
	cmd := c.owner.command(c.dir, program, args...)
	cmd.ExtraFiles = []*os.File{c.watchdog.held}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pgtest: %s: %w\n%s", program, err, out)
	}
	return nil
}

func (c *Cluster) configure(own map[string]string) error {
	lines := map[string]string{"unix_socket_directories": c.dir}
	for _, from := range []map[string]string{settings, own} {
		for name, value := range from {
			lines[name] = value
		}
	}
	var conf strings.Builder
	for name, value := range lines {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	f, err := os.OpenFile(filepath.Join(c.data(), "postgresql.conf"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	_, err = f.WriteString(conf.String())
	return errors.Join(err, f.Close())
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// Socket is the path of the Unix socket that the server listens on, for a proxy.
func (c *Cluster) Socket() string { return filepath.Join(c.dir, ".s.PGSQL.5432") }

// URL is the address of a database, for its owner.
func (c *Cluster) URL(database string) string { return c.url(role, database) }

// AdminURL is the address of a database, for the superuser.
func (c *Cluster) AdminURL(database string) string { return c.url(superuser, database) }

func (c *Cluster) url(user, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(user), Path: "/" + database,
		RawQuery: url.Values{"host": {c.dir}}.Encode(),
	}
	return u.String()
}

// NewDatabase makes an empty database and returns its name. It is dropped when the
// test ends, if the server runs then.
func (c *Cluster) NewDatabase(tb testing.TB) string {
	tb.Helper()
	return c.newDatabase(tb, emptyTemplate)
}

func (c *Cluster) newDatabase(tb testing.TB, template string) string {
	tb.Helper()
	name, err := c.createDatabase(tb.Context(), template)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the database was %s", name)
		}
		if c.running() {
			if err := c.admin(context.WithoutCancel(tb.Context()), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
				tb.Errorf("drop: %v", err)
			}
		}
	})
	return name
}

// Exec runs SQL statements in a database as the superuser. It returns the rows,
// one a line, their columns parted by "|".
func (c *Cluster) Exec(tb testing.TB, database, sql string) string {
	tb.Helper()
	out, err := c.query(database, sql)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// admin runs a statement without rows as the superuser, outside of every test's database. A
// connection costs a small part of the processor time of psql, and each test makes and drops a
// database.
func (c *Cluster) admin(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.AdminURL("postgres"))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	_, err = conn.Exec(ctx, sql)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("pgtest: %s: %w", sql, err)
	}
	return nil
}

func (c *Cluster) query(database, sql string) (string, error) {
	return c.client("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", c.AdminURL(database), "-c", sql)
}

// client runs one of PostgreSQL's client programs. Any user may: the socket asks
// for no password, and only the owner and root reach it.
func (c *Cluster) client(program string, args ...string) (string, error) {
	cmd := owner{}.command(c.dir, filepath.Join(c.bin, program), args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("pgtest: %s: %w\n%s", program, err, errs.String())
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// Dump writes a database to a file, and returns its path.
func (c *Cluster) Dump(tb testing.TB, database string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), database+".dump")
	if _, err := c.client("pg_dump", "--format=custom", "--file", file, "-d", c.AdminURL(database)); err != nil {
		tb.Fatal(err)
	}
	return file
}

// DumpText returns all that a database holds as SQL, in the open.
func (c *Cluster) DumpText(tb testing.TB, database string) string {
	tb.Helper()
	out, err := c.client("pg_dump", "--format=plain", "-d", c.AdminURL(database))
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// Restore puts a dump in the place of a database, also when clients are connected to it.
func (c *Cluster) Restore(tb testing.TB, database, file string) {
	tb.Helper()
	c.Exec(tb, "postgres", "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)")
	c.Exec(tb, "postgres", "CREATE DATABASE "+database+" OWNER "+role)
	if _, err := c.client("pg_restore", "--exit-on-error", "-d", c.AdminURL(database), file); err != nil {
		tb.Fatal(err)
	}
}

// Load puts a dump in the place of what a database holds, and leaves its
// connections alone.
func (c *Cluster) Load(tb testing.TB, database, file string) {
	tb.Helper()
	_, err := c.client("pg_restore", "--clean", "--if-exists", "--single-transaction", "-d", c.AdminURL(database), file)
	if err != nil {
		tb.Fatal(err)
	}
}

// Standby runs a second cluster that replicates this one, until it is promoted.
// synchronous_standby_names can call it "standby".
func (c *Cluster) Standby(tb testing.TB) *Cluster {
	tb.Helper()
	s, err := prepare()
	if err != nil {
		tb.Fatal(err)
	}
	s.removeAfter(tb)
	s.names.Store(c.names.Load())
	err = s.build("pg_basebackup", "-D", s.data(), "-R", "-X", "stream", "--checkpoint=fast", "--no-sync",
		"-d", c.AdminURL("postgres")+"&application_name=standby")
	if err == nil {
		err = s.configure(nil)
	}
	if err == nil {
		err = s.up()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// BaseBackup copies the whole cluster with pg_basebackup, while it runs. What it
// returns puts the copy in the cluster's place, which must be stopped, as often as it
// is called.
func (c *Cluster) BaseBackup(tb testing.TB) (restore func()) {
	tb.Helper()
	dir := filepath.Join(c.dir, fmt.Sprintf("base_%d", c.names.Add(1)))
	if err := c.build("pg_basebackup", "-D", dir, "-X", "stream", "--checkpoint=fast", "--no-sync", "-d", c.AdminURL("postgres")); err != nil {
		tb.Fatal(err)
	}
	return func() {
		tb.Helper()
		if c.running() {
			tb.Fatal("pgtest: the server runs")
		}
		if err := os.RemoveAll(c.data()); err != nil {
			tb.Fatal(err)
		}
		if err := c.hold("cp", "-a", dir, c.data()); err != nil {
			tb.Fatal(err)
		}
	}
}

// Promote makes a standby a primary, on a new timeline, and waits until it is.
func (c *Cluster) Promote(tb testing.TB) {
	tb.Helper()
	if done := c.Exec(tb, "postgres", "SELECT pg_promote()"); done != "t" {
		tb.Fatalf("pgtest: pg_promote said %q", done)
	}
}

// Logs returns what the server logged last.
func (c *Cluster) Logs() string { return c.log.String() }
