package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

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
	if !ok || conn.Project != n.Spec.Project || !conn.Deleted.IsZero() {
		return store.Created{}, fmt.Errorf("connection %s: %w", n.Spec.Connection, store.ErrNotFound)
	}
	j, err := t.newJob(n, conn.Class)
	if err != nil {
		return store.Created{}, err
	}
	if !j.ReplyTo.IsZero() {
		other, ok := t.jobs[j.ReplyTo]
		if !ok || other.job.Project != j.Project {
			return store.Created{}, fmt.Errorf("%w: %s", store.ErrReplyTo, j.ReplyTo)
		}
		if other.job.State != job.Succeeded {
			if t.waitingFor(j.ReplyTo) >= store.MaxReplies {
				return store.Created{}, fmt.Errorf("%w: %s", store.ErrManyReplies, j.ReplyTo)
			}
			j.WaitsFor, j.PredecessorEnd = j.ReplyTo, other.job.State.BadEnd()
			j.StartDeadline = j.Deadline(j.NextAt)
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
	r := &record{recipients: slices.Clone(n.Recipients)}
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

// waitingFor counts the jobs that wait for a job, ended ones too.
func (t *tx) waitingFor(id job.ID) (n int) {
	for _, r := range t.waiting[id] {
		if t.jobs[r.job.ID] == r && r.job.WaitsFor == id {
			n++
		}
	}
	return n
}

// start claims a job that has just been stored, if it is the next of its queue.
func (t *tx) start(r *record, p *store.ClaimParams) *store.Leased {
	if p == nil || t.still().Stands() {
		return nil
	}
	for _, q := range t.queues() {
		if q.key != (readyKey{r.job.Connection, r.job.HoldKey}) || q.jobs[0] != r {
			continue
		}
		if at, ok := t.runnableAt(q); !ok || at.After(t.now) {
			return nil
		}
		if out := t.serve(q, 1, *p); len(out) == 1 {
			return &out[0]
		}
	}
	return nil
}

// newJob is a job as it is stored for the first time.
func (t *tx) newJob(n store.NewJob, class job.Class) (job.Job, error) {
	j := job.Job{Spec: n.Spec}
	if n.Class != 0 {
		class = n.Class
	}
	if j.Policy == 0 {
		j.Policy = job.Hold
	}
	switch {
	case j.Key == "":
		return j, fmt.Errorf("%w: no key", store.ErrIllegal)
	case j.StartWindow < 0:
		return j, fmt.Errorf("%w: start window %v", store.ErrIllegal, j.StartWindow)
	case j.Policy > job.Resend:
		return j, fmt.Errorf("%w: policy %d", store.ErrIllegal, j.Policy)
	case !mayCoolFor(j.CoolDown):
		return j, fmt.Errorf("%w: cool-down %v", store.ErrIllegal, j.CoolDown)
	case j.SkipIfPresent < 0 || j.SkipIfPresent.Truncate(time.Microsecond) > job.MaxPresentAge:
		return j, fmt.Errorf("%w: skip if present for %v", store.ErrIllegal, j.SkipIfPresent)
	case j.Trace != "" && (len(j.Trace) < 55 || len(j.Trace) > job.MaxTrace):
		return j, fmt.Errorf("%w: a trace of %d bytes", store.ErrIllegal, len(j.Trace))
	case !rules.Class(class):
		return j, fmt.Errorf("%w: class %d", store.ErrIllegal, class)
	}
	fp, err := job.ParseFingerprint(j.Fingerprint.Bytes())
	if err != nil {
		return j, fmt.Errorf("%w: %w", store.ErrIllegal, err)
	}
	j.Fingerprint, j.Payload, j.Labels, j.Created = fp, some(j.Payload), someLabels(j.Labels), t.now
	for _, d := range []*time.Duration{
		&j.StartWindow, &j.WaitWindow, &j.Retry.MinBackoff, &j.Retry.MaxBackoff, &j.Retry.AttemptTimeout, &j.CoolDown, &j.SkipIfPresent,
	} {
		*d = d.Truncate(time.Microsecond)
	}
	due := t.now
	if !n.ScheduleTime.IsZero() {
		due = micros(n.ScheduleTime)
	}
	j.Status = job.Status{
		State: job.Scheduled, Version: 1, Round: 1, ScheduleTime: due, StartDeadline: due.Add(j.Window()),
		NextAt: due, Class: class, Updated: t.now,
	}
	return j, nil
}
