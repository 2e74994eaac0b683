package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
)

// Diagnosis is the description of a PostgreSQL server and a database. It contains no
// judgment, and making it writes nothing.
type Diagnosis struct {
	// Server is the version, as PostgreSQL names it. TooOld reports that it is not supported.
	Server string
	TooOld bool
	// Link is how this machine reaches the server.
	Link Link
	// Fsync and FullPages are the settings fsync and full_page_writes.
	Fsync, FullPages bool
	// Commit is the role's synchronous_commit. Sessions of servers set "on" where it is less.
	Commit string
	// Standby reports that the server is read-only because it recovers, ReadOnly that the
	// role's transactions are.
	Standby, ReadOnly bool
	// SyncNames is synchronous_standby_names. Standbys are connected now; of them
	// SyncStandbys are synchronous.
	SyncNames              string
	Standbys, SyncStandbys int
	// ClockAhead is how far the server's clock is ahead of this machine's, at most
	// RoundTrip wrong.
	ClockAhead, RoundTrip time.Duration
	// Oldest is how long the oldest transaction that delays the end of the event log has been
	// open. SeesAll reports that the role may see other roles' transactions.
	Oldest  time.Duration
	SeesAll bool
	// Schema is the version of the schema; 0: there is none yet. Wanted is this program's.
	Schema, Wanted int64
}

// Link is how safe the way to a server is.
type Link int

const (
	// LinkLocal stays on this machine.
	LinkLocal Link = iota
	// LinkClear can be read by the network.
	LinkClear
	// LinkUnproven is encrypted, but an attacker on the way can pretend to be the server.
	LinkUnproven
	// LinkProven is encrypted, and the server's certificate was checked.
	LinkProven
)

func linkOf(conn *pgx.Conn) Link {
	_, secure := conn.PgConn().Conn().(*tls.Conn)
	if !secure {
		return linkBy(conn.PgConn().Conn().RemoteAddr(), nil)
	}
	return linkBy(nil, conn.Config().TLSConfig)
}

// linkBy judges a connection by its address, or by its TLS if it has that.
func linkBy(addr net.Addr, secure *tls.Config) Link {
	if secure != nil {
		// pgx verifies by a function of its own where only the authority is to be verified.
		if secure.InsecureSkipVerify && secure.VerifyPeerCertificate == nil && secure.VerifyConnection == nil {
			return LinkUnproven
		}
		return LinkProven
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		return LinkClear
	}
	return LinkLocal
}

// Diagnose queries a server. It fails as Open does if it cannot.
func Diagnose(ctx context.Context, url string) (d Diagnosis, err error) {
	config, err := parse(Options{URL: url})
	if err != nil {
		return d, err
	}
	config.ConnConfig.ValidateConnect = nil // a standby is queried too
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return d, opening(ctx, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	d.Link = linkOf(conn)
	if err := d.settings(ctx, conn); err != nil {
		return d, opening(ctx, err)
	}
	if err := d.activity(ctx, conn); err != nil {
		return d, opening(ctx, err)
	}
	if d.Schema, err = schemaOf(ctx, conn); err != nil {
		return d, err
	}
	d.Wanted, err = SchemaVersion()
	return d, err
}

func (d *Diagnosis) settings(ctx context.Context, conn *pgx.Conn) error {
	var number int
	if err := conn.QueryRow(ctx, `SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
		current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
		pg_is_in_recovery(), current_setting('default_transaction_read_only')::boolean, current_setting('synchronous_standby_names')`).
		Scan(&number, &d.Server, &d.Fsync, &d.FullPages, &d.Commit, &d.Standby, &d.ReadOnly, &d.SyncNames); err != nil {
		return err
	}
	d.TooOld = number < oldestServer
	return nil
}

// clockTries is the number of queries for the time, of which the fastest counts.
const clockTries = 3

func (d *Diagnosis) activity(ctx context.Context, conn *pgx.Conn) error {
	for try := range clockTries {
		before := time.Now()
		var there time.Time
		if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
			return err
		}
		took := time.Since(before)
		if try == 0 || took < d.RoundTrip {
			d.RoundTrip, d.ClockAhead = took, there.Sub(before.Add(took/2))
		}
	}
	var oldest float64
	if err := conn.QueryRow(ctx, `SELECT coalesce(extract(epoch FROM clock_timestamp() - min(xact_start)), 0)::float8
		FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()`).Scan(&oldest); err != nil {
		return err
	}
	d.Oldest = time.Duration(oldest * float64(time.Second))
	return conn.QueryRow(ctx, `SELECT pg_has_role('pg_read_all_stats', 'USAGE'),
		(SELECT count(*) FROM pg_stat_replication), (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))`).
		Scan(&d.SeesAll, &d.Standbys, &d.SyncStandbys)
}
