package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/store"
)

// Enlist implements store.Store. It also removes what is known of servers that have ended.
func (r *Roles) Enlist(ctx context.Context, p store.Process) error {
	if err := r.engine.Enlist(ctx, p.Worker); err != nil {
		return err
	}
	return writeOnly(ctx, r, "enlist", func(ctx context.Context, t Tx) error {
		known, err := t.Q.Servers(ctx, store.MaxBatch)
		if err != nil {
			return fmt.Errorf("servers: %w", err)
		}
		names := make([]string, 0, len(known))
		for _, row := range known {
			names = append(names, row.Worker)
		}
		absent, err := t.Absent(ctx, names)
		if err != nil {
			return err
		}
		if len(absent) > 0 {
			if err := t.Q.ForgetServers(ctx, absent); err != nil {
				return fmt.Errorf("forget servers that have ended: %w", err)
			}
		}
		return named("server", t.Q.PutServer(ctx, shareddb.PutServerParams{
			Worker: p.Worker, Version: p.Version, Host: p.Host, Pid: int64(p.PID), StartedAt: t.Now.Add(-p.Age),
		}))
	})
}

// Drain implements store.Store.
func (r *Roles) Drain(ctx context.Context, worker string) error {
	return writeOnly(ctx, r, "drain", func(ctx context.Context, t Tx) error { return t.Q.DrainServer(ctx, worker) })
}

// Servers implements store.Store.
func (r *Roles) Servers(ctx context.Context) ([]store.Server, error) {
	return read(ctx, r, "servers", func(ctx context.Context, v View) ([]store.Server, error) {
		servers, busy, err := v.servers(ctx)
		if err != nil {
			return nil, err
		}
		absent, err := v.Absent(ctx, slices.Collect(maps.Keys(servers)))
		if err != nil {
			return nil, err
		}
		for _, name := range absent {
			if !slices.Contains(busy, name) {
				delete(servers, name) // it has ended, and left nothing
			}
		}
		gone, err := v.Gone(ctx, busy)
		if err != nil {
			return nil, err
		}
		for _, name := range gone {
			servers[name].State = store.ServerGone
		}
		out := make([]store.Server, 0, len(servers))
		for _, s := range servers {
			out = append(out, *s)
		}
		store.SortServers(out)
		return out[:min(len(out), store.MaxBatch)], nil
	})
}

// servers returns the servers that have a row or jobs under way, by their names, and the names of
// the latter.
func (v View) servers(ctx context.Context) (all map[string]*store.Server, busy []string, err error) {
	rows, err := v.Q.Servers(ctx, store.MaxBatch)
	if err != nil {
		return nil, nil, fmt.Errorf("servers: %w", err)
	}
	work, err := v.Q.WorkByWorker(ctx, store.MaxBatch)
	if err != nil {
		return nil, nil, fmt.Errorf("jobs under way: %w", err)
	}
	all = make(map[string]*store.Server, len(rows))
	for _, row := range rows {
		s := &store.Server{
			Worker: row.Worker, Version: row.Version, Host: row.Host, PID: int(row.Pid),
			State: store.ServerLive, Started: row.StartedAt, Seen: row.StartedAt,
		}
		if row.Draining {
			s.State = store.ServerDraining
		}
		all[row.Worker] = s
	}
	for _, row := range work {
		s := all[row.Worker]
		if s == nil {
			s = &store.Server{Worker: row.Worker, State: store.ServerLive}
			all[row.Worker] = s
		}
		s.Claimed, s.Sending, s.Seen, s.Takeover = row.Claimed, row.Sending, row.SeenAt, row.TakeoverAt
		busy = append(busy, row.Worker)
	}
	return all, busy, nil
}
