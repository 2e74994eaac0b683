package sqlite

import (
	"context"
	"database/sql"

	"github.com/fireonce/fireonce/gen/sqlitedb"
)

// Rules of this file: the writer runs its queries through this type, so that no query which
// changes cached rows can be called without dropping them from the cache. The exceptions are
// queries whose callers update the cached rows, and those after which all of the cache is
// dropped; TestEveryWriteIsKnownToTheCache lists both.

// queries are the generated queries as the writer runs them.
type queries struct {
	*sqlitedb.Queries
	w *writer
}

// The database's own row.

// CreateMeta forgets the row.
func (q queries) CreateMeta(ctx context.Context, p sqlitedb.CreateMetaParams) error {
	q.w.cache.meta = nil
	return q.Queries.CreateMeta(ctx, p)
}

// SetNamespace forgets the row.
func (q queries) SetNamespace(ctx context.Context, namespace string) error {
	q.w.cache.meta = nil
	return q.Queries.SetNamespace(ctx, namespace)
}

// SetOpened forgets the row.
func (q queries) SetOpened(ctx context.Context, p sqlitedb.SetOpenedParams) error {
	q.w.cache.meta = nil
	return q.Queries.SetOpened(ctx, p)
}

// Release forgets the row.
func (q queries) Release(ctx context.Context, identity string) error {
	q.w.cache.meta = nil
	return q.Queries.Release(ctx, identity)
}

// SetReleased forgets the row.
func (q queries) SetReleased(ctx context.Context, at sql.NullInt64) error {
	q.w.cache.meta = nil
	return q.Queries.SetReleased(ctx, at)
}

// Quarantine forgets the row.
func (q queries) Quarantine(ctx context.Context, reason string) error {
	q.w.cache.meta = nil
	return q.Queries.Quarantine(ctx, reason)
}

// RaiseEventsFrom forgets the row.
func (q queries) RaiseEventsFrom(ctx context.Context, position int64) error {
	q.w.cache.meta = nil
	return q.Queries.RaiseEventsFrom(ctx, position)
}

// SetDroppedTo forgets the row.
func (q queries) SetDroppedTo(ctx context.Context, position int64) error {
	q.w.cache.meta = nil
	return q.Queries.SetDroppedTo(ctx, position)
}

// SetArmed forgets the row.
func (q queries) SetArmed(ctx context.Context) error {
	q.w.cache.meta = nil
	return q.Queries.SetArmed(ctx)
}

// Connections.

// InsertConnection forgets the connection.
func (q queries) InsertConnection(ctx context.Context, p sqlitedb.InsertConnectionParams) error {
	q.w.cache.forgetConnection(p.ID)
	return q.Queries.InsertConnection(ctx, p)
}

// SetConnection forgets the connection.
func (q queries) SetConnection(ctx context.Context, p sqlitedb.SetConnectionParams) error {
	q.w.cache.forgetConnection(p.ID)
	return q.Queries.SetConnection(ctx, p)
}

// SetBucket forgets the connection.
func (q queries) SetBucket(ctx context.Context, p sqlitedb.SetBucketParams) error {
	q.w.cache.forgetConnection(p.ID)
	return q.Queries.SetBucket(ctx, p)
}

// BlankConnection forgets the connection.
func (q queries) BlankConnection(ctx context.Context, id []byte) error {
	q.w.cache.forgetConnection(id)
	return q.Queries.BlankConnection(ctx, id)
}

// Runnable rows.

// MakeRunnable forgets the runnable row.
func (q queries) MakeRunnable(ctx context.Context, p sqlitedb.MakeRunnableParams) error {
	q.w.cache.forgetRunnable(p.ConnectionID, p.HoldKey)
	return q.Queries.MakeRunnable(ctx, p)
}

// Served forgets the runnable row.
func (q queries) Served(ctx context.Context, p sqlitedb.ServedParams) error {
	q.w.cache.forgetRunnable(p.ConnectionID, p.HoldKey)
	return q.Queries.Served(ctx, p)
}

// Recount forgets the runnable row.
func (q queries) Recount(ctx context.Context, p sqlitedb.RecountParams) error {
	q.w.cache.forgetRunnable(p.ConnectionID, p.HoldKey)
	return q.Queries.Recount(ctx, p)
}

// HoldAuth forgets the runnable row.
func (q queries) HoldAuth(ctx context.Context, p sqlitedb.HoldAuthParams) (int64, error) {
	q.w.cache.forgetRunnable(p.ConnectionID, p.HoldKey)
	return q.Queries.HoldAuth(ctx, p)
}

// HoldRate forgets the runnable row.
func (q queries) HoldRate(ctx context.Context, p sqlitedb.HoldRateParams) error {
	q.w.cache.forgetRunnable(p.ConnectionID, p.HoldKey)
	return q.Queries.HoldRate(ctx, p)
}

// Saturate forgets the connection's runnable rows.
func (q queries) Saturate(ctx context.Context, conn []byte) error {
	q.w.cache.forgetRunnableOf(conn)
	return q.Queries.Saturate(ctx, conn)
}

// Unsaturate forgets the connection's runnable rows, if it changed any.
func (q queries) Unsaturate(ctx context.Context, conn []byte) (int64, error) {
	n, err := q.Queries.Unsaturate(ctx, conn)
	if n > 0 {
		q.w.cache.forgetRunnableOf(conn)
	}
	return n, err
}

// Pace forgets the connection's runnable rows.
func (q queries) Pace(ctx context.Context, p sqlitedb.PaceParams) error {
	q.w.cache.forgetRunnableOf(p.ConnectionID)
	return q.Queries.Pace(ctx, p)
}

// PauseRunnable forgets the connection's runnable rows.
func (q queries) PauseRunnable(ctx context.Context, p sqlitedb.PauseRunnableParams) error {
	q.w.cache.forgetRunnableOf(p.ConnectionID)
	return q.Queries.PauseRunnable(ctx, p)
}

// LiftAuth forgets the connection's runnable rows.
func (q queries) LiftAuth(ctx context.Context, conn []byte) (int64, error) {
	q.w.cache.forgetRunnableOf(conn)
	return q.Queries.LiftAuth(ctx, conn)
}

// Unbound forgets the connection's runnable rows.
func (q queries) Unbound(ctx context.Context, p sqlitedb.UnboundParams) error {
	q.w.cache.forgetRunnableOf(p.ConnectionID)
	return q.Queries.Unbound(ctx, p)
}

// DropRunnableOf forgets the connection's runnable rows.
func (q queries) DropRunnableOf(ctx context.Context, conn []byte) error {
	q.w.cache.forgetRunnableOf(conn)
	return q.Queries.DropRunnableOf(ctx, conn)
}

// Jobs and their attempts.

// SetContent forgets the job.
func (q queries) SetContent(ctx context.Context, p sqlitedb.SetContentParams) error {
	q.w.cache.drop(toID(p.ID))
	return q.Queries.SetContent(ctx, p)
}

// ReleaseReply forgets the reply, and whether any job waits.
func (q queries) ReleaseReply(ctx context.Context, p sqlitedb.ReleaseReplyParams) error {
	q.w.cache.drop(toID(p.JobID))
	q.w.cache.waiting = nil
	return q.Queries.ReleaseReply(ctx, p)
}

// SetPredecessorEnd forgets all jobs, because any of them may be a reply.
func (q queries) SetPredecessorEnd(ctx context.Context, p sqlitedb.SetPredecessorEndParams) error {
	q.w.cache.forgetJobs()
	return q.Queries.SetPredecessorEnd(ctx, p)
}

// WakeLooks forgets all jobs.
func (q queries) WakeLooks(ctx context.Context, p sqlitedb.WakeLooksParams) error {
	q.w.cache.forgetJobs()
	return q.Queries.WakeLooks(ctx, p)
}

// EndClaimLeases forgets all jobs.
func (q queries) EndClaimLeases(ctx context.Context, now sql.NullInt64) error {
	q.w.cache.forgetJobs()
	return q.Queries.EndClaimLeases(ctx, now)
}

// EndLookLeases forgets all jobs.
func (q queries) EndLookLeases(ctx context.Context, now sql.NullInt64) error {
	q.w.cache.forgetJobs()
	return q.Queries.EndLookLeases(ctx, now)
}

// RaiseFences forgets all jobs.
func (q queries) RaiseFences(ctx context.Context, notBefore int64) error {
	q.w.cache.forgetJobs()
	return q.Queries.RaiseFences(ctx, notBefore)
}
