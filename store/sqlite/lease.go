package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// ClaimLooks implements store.Store.
func (s *Store) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	return write(ctx, s, "claim looks", func(ctx context.Context, t *tx) ([]store.Leased, error) {
		if err := t.refuseClosed(ctx); err != nil {
			return nil, err
		}
		ids, err := t.q.DueLooks(ctx, sqlitedb.DueLooksParams{Now: someMicros(t.now), MaxRows: page(p.Limit)})
		if err != nil {
			return nil, fmt.Errorf("due looks: %w", err)
		}
		conns := make(map[job.ID]store.Connection)
		out := make([]store.Leased, 0, len(ids))
		for _, id := range ids {
			l, err := t.leaseLook(ctx, id, p, conns)
			if err != nil {
				return nil, err
			}
			out = append(out, l)
		}
		return out, nil
	})
}

func (t *tx) leaseLook(ctx context.Context, id []byte, p store.ClaimParams, conns map[job.ID]store.Connection) (store.Leased, error) {
	h, err := t.load(ctx, id)
	if err != nil {
		return store.Leased{}, fmt.Errorf("read job: %w", err)
	}
	st := h.st
	token, end := fromID(randomID()), someMicros(t.now+micros(p.Lease))
	n, err := t.q.LeaseLook(ctx, sqlitedb.LeaseLookParams{
		ClaimToken: token, Now: someMicros(t.now), Worker: p.Worker, LeaseEnd: end, JobID: id, Version: st.Version,
	})
	if err != nil {
		return store.Leased{}, fmt.Errorf("lease look: %w", err)
	}
	if n != 1 {
		return store.Leased{}, fmt.Errorf("lease look %s: %w: read as due, but not so when written", toID(id), store.ErrIllegal)
	}
	st.ClaimToken, st.ClaimedAt, st.Worker, st.NextAt = token, someMicros(t.now), p.Worker, end
	h.st = st
	t.w.cache.keep(h)
	snap, err := t.view().completed(ctx, h, nil)
	if err != nil {
		return store.Leased{}, err
	}
	conn, ok := conns[snap.Connection]
	if !ok {
		if conn, err = t.getConnection(ctx, snap.Connection); err != nil {
			return store.Leased{}, err
		}
		conns[snap.Connection] = conn
	}
	return t.view().leased(ctx, snap, conn)
}

// Renew implements store.Store. A lease that is over is not renewed, even before a sweep ends
// it.
func (s *Store) Renew(ctx context.Context, lease time.Duration, refs []store.LeaseRef) ([]bool, error) {
	if err := rules.Bounded(len(refs)); err != nil {
		return nil, fmt.Errorf("renew: %w", err)
	}
	return write(ctx, s, "renew", func(ctx context.Context, t *tx) ([]bool, error) {
		out := make([]bool, len(refs))
		for i, r := range refs {
			t.w.cache.drop(r.Job)
			n, err := t.q.RenewLease(ctx, sqlitedb.RenewLeaseParams{
				LeaseEnd: someMicros(t.now + micros(lease)), JobID: fromID(r.Job),
				ClaimToken: fromID(r.Token), Now: someMicros(t.now),
			})
			if err != nil {
				return nil, err
			}
			out[i] = n == 1
		}
		return out, nil
	})
}
