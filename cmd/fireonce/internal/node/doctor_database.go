package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/fireonce/fireonce/store/postgres"
	"github.com/fireonce/fireonce/store/sqlite"
)

const (
	// clockOff is a difference between two clocks that makes a server's clock suspect; clockWrong
	// is a failure.
	clockOff   = 250 * time.Millisecond
	clockWrong = 5 * time.Second
	// lagging is the age of an open transaction that delays streams; stuck is the age of a
	// forgotten one.
	lagging = 10 * time.Second
	stuck   = 5 * time.Minute
)

func (d *doctor) postgres(ctx context.Context) {
	p, err := postgres.Diagnose(ctx, d.database.url)
	if err != nil {
		d.fail("database", "see that it runs, that the URL is right, and that the role may log in", "%s cannot be asked: %v", d.database, err)
		return
	}
	if p.TooOld {
		d.fail("database", "take PostgreSQL 14 or newer", "PostgreSQL %s", p.Server)
	} else {
		d.ok("database", "PostgreSQL %s at %s", p.Server, d.database)
	}
	d.link(p.Link)
	d.databaseClock(p)
	d.durability(p)
	d.standbys(p)
	switch {
	case p.Standby:
		d.fail("lock", "name the primary, or all hosts in one URL", "this host is a standby, which takes no writes")
	case p.ReadOnly:
		d.fail("lock", "ALTER ROLE … RESET default_transaction_read_only", "the role's transactions are read-only")
	default:
		d.ok("lock", "it accepts writes, and any number of servers may use it")
	}
	d.schema(p.Schema, p.Wanted)
	d.horizon(p)
}

// link checks the connection to PostgreSQL: payloads cross it, and with some logins the password.
func (d *doctor) link(l postgres.Link) {
	const verify = "set sslmode=verify-full in the database's URL, and sslrootcert if the authority is your own"
	switch l {
	case postgres.LinkClear:
		d.warn("database tls", verify, "the connection to PostgreSQL has no TLS: payloads cross the network in the clear")
	case postgres.LinkUnproven:
		d.warn("database tls", verify, "the connection to PostgreSQL has TLS, and PostgreSQL's certificate is not checked: another machine can pretend to be it")
	case postgres.LinkProven:
		d.ok("database tls", "PostgreSQL's certificate is checked")
	case postgres.LinkLocal:
		d.ok("database tls", "none; the connection to PostgreSQL stays on this machine")
	}
}

func (d *doctor) databaseClock(p postgres.Diagnosis) {
	const both = "synchronize both clocks (chrony), the database's first"
	side, off := "ahead of", p.ClockAhead.Abs()-p.RoundTrip
	if p.ClockAhead < 0 {
		side = "behind"
	}
	shown := p.ClockAhead.Abs().Round(time.Millisecond)
	if shown > time.Minute {
		shown = shown.Round(time.Second) // the rest is the time that asking took
	}
	switch {
	case off > clockWrong:
		d.fail("database clock", both, "PostgreSQL's clock is %v %s this machine's", shown, side)
	case off > clockOff:
		d.warn("database clock", both, "PostgreSQL's clock is %v %s this machine's", shown, side)
	default:
		d.ok("database clock", "within %v of this machine's", max(p.ClockAhead.Abs(), p.RoundTrip).Round(time.Millisecond))
	}
}

func (d *doctor) durability(p postgres.Diagnosis) {
	switch {
	case !p.Fsync:
		d.fail("fsync", "set fsync = on in postgresql.conf; servers do not start without", "fsync is off: a crash loses what was confirmed, and it is sent again")
	case !p.FullPages:
		d.fail("fsync", "set full_page_writes = on, unless the file system never tears a page", "full_page_writes is off: a crash may tear pages")
	default:
		d.ok("fsync", "fsync and full_page_writes are on")
	}
	switch p.Commit {
	case "on", "remote_apply":
		d.ok("synchronous_commit", "%s", p.Commit)
	default:
		d.warn("synchronous_commit", "set synchronous_commit = on for the role or the server", "it is %s; servers set it to on for their own sessions, other writers of this database do not", p.Commit)
	}
}

func (d *doctor) standbys(p postgres.Diagnosis) {
	switch {
	case p.SyncNames != "" && p.SyncStandbys == 0:
		d.fail("standbys", "bring the standby back, or take its name out of synchronous_standby_names", "synchronous_standby_names is %q and none of them is connected: commits wait", p.SyncNames)
	case p.SyncNames == "" && d.cfg.SynchronousStandby:
		d.fail("standbys", "set synchronous_standby_names, or leave --synchronous-standby out", "--synchronous-standby is given, and synchronous_standby_names is empty: a failover would lose commits unnoticed")
	case p.SyncNames == "" && p.Standbys > 0:
		d.warn("standbys", "after a failover the database is quarantined; set synchronous_standby_names and --synchronous-standby to lose nothing", "%d standbys, none of them synchronous", p.Standbys)
	case p.SyncNames == "":
		d.ok("standbys", "none")
	default:
		d.ok("standbys", "%d, of them %d synchronous", p.Standbys, p.SyncStandbys)
	}
}

func (d *doctor) horizon(p postgres.Diagnosis) {
	const look = "SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start: end the oldest; set idle_in_transaction_session_timeout for the other roles"
	switch {
	case p.Oldest > stuck:
		d.fail("horizon", look, "a transaction has been open for %v: event streams stand still before it", p.Oldest.Round(time.Second))
	case p.Oldest > lagging:
		d.warn("horizon", look, "a transaction has been open for %v: event streams wait for it", p.Oldest.Round(time.Second))
	case !p.SeesAll:
		d.ok("horizon", "no old transaction of this role; those of others can be seen after GRANT pg_read_all_stats")
	default:
		d.ok("horizon", "no old transaction")
	}
}

func (d *doctor) sqlite(ctx context.Context) {
	path, err := sqlite.Resolve(d.database.path)
	if err != nil {
		d.fail("database", "put the file or its folder in place, or name another", "%s: %v", d.database, err)
		return
	}
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		d.ok("database", "%s is not there yet; `serve` makes it", d.database)
		return
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		d.warn("database", "chmod 600 "+path, "others of this machine may read %s (%v), with all payloads", path, info.Mode().Perm())
	} else {
		d.ok("database", "%s", path)
	}
	s, err := sqlite.Diagnose(ctx, d.database.path)
	switch {
	case errors.Is(err, sqlite.ErrLocked):
		d.ok("lock", "%s is in use by another process, probably a server that runs; `fireonce stats` and GET /status ask that one", d.database)
	case err != nil:
		d.fail("database", "see that it is an SQLite file of fireonce's, readable and writable by this user", "%s: %v", d.database, err)
	default:
		d.ok("lock", "no process has %s", d.database)
		d.schema(s.Schema, s.Wanted)
	}
}

// folders checks the disks that this process writes to.
func (d *doctor) folders() {
	seen := map[string]bool{}
	look := func(check, folder string) {
		if folder != "" && !seen[folder] {
			seen[folder] = true
			d.disk(check, folder)
		}
	}
	if d.database.url == "" {
		// A path that does not exist is a finding of sqlite.
		if path, err := sqlite.Resolve(d.database.path); err == nil {
			look("disk", filepath.Dir(path))
		}
	}
	look("state-dir", d.cfg.StateDir)
	look("acme-cache", d.cfg.TLS.ACME.Cache)
}
