package postgres

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a database that may be a copy, or an older state of itself, must not
// send: jobs that it believes to be due may have been sent already. Each new session compares
// the database with its description in meta before it is used. So the first session after a
// fail-over or a restore under a running server detects it, and quarantines the database for
// all servers. What a server confirmed itself must still be stored too, and so must what it
// noted outside of the database before its last end (witness.go): a whole cluster that is
// restored while no server runs differs in nothing else.

// identity distinguishes a database from its copies.
type identity struct {
	// system is the cluster, and stays the same in its physical copies; timeline
	// rises with each promotion and each recovery to a point in time.
	system, timeline int64
	// database differs in copies within a cluster, relation (the table meta) in what
	// was loaded from a dump.
	database, relation int64
}

func (i identity) String() string {
	return fmt.Sprintf("cluster %d, timeline %d, database %d, table %d", i.system, i.timeline, i.database, i.relation)
}

// comparison is one comparison of the database with its description.
type comparison struct {
	now, before identity
	// newest is the log's last position; coming is below every future position.
	newest, coming int64
	// kept reports whether the last event that this process knows to be durable is stored.
	kept bool
	// label is the base backup that the cluster was started from, labelBefore the one in
	// meta; nil: unknown.
	label, labelBefore *string
	// incarnation is the database's, known the newest one that was noted outside of it.
	incarnation, known int64
}

const here = `
WITH here AS (
	SELECT
		(SELECT system_identifier FROM pg_control_system()) AS system_id,
		('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint AS timeline,
		(SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database_oid,
		'meta'::regclass::oid::bigint AS relation_oid
)`

const lookAround = here + `
SELECT h.system_id, h.timeline, h.database_oid, h.relation_oid,
	m.system_id, m.timeline, m.database_oid, m.relation_oid,
	coalesce((SELECT max(position) FROM event_pages), 0),
	(pg_snapshot_xmax(pg_current_snapshot())::text::bigint + m.xid_offset) << 20,
	$1::bigint <= m.events_from OR EXISTS (SELECT 1 FROM event_pages AS e WHERE e.position = $1),
	m.incarnation, m.base_backup
FROM here AS h CROSS JOIN meta AS m WHERE m.id = 1`

// createMeta writes the description of a new database. Of many concurrent servers, one writes
// it.
func (s *Store) createMeta(ctx context.Context, conn *pgx.Conn) error {
	var created time.Time
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&created); err != nil {
		return err
	}
	if !s.real() {
		created = time.UnixMicro(s.reading(created, 0).Wall)
	}
	_, err := conn.Exec(ctx, here+`
INSERT INTO meta (id, store_id, created_at, system_id, timeline, database_oid, relation_oid, namespace)
SELECT 1, $1, $2, h.system_id, h.timeline, h.database_oid, h.relation_oid, $3 FROM here AS h
ON CONFLICT (id) DO NOTHING`,
		randomID(), created, cmp.Or(s.opts.Namespace, job.NewNamespace()))
	if err != nil {
		return err
	}
	var namespace string
	if err := conn.QueryRow(ctx, "SELECT namespace FROM meta WHERE id = 1").Scan(&namespace); err != nil {
		return err
	}
	s.namespace.Store(&namespace)
	return nil
}

func (s *Store) sight(ctx context.Context, conn *pgx.Conn, lock string) (comparison, error) {
	g := comparison{known: s.known.Load()}
	err := conn.QueryRow(ctx, lookAround+lock, s.durable.Load()).Scan(
		&g.now.system, &g.now.timeline, &g.now.database, &g.now.relation,
		&g.before.system, &g.before.timeline, &g.before.database, &g.before.relation,
		&g.newest, &g.coming, &g.kept, &g.incarnation, &g.labelBefore,
	)
	if err == nil {
		g.label, err = baseBackup(ctx, conn)
	}
	if err != nil {
		return g, fmt.Errorf("compare the database with what it was: %w", err)
	}
	return g, nil
}

// baseBackup returns when the base backup was made that the cluster was started from: the
// start renames the label that it finds there. nil: our role may not read it.
func baseBackup(ctx context.Context, conn *pgx.Conn) (*string, error) {
	var may bool
	err := conn.QueryRow(ctx, "SELECT has_function_privilege('pg_stat_file(text, boolean)', 'execute')").Scan(&may)
	if err != nil || !may {
		return nil, err
	}
	var label string
	err = conn.QueryRow(ctx, `SELECT coalesce(to_char((pg_stat_file('backup_label.old', true)).modification AT TIME ZONE 'UTC',
		'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')`).Scan(&label)
	return &label, err
}

// changed reports whether the database differs from its description in meta.
func (g comparison) changed() bool {
	return g.now != g.before || g.label != nil && (g.labelBefore == nil || *g.label != *g.labelBefore)
}

// restarted reports whether the cluster was started from another base backup. A promoted
// standby was made from one too, but is on another timeline.
func (g comparison) restarted() bool {
	return g.now.timeline == g.before.timeline &&
		g.label != nil && g.labelBefore != nil && *g.label != "" && *g.label != *g.labelBefore
}

// suspicion returns why the database may be a copy or an old state; empty: it is the one that
// was last open.
func (g comparison) suspicion(synchronous bool) string {
	sameTimeline := g.now.timeline == g.before.timeline
	switch {
	case g.now.system != g.before.system:
		return fmt.Sprintf("the database was last open in another cluster (%s; now %s)", g.before, g.now)
	case g.now.database != g.before.database:
		return fmt.Sprintf("the database is a copy of another one in its cluster (%s; now %s)", g.before, g.now)
	case g.now.relation != g.before.relation, g.newest >= g.coming:
		return fmt.Sprintf("the database was loaded from a dump (%s; now %s)", g.before, g.now)
	case !sameTimeline && (!synchronous || g.now.timeline < g.before.timeline):
		return fmt.Sprintf("the cluster was restored or failed over (%s; now %s)", g.before, g.now)
	case g.restarted():
		return "the cluster was started from a base backup, made at " + *g.label
	case !g.kept, g.incarnation < g.known:
		return "what a server had seen is gone: an older state was put in place of the database"
	default:
		return ""
	}
}

// settle compares, and stores a change. It runs in each new session.
func (s *Store) settle(ctx context.Context, conn *pgx.Conn) error {
	g, err := s.sight(ctx, conn, "")
	if err != nil {
		return err
	}
	if err := s.refuseOlder(g); err != nil {
		return err
	}
	if !g.changed() && g.suspicion(s.opts.SynchronousStandby) == "" {
		return nil
	}
	// One session of this process at a time: a lost event must be forgotten (below) before
	// the next session looks for it, or each would report it again.
	s.settleMu.Lock()
	defer s.settleMu.Unlock()
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Again under the lock: another session may have stored the change.
		g, err := s.sight(ctx, conn, " FOR NO KEY UPDATE OF m")
		if err != nil {
			return err
		}
		reason := g.suspicion(s.opts.SynchronousStandby)
		if !g.changed() && reason == "" {
			return nil
		}
		_, err = tx.Exec(ctx, moved, g.now.system, g.now.timeline, g.now.database, g.now.relation, reason, g.newest, g.known, g.label)
		return err
	})
	if err != nil {
		return fmt.Errorf("note what the database has become: %w", err)
	}
	// The lost event is no longer expected.
	s.durable.Store(0)
	s.known.Store(0)
	return nil
}

// moved stores the new description of the database. With a reason, earlier cursors become
// invalid, including those of the lost state. Positions continue above the stored ones in any
// case.
const moved = `
UPDATE meta SET
	system_id = $1, timeline = $2, database_oid = $3, relation_oid = $4, base_backup = coalesce($8, base_backup),
	quarantined = CASE WHEN quarantined = '' THEN $5 ELSE quarantined END,
	incarnation = CASE WHEN $5 = '' THEN incarnation ELSE greatest(incarnation, $7) + 1 END,
	xid_offset = greatest(xid_offset, ($6::bigint >> 20) + 1 - pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
WHERE id = 1`

// refuseOlder refuses a server on an abandoned timeline: the old primary of a fail-over that
// still runs.
func (s *Store) refuseOlder(g comparison) error {
	s.identityMu.Lock()
	defer s.identityMu.Unlock()
	if s.seen.system == g.now.system && s.seen.database == g.now.database && g.now.timeline < s.seen.timeline {
		return fmt.Errorf("%w: the server is on timeline %d, which was left for %d", store.ErrUnavailable, g.now.timeline, s.seen.timeline)
	}
	s.seen = g.now
	return nil
}

// confirmed remembers the newest event that this process knows to be durable.
func (s *Store) confirmed(position int64) {
	for {
		last := s.durable.Load()
		if position <= last || s.durable.CompareAndSwap(last, position) {
			return
		}
	}
}
