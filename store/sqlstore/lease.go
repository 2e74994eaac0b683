package sqlstore

import (
	"context"
	"slices"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// ClaimLooks is store.Store's within a transaction. A job that another transaction is writing to
// is left to the next call.
func (t Tx) ClaimLooks(ctx context.Context, p store.ClaimParams) ([]store.Leased, error) {
	if err := t.RefuseClosed(ctx); err != nil {
		return nil, err
	}
	ids, err := t.Q.DueLooks(ctx, shareddb.DueLooksParams{Now: t.Now, MaxRows: int32(rules.Page(p.Limit))})
	if err != nil || len(ids) == 0 {
		return nil, named("due looks", err)
	}
	err = t.Q.LeaseLooks(ctx, shareddb.LeaseLooksParams{Now: t.Now, Worker: p.Worker, LeaseEnd: t.Now.Add(p.Lease), Ids: ids})
	if err != nil {
		return nil, named("lease looks", err)
	}
	out, err := t.Leased(ctx, ids)
	if err != nil {
		return nil, err
	}
	if err := t.beginHeld(ctx, out); err != nil {
		return nil, err
	}
	if open, err := t.OpenStops(ctx); err != nil || open == 0 {
		return out, err
	}
	targets := make([]store.StopTarget, len(out))
	for i := range out {
		targets[i] = store.StopTargetOf(&out[i].Spec, out[i].Connection.Connector)
	}
	over, err := t.stopsOver(ctx, targets)
	for i := range over {
		out[i].Stopped = over[i]
	}
	return out, err
}

// beginHeld begins the windows again that are over, and that a stop holds.
func (t Tx) beginHeld(ctx context.Context, leased []store.Leased) error {
	jobs := make([]*job.Snapshot, len(leased))
	for i := range leased {
		jobs[i] = &leased[i].Snapshot
	}
	if err := t.markHeld(ctx, jobs); err != nil {
		return err
	}
	for _, s := range jobs {
		if !s.WindowHeld {
			continue
		}
		s.Job, s.WindowHeld = s.WindowAgain(t.Now), false
		if err := t.Q.BeginWindow(ctx, shareddb.BeginWindowParams{StartDeadline: s.StartDeadline, JobID: s.ID}); err != nil {
			return named("window", err)
		}
	}
	return nil
}

// Leased reads jobs with what their preparation needs, in the order of the ids.
func (v View) Leased(ctx context.Context, ids []job.ID) ([]store.Leased, error) {
	snaps, err := v.Snapshots(ctx, ids, true)
	if err != nil {
		return nil, err
	}
	conns, replies := make([]job.ID, len(snaps)), make([]job.ID, len(snaps))
	for i, s := range snaps {
		conns[i], replies[i] = s.Connection, s.ReplyTo
	}
	connections, err := v.Connections(ctx, conns)
	if err != nil {
		return nil, err
	}
	answered, err := v.Answered(ctx, replies)
	out := make([]store.Leased, len(snaps))
	for i, s := range snaps {
		out[i] = store.Leased{Snapshot: s, Connection: connections[s.Connection], ReplyTo: answered[s.ReplyTo]}
	}
	return out, err
}

// Answered returns the external ids of the effects of jobs that others reply to; ids that are
// zero have none.
func (v View) Answered(ctx context.Context, ids []job.ID) (map[job.ID]string, error) {
	ids = slices.DeleteFunc(ids, job.ID.IsZero)
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := v.Q.ReplyIDs(ctx, ids)
	out := make(map[job.ID]string, len(rows))
	for _, r := range rows {
		out[r.JobID] = r.ExternalID
	}
	return out, named("effects replied to", err)
}
