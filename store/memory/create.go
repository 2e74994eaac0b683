package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Create implements store.Store.
func (s *Store) Create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	return batch(ctx, s, "create", items, func(t *tx, n store.NewJob) store.Created {
		c, err := t.create(n)
		if err != nil {
			return store.Created{Err: err}
		}
		return c
	})
}

func (t *tx) create(n store.NewJob) (store.Created, error) {
	bound := key{n.Spec.Project, n.Spec.Key}
	if r, ok := t.keys[bound]; ok {
		return store.Created{Snapshot: r.snapshot(t.now)}, nil
	}
	if err := t.removed(bound); err != nil {
		return store.Created{}, err
	}
	conn, ok := t.conns[n.Spec.Connection]
	if !ok {
		conn = new(connection)
	}
	if err := rules.MayCreate(&n.Spec, conn.Project, !ok || !conn.Deleted.IsZero()); err != nil {
		return store.Created{}, err
	}
	j, err := t.newJob(n, conn.Class)
	if err != nil {
		return store.Created{}, err
	}
	if !j.ReplyTo.IsZero() {
		var p rules.Predecessor
		if other, ok := t.jobs[j.ReplyTo]; ok {
			p = rules.Predecessor{Project: other.job.Project, State: other.job.State, Waiting: t.waitingFor(j.ReplyTo)}
		}
		if j, err = rules.Await(j, p); err != nil {
			return store.Created{}, err
		}
	}
	if _, taken := t.jobs[j.ID]; taken {
		return store.Created{}, fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, j.ID)
	}
	if j.OwnEffectKey != "" {
		if t.effectKeys[n.EffectKey] {
			return store.Created{}, store.ErrEffectKeyTaken
		}
		t.effectKeys[n.EffectKey] = true
	}
	r := &record{recipients: slices.Clone(n.Recipients), callback: n.Callback}
	t.jobs[j.ID], t.keys[bound], t.all = r, r, append(t.all, r)
	if !j.WaitsFor.IsZero() {
		t.waiting[j.WaitsFor] = append(t.waiting[j.WaitsFor], r)
	}
	t.put(r, j)
	t.event(r, job.Event{Cause: job.CauseSubmitted, Actor: n.Actor})
	out := store.Created{Snapshot: r.snapshot(t.now), Created: true}
	if out.Started = t.start(r, n.Start); out.Started == nil {
		t.runnable(j)
	}
	return out, nil
}

// waitingFor counts the jobs that wait for a job, ended ones included.
func (t *tx) waitingFor(id job.ID) (n int64) {
	for _, r := range t.waiting[id] {
		if t.jobs[r.job.ID] == r && r.job.WaitsFor == id {
			n++
		}
	}
	return n
}

// start claims a job that has just been stored, if it is the next of its queue.
func (t *tx) start(r *record, p *store.ClaimParams) *store.Leased {
	if p == nil || t.suspension().Suspended() {
		return nil
	}
	for _, q := range t.queues() {
		if q.key != (runnableKey{r.job.Connection, r.job.HoldKey}) || q.jobs[0] != r {
			continue
		}
		if at, ok := t.runnableAt(q); !ok || at.After(t.now) {
			return nil
		}
		if out := t.serve(q, 1, *p, nil); len(out) == 1 {
			return &out[0]
		}
	}
	return nil
}

// newJob returns a job as it is first stored, in memory of its own.
func (t *tx) newJob(n store.NewJob, class job.Class) (job.Job, error) {
	j, err := rules.NewJob(&n, class, t.now)
	if err != nil {
		return j, err
	}
	fp, err := job.ParseFingerprint(j.Fingerprint.Bytes())
	if err != nil {
		return j, fmt.Errorf("%w: %w", store.ErrIllegal, err)
	}
	j.Fingerprint, j.Payload, j.Labels = fp, some(j.Payload), someLabels(j.Labels)
	return j, nil
}
