package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// process is what a process has said of itself.
type process struct {
	store.Process
	started  time.Time
	draining bool
}

// Enlist implements store.Store.
func (s *Store) Enlist(ctx context.Context, p store.Process) error {
	_, err := call(ctx, s, "enlist", func(t *tx) (struct{}, error) {
		t.enlisted[p.Worker] = true
		if _, known := t.processes[p.Worker]; !known {
			t.processes[p.Worker] = process{Process: p, started: t.now.Add(-p.Age)}
		}
		return struct{}{}, nil
	})
	return err
}

// Drain implements store.Store.
func (s *Store) Drain(ctx context.Context, worker string) error {
	_, err := call(ctx, s, "drain", func(t *tx) (struct{}, error) {
		if p, known := t.processes[worker]; known {
			p.draining = true
			t.processes[worker] = p
		}
		return struct{}{}, nil
	})
	return err
}

// Servers implements store.Store.
func (s *Store) Servers(ctx context.Context) ([]store.Server, error) {
	return call(ctx, s, "servers", func(t *tx) ([]store.Server, error) {
		servers := make(map[string]store.Server)
		for worker := range t.enlisted {
			servers[worker] = t.server(worker)
		}
		for _, r := range t.active {
			if r.job.State != job.Claimed && r.job.State != job.Sending {
				continue
			}
			one, listed := servers[r.job.Worker]
			if !listed {
				one = t.server(r.job.Worker)
			}
			if one.Takeover.IsZero() {
				one.Seen = time.Time{} // its jobs say more
			}
			seen := r.claimedAt
			if r.job.State == job.Sending {
				seen = r.attempts[len(r.attempts)-1].ArmedAt
				one.Sending++
			} else {
				one.Claimed++
			}
			one.Seen, one.Takeover = latest(one.Seen, seen), latest(one.Takeover, r.job.NextAt)
			servers[r.job.Worker] = one
		}
		out := slices.Collect(maps.Values(servers))
		store.SortServers(out)
		return out[:min(len(out), store.MaxBatch)], nil
	})
}

// server returns a server without its jobs.
func (t *tx) server(worker string) store.Server {
	p := t.processes[worker]
	out := store.Server{
		Worker: worker, Version: p.Version, Host: p.Host, PID: p.PID, State: store.ServerLive, Started: p.started, Seen: p.started,
	}
	switch {
	case !t.enlisted[worker]:
		out.State = store.ServerGone
	case p.draining:
		out.State = store.ServerDraining
	}
	return out
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
