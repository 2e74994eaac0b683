package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file:
//   - while meta.stops is 0, no claim and no arm reads stops. It is written with each change of
//     one, so a transaction that begins after a stop is durable asks;
//   - a claim that finds a runnable row stopped sets it aside until a time (store.Stop.SetAside),
//     on a stop that it has locked against its end. The end of a stop clears what was set aside by
//     any stop: what another one covers is set aside again. So no row waits for a stop that is
//     gone;
//   - jobs that a stop covers one by one have job.Stopped, by which its end finds them.

// maxWoken bounds the jobs that the end of a stop makes due, in batches of store.MaxBatch. Others
// wait until they ask again.
const maxWoken = 20

// CreateStop implements store.Store.
func (r *Roles) CreateStop(ctx context.Context, n store.NewStop) (store.Stop, bool, error) {
	created := false
	stop, err := write(ctx, r, "create stop", func(ctx context.Context, t Tx) (store.Stop, error) {
		created = false
		made, err := n.At(t.Now)
		if err != nil {
			return made, err
		}
		if err := t.LockCount(ctx, CountedStops, ""); err != nil {
			return made, err
		}
		var out store.Stop
		out, created, err = t.createStop(ctx, made)
		return out, err
	})
	return stop, created && err == nil, err
}

// createStop stores a stop, or finds the same one.
func (t Tx) createStop(ctx context.Context, made store.Stop) (store.Stop, bool, error) {
	if made.Scope == store.StopConnection {
		c, err := t.Connection(ctx, made.Connection)
		if err == nil && (c.Project != made.Project || !c.Deleted.IsZero()) {
			err = store.ErrNotFound
		}
		if err != nil {
			return made, false, err
		}
	}
	if err := t.Q.PruneStops(ctx, t.Now.Add(-store.StopsKept)); err != nil {
		return made, false, err
	}
	others, err := t.StopsFor(ctx, []job.ID{made.Connection}, []string{made.Destination})
	if err != nil {
		return made, false, err
	}
	for _, o := range others {
		if o.Open(t.Now) && o.Same(&made) {
			return t.sameStop(ctx, o, made.Note)
		}
	}
	if made.Breaker() {
		if err := t.replaceBreaker(ctx, &made); err != nil {
			return made, false, err
		}
	}
	return t.insertStop(ctx, made)
}

// sameStop returns a stop that is asked for again, with the new note. A breaker keeps its own.
func (t Tx) sameStop(ctx context.Context, o store.Stop, note string) (store.Stop, bool, error) {
	if o.Breaker() {
		return o, false, nil
	}
	o.Note = note
	return o, false, named("note", t.Q.SetStopNote(ctx, shareddb.SetStopNoteParams{Note: note, ID: o.ID}))
}

// insertStop stores a stop, if there is room for one more.
func (t Tx) insertStop(ctx context.Context, made store.Stop) (store.Stop, bool, error) {
	open, err := t.Q.CountStops(ctx, shareddb.CountStopsParams{Now: t.Now, Wide: made.Scope.Wide(), Breaker: made.Breaker()})
	if err == nil && open >= made.MostOpen() {
		err = fmt.Errorf("%w: %d stops have not ended", store.ErrQuota, open)
	}
	if err != nil {
		return made, false, err
	}
	stored, err := t.Q.InsertStop(ctx, shareddb.InsertStopParams{
		ID: made.ID, Scope: made.Scope, Project: made.Project, Connector: made.Connector,
		ConnectionID: column.OptionalID(made.Connection), HoldKey: made.Destination, Label: made.Label, Value: made.Value,
		Cause: made.Cause, Note: made.Note, BeginAt: made.Begin, EndAt: made.End, Planned: made.Planned,
		CreatedAt: made.Created, CreatedBy: made.CreatedBy, HoldWindows: made.HoldWindows, ProbeAt: made.ProbeAt, Probes: made.Probes,
	})
	if err == nil && stored != 1 {
		err = fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, made.ID)
	}
	if err != nil {
		return made, false, err
	}
	return made, true, named("open stops", t.Q.SetOpenStops(ctx, t.Now))
}

// replaceBreaker removes the last breaker of a destination.
func (t Tx) replaceBreaker(ctx context.Context, made *store.Stop) error {
	row, err := t.Q.BreakerOf(ctx, shareddb.BreakerOfParams{Connection: made.Connection, HoldKey: made.Destination})
	if err != nil {
		if err = orNotFound(err); errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("the last breaker: %w", err)
	}
	last := toStop(row)
	made.Reopen(&last, t.Now)
	return named("the last breaker", t.Q.RemoveStop(ctx, last.ID))
}

// TakeProbe implements store.Store.
func (r *Roles) TakeProbe(ctx context.Context, p store.Probe) (bool, error) {
	return write(ctx, r, "take probe", func(ctx context.Context, t Tx) (bool, error) {
		until := job.Micros(t.Now.Add(p.For))
		n, err := t.Q.TakeProbe(ctx, shareddb.TakeProbeParams{
			Prober: column.OptionalID(p.Token), Until: until, EndAt: until.Add(store.BreakerKept), ID: p.Breaker, Now: t.Now,
		})
		return n == 1, err
	})
}

// EndProbe implements store.Store.
func (r *Roles) EndProbe(ctx context.Context, p store.ProbeResult) (store.Stop, bool, error) {
	counts := false
	stop, err := write(ctx, r, "end probe", func(ctx context.Context, t Tx) (store.Stop, error) {
		row, err := t.Q.LockStop(ctx, p.Breaker)
		if err != nil {
			return store.Stop{}, orNotFound(err)
		}
		stop := toStop(row)
		if counts = stop.EndProbe(p, t.Now); !counts {
			return stop, nil
		}
		if p.Verdict == store.ProbeWell {
			return stop, t.endStop(ctx, &stop)
		}
		err = t.Q.SetProbe(ctx, shareddb.SetProbeParams{
			ProbeAt: stop.ProbeAt, EndAt: stop.End, Probes: stop.Probes, Note: stop.Note, ID: stop.ID,
		})
		if err != nil {
			return stop, err
		}
		return stop, t.awaitProbe(ctx, &stop)
	})
	return stop, counts && err == nil, err
}

// awaitProbe makes a repeat under a key due as the next probe, and then the rows that claims have
// set aside.
func (t Tx) awaitProbe(ctx context.Context, stop *store.Stop) error {
	rows, err := t.Q.StoppedJobs(ctx, shareddb.StoppedJobsParams{
		Now: t.Now, HoldKey: stop.Destination, Connection: stop.Connection, Repeats: true, MaxRows: 1,
	})
	if err != nil {
		return fmt.Errorf("stopped jobs: %w", err)
	}
	p := shareddb.WakeStoppedParams{Now: stop.Repeats()}
	for _, r := range rows {
		p.Ids = append(p.Ids, r.JobID)
	}
	if len(p.Ids) > 0 {
		if err := t.Q.WakeStopped(ctx, p); err != nil {
			return fmt.Errorf("stopped jobs: %w", err)
		}
	}
	return named("runnable rows", t.Q.EndSetAside(ctx, shareddb.EndSetAsideParams{
		Until: stop.Rows(), HoldKey: stop.Destination, Connection: stop.Connection,
	}))
}

// EndStop implements store.Store.
func (r *Roles) EndStop(ctx context.Context, project string, id job.ID, actor string) (store.Stop, error) {
	return write(ctx, r, "end stop", func(ctx context.Context, t Tx) (store.Stop, error) {
		row, err := t.Q.LockStop(ctx, id)
		if err != nil {
			return store.Stop{}, orNotFound(err)
		}
		stop := toStop(row)
		if project != "" && stop.Project != project {
			return store.Stop{}, store.ErrNotFound
		}
		if !stop.Open(t.Now) {
			return stop, nil
		}
		stop.Ended, stop.EndedBy = t.Now, actor
		return stop, t.endStop(ctx, &stop)
	})
}

// endStop writes the end of a stop.
func (t Tx) endStop(ctx context.Context, stop *store.Stop) error {
	err := t.Q.SetStopEnded(ctx, shareddb.SetStopEndedParams{EndedAt: stop.Ended, EndedBy: stop.EndedBy, ID: stop.ID})
	if err != nil {
		return err
	}
	if err := t.Q.SetOpenStops(ctx, t.Now); err != nil {
		return fmt.Errorf("open stops: %w", err)
	}
	if stop.Breaker() {
		return t.wakeStopped(ctx, stop.Connection, stop.Destination)
	}
	return t.wakeStopped(ctx, job.ID{}, "")
}

// wakeStopped makes due what stops have put off, repeats first: of a connection under a hold key, or
// all.
func (t Tx) wakeStopped(ctx context.Context, conn job.ID, hold string) error {
	start := t.Now
	for range maxWoken {
		rows, err := t.Q.StoppedJobs(ctx, shareddb.StoppedJobsParams{Now: t.Now, HoldKey: hold, Connection: conn, MaxRows: store.MaxBatch})
		if err != nil {
			return fmt.Errorf("stopped jobs: %w", err)
		}
		if len(rows) == 0 {
			break
		}
		p := shareddb.WakeStoppedParams{Now: t.Now}
		ready := shareddb.WakeRunnableParams{Now: t.Now}
		for _, r := range rows {
			p.Ids = append(p.Ids, r.JobID)
			if !r.State.Runnable() {
				start = t.Now.Add(store.StopHeadStart)
				continue
			}
			ready.Connections, ready.HoldKeys = append(ready.Connections, r.ConnectionID), append(ready.HoldKeys, r.HoldKey)
		}
		if err := t.Q.WakeStopped(ctx, p); err != nil {
			return fmt.Errorf("stopped jobs: %w", err)
		}
		if len(ready.Connections) > 0 {
			if err := t.Q.WakeRunnable(ctx, ready); err != nil {
				return fmt.Errorf("runnable rows: %w", err)
			}
		}
		if len(rows) < store.MaxBatch {
			break
		}
	}
	t.Wake(store.WatchWork)
	return named("runnable rows", t.Q.EndSetAside(ctx, shareddb.EndSetAsideParams{Until: start, HoldKey: hold, Connection: conn}))
}

// CountOpenStops returns how many stops may be in force now or later, of a number that may be too
// high since some have ended by themselves.
func (v View) CountOpenStops(ctx context.Context, most int64, now time.Time) (int64, error) {
	if most == 0 {
		return 0, nil
	}
	var open int64
	for _, kind := range []shareddb.CountStopsParams{{}, {Wide: true}, {Breaker: true}} {
		kind.Now = now
		n, err := v.Q.CountStops(ctx, kind)
		if err != nil {
			return 0, fmt.Errorf("stops: %w", err)
		}
		open += n
	}
	return open, nil
}

// StopsFor returns the stops that have not ended and may be over these connections and hold
// keys, or over any of their jobs.
func (v View) StopsFor(ctx context.Context, conns []job.ID, holds []string) ([]store.Stop, error) {
	rows, err := v.Q.StopsFor(ctx, shareddb.StopsForParams{Connections: Listed(conns), HoldKeys: Listed(holds)})
	return store.Converted(rows, named("stops", err), toStop)
}

// StopsOverJobs returns the stop that is in force over each of these jobs, for those that have
// one.
func (v View) StopsOverJobs(ctx context.Context, ids []job.ID) (map[job.ID]*store.Stop, error) {
	ids, targets, err := v.stopTargets(ctx, ids)
	if err != nil {
		return nil, err
	}
	over, err := v.stopsOver(ctx, targets)
	if err != nil {
		return nil, err
	}
	out := make(map[job.ID]*store.Stop)
	for i, s := range over {
		if s != nil {
			out[ids[i]] = s
		}
	}
	return out, nil
}

func (v View) stopsOver(ctx context.Context, targets []store.StopTarget) ([]*store.Stop, error) {
	conns, holds := make([]job.ID, len(targets)), make([]string, len(targets))
	for i := range targets {
		conns[i], holds[i] = targets[i].Connection, targets[i].HoldKey
	}
	stops, err := v.StopsFor(ctx, conns, holds)
	if err != nil {
		return nil, err
	}
	out := make([]*store.Stop, len(targets))
	for i := range targets {
		out[i] = store.StopOver(stops, targets[i], v.Now)
	}
	return out, nil
}

// markHeld marks those of the jobs whose window is over and begins again (store.WindowHeld). Stops
// are read only if there is one.
func (v View) markHeld(ctx context.Context, jobs []*job.Snapshot) error {
	var ids, conns []job.ID
	var holds []string
	since := v.Now
	byID := make(map[job.ID]*job.Snapshot)
	for _, s := range jobs {
		if s.StartDeadline.After(v.Now) {
			continue
		}
		ids, conns, holds = append(ids, s.ID), append(conns, s.Connection), append(holds, s.HoldKey)
		byID[s.ID] = s
		if s.StartDeadline.Before(since) {
			since = s.StartDeadline
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := v.Q.HoldingStops(ctx, shareddb.HoldingStopsParams{
		Since: since.Add(-store.WindowsHeldAfter), Connections: Listed(conns), HoldKeys: Listed(holds),
	})
	stops, err := store.Converted(rows, named("stops that hold windows", err), toStop)
	if err != nil || len(stops) == 0 {
		return err
	}
	ids, targets, err := v.stopTargets(ctx, ids)
	for i, id := range ids {
		byID[id].WindowHeld = store.WindowHeld(stops, targets[i], &byID[id].Job)
	}
	return err
}

// stopTargets returns jobs as stops see them, with their ids.
func (v View) stopTargets(ctx context.Context, of []job.ID) ([]job.ID, []store.StopTarget, error) {
	rows, err := v.Q.StopTargets(ctx, of)
	if err != nil {
		return nil, nil, fmt.Errorf("stops: %w", err)
	}
	ids, targets := make([]job.ID, len(rows)), make([]store.StopTarget, len(rows))
	for i, r := range rows {
		labels, _, err := store.DecodeTerms(r.Labels, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("job %s: %w", r.JobID, err)
		}
		ids[i] = r.JobID
		targets[i] = store.StopTarget{Project: r.Project, Connector: r.Connector, Connection: r.ConnectionID, HoldKey: r.HoldKey, Labels: labels}
	}
	return ids, targets, nil
}

// StopsOver implements store.Store.
func (r *Roles) StopsOver(ctx context.Context, targets []store.StopTarget) ([]*store.Stop, error) {
	return read(ctx, r, "stops over", func(ctx context.Context, v View) ([]*store.Stop, error) {
		return v.stopsOver(ctx, targets[:min(len(targets), store.MaxBatch)])
	})
}

// ListStops implements store.Store.
func (r *Roles) ListStops(ctx context.Context, q store.StopQuery) (store.StopPage, error) {
	return read(ctx, r, "list stops", func(ctx context.Context, v View) (store.StopPage, error) {
		most := rules.Page(q.Limit)
		p := shareddb.ListStopsParams{
			AfterAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), AfterID: job.ID(bytes.Repeat([]byte{0xff}, 16)),
			Project: q.Project, Ended: q.Ended, Now: v.Now, MaxRows: int32(most + 1),
		}
		if !q.After.IsZero() {
			at, err := v.Q.StopPlace(ctx, q.After)
			if err != nil {
				return store.StopPage{}, orNotFound(err)
			}
			p.AfterAt, p.AfterID = at, q.After
		}
		rows, err := v.Q.ListStops(ctx, p)
		stops, err := store.Converted(rows, err, toStop)
		n := min(len(stops), most)
		return store.StopPage{Stops: stops[:n:n], More: len(stops) > n}, err
	})
}

// PreviewStop implements store.Store.
func (r *Roles) PreviewStop(ctx context.Context, s store.Stop, limit int) (store.StopPreview, error) {
	return read(ctx, r, "preview stop", func(ctx context.Context, v View) (store.StopPreview, error) {
		var out store.StopPreview
		labels := make(map[string]string)
		if s.Scope == store.StopLabel {
			labels[s.Label] = s.Value
		}
		over := shareddb.PreviewWindowsParams{
			Now: v.Now, Until: s.PreviewEnd(v.Now), Most: store.StopCounted, Project: s.Project, Connector: s.Connector,
			AnyConnection: s.Connection.IsZero(), Connection: s.Connection, HoldKey: s.Destination,
			Labels: store.EncodeLabels(labels), MaxRows: store.StopCounted,
		}
		ids, err := v.Q.PreviewWindows(ctx, over)
		if err != nil {
			return out, fmt.Errorf("windows: %w", err)
		}
		repeats, err := v.Q.PreviewRepeats(ctx, shareddb.PreviewRepeatsParams{
			Most: over.Most, Project: over.Project, Connector: over.Connector, AnyConnection: over.AnyConnection,
			Connection: over.Connection, HoldKey: over.HoldKey, Labels: over.Labels, MaxRows: store.MaxBatch,
		})
		if err != nil {
			return out, fmt.Errorf("repeats: %w", err)
		}
		out.Repeats = int64(len(repeats))
		if out.Waiting, err = v.countWaiting(ctx, s, over.Labels); err != nil {
			return out, fmt.Errorf("waiting jobs: %w", err)
		}
		out.UnderWay, err = v.Q.PreviewUnderWay(ctx, shareddb.PreviewUnderWayParams{
			Most: over.Most, Project: over.Project, Connector: over.Connector, AnyConnection: over.AnyConnection,
			Connection: over.Connection, HoldKey: over.HoldKey, Labels: over.Labels,
		})
		if err != nil {
			return out, fmt.Errorf("jobs under way: %w", err)
		}
		out.Windows = int64(len(ids))
		if out.WindowEnds, err = v.Snapshots(ctx, ids[:min(len(ids), rules.Page(limit))], true); err != nil {
			return out, err
		}
		out.KeyEnds, err = v.Snapshots(ctx, repeats, true)
		return out, err
	})
}

// countWaiting counts the jobs that wait to start and that a stop would hold back, by the narrowest
// index that leads to them: not more than store.StopCounted are read.
func (v View) countWaiting(ctx context.Context, s store.Stop, labels string) (int64, error) {
	const most = store.StopCounted
	switch {
	case s.Scope == store.StopConnection:
		return v.Q.PreviewWaitingOfConnection(ctx, shareddb.PreviewWaitingOfConnectionParams{Connection: s.Connection, Most: most})
	case s.Project != "":
		return v.Q.PreviewWaitingOfProject(ctx, shareddb.PreviewWaitingOfProjectParams{
			Project: s.Project, Most: most, Connector: s.Connector, HoldKey: s.Destination, Labels: labels,
		})
	default:
		return v.Q.PreviewWaiting(ctx, shareddb.PreviewWaitingParams{Most: most, Connector: s.Connector, HoldKey: s.Destination})
	}
}

func toStop(r shareddb.Stop) store.Stop {
	return store.Stop{
		ID: r.ID, Scope: r.Scope, Project: r.Project, Connector: r.Connector, Connection: job.ID(r.ConnectionID),
		Destination: r.HoldKey, Label: r.Label, Value: r.Value, Cause: r.Cause, Note: r.Note,
		Begin: r.BeginAt, End: r.EndAt, Planned: r.Planned, Created: r.CreatedAt, CreatedBy: r.CreatedBy,
		Ended: r.EndedAt, EndedBy: r.EndedBy, HoldWindows: r.HoldWindows, ProbeAt: r.ProbeAt, Prober: job.ID(r.Prober), Probes: r.Probes,
	}
}
