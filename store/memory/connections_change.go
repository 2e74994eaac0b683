package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// ChangeConnection implements store.Store.
func (s *Store) ChangeConnection(ctx context.Context, change store.ConnectionChange) (store.Connection, error) {
	return call(ctx, s, "change connection", func(t *tx) (store.Connection, error) {
		c, ok := t.conns[change.ID]
		if !ok || c.Project != change.Project {
			return store.Connection{}, store.ErrNotFound
		}
		next, err := change.Changed(c.Connection, t.now)
		switch {
		case err != nil:
			return store.Connection{}, err
		case !rules.Class(next.Class) || next.KeyWindow < 0 || min(next.MaxInFlight, next.MaxPerMinute) < 0:
			return store.Connection{}, fmt.Errorf("%w: class %d, or a negative bound", store.ErrIllegal, next.Class)
		case !rules.MayCool(next.CoolDown):
			return store.Connection{}, fmt.Errorf("%w: cool-down %v", store.ErrIllegal, next.CoolDown)
		case change.Delete && t.inUse(c.ID):
			return store.Connection{}, store.ErrInUse
		}
		next.Settings = some(next.Settings)
		c.Connection = next
		if change.Limits != nil {
			c.bucketAt = c.bucket().Repaced(t.now.UnixMicro(), int64(next.MaxPerMinute)).At
		}
		if n := change.Credential; n != nil {
			c.sealed = copied(n)
			c.sealed.Data, c.sealed.Expires = some(n.Data), micros(n.Expires)
		}
		if n := change.Seal; n != nil {
			c.sealed.KeyID, c.sealed.Data = n.KeyID, some(n.Data)
		}
		if change.Delete {
			c.sealed = nil
		}
		t.unhold(c.ID, change)
		return t.public(c), nil
	})
}

// unhold ends the holds on a connection's hold keys that a change ends.
func (t *tx) unhold(conn job.ID, change store.ConnectionChange) {
	if change.Delete {
		maps.DeleteFunc(t.rows, func(k runnableKey, _ *runnableRow) bool { return k.conn == conn })
		return
	}
	if change.Credential != nil {
		held := false
		for k, row := range t.rows {
			if k.conn == conn {
				held = held || !row.authHoldAt.IsZero()
				row.authHoldAt, row.authHoldReason, row.authHoldCause = time.Time{}, "", 0
			}
		}
		if held {
			t.wakeLooks(conn)
		}
	}
	t.hint[store.WatchWork] = change.Resume || change.Credential != nil || change.Limits != nil
}

// wakeLooks makes the blocked looks and polls of a connection due.
func (t *tx) wakeLooks(conn job.ID) {
	for _, r := range t.active {
		j := r.job
		if j.Connection == conn && looked(j.State) && j.Blocked != "" && j.ClaimToken.IsZero() && j.NextAt.After(t.now) {
			j.NextAt = t.now
			t.put(r, j)
		}
	}
}

// inUse reports whether a job of the connection has not ended.
func (t *tx) inUse(conn job.ID) bool {
	return slices.ContainsFunc(t.all, func(r *record) bool {
		return r.job.Connection == conn && !r.job.State.Terminal()
	})
}

// Missed implements store.Store.
func (s *Store) Missed(ctx context.Context, project string, id job.ID, limit int) ([]job.Snapshot, error) {
	return call(ctx, s, "missed", func(t *tx) ([]job.Snapshot, error) {
		c, ok := t.conns[id]
		if !ok || c.Project != project || c.PausedAt.IsZero() {
			return nil, nil
		}
		var out []job.Snapshot
		for _, r := range t.active {
			j := &r.job
			switch {
			case j.Connection != id || j.IsNotice() || !j.State.Runnable() || !j.WaitsFor.IsZero():
			case j.NextAt.Before(c.PausedAt) || j.NextAt.After(t.now) || !j.StartDeadline.After(t.now):
			case len(out) < rules.Page(limit):
				out = append(out, r.snapshot(t.now))
			}
		}
		return out, nil
	})
}
