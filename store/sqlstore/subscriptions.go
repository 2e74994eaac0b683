package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/column"
	"github.com/fireonce/fireonce/store/rules"
)

// Rules of this file: a step locks its subscription, and then makes its job as Create does. The
// log is read before, in calls that only read: on PostgreSQL readers of the log wait for a
// transaction with an id.

// CreateSubscription implements store.Store. Of concurrent calls with one key, one inserts; the
// others wait for it and then read what it bound.
func (r *Roles) CreateSubscription(ctx context.Context, n store.NewSubscription) (store.Subscription, bool, error) {
	out, err := write(ctx, r, "create subscription", func(ctx context.Context, t Tx) (out stored[store.Subscription], err error) {
		if n.Most > 0 {
			if err := t.LockCount(ctx, CountedSubscriptions, n.Subscription.Project); err != nil {
				return out, err
			}
		}
		digest := job.KeyDigest(n.Subscription.Project, n.Subscription.Key)
		row, err := t.Q.SubscriptionByKey(ctx, digest[:])
		if errors.Is(err, sql.ErrNoRows) {
			log, err := t.LogEnd(ctx)
			if err != nil {
				return out, err
			}
			if out.value, err = n.Stored(t.Now, log.End, log.Incarnation); err != nil {
				return out, err
			}
			if err := t.Counts(n.Subscription.Project).Subscriptions.OneMore(ctx, n.Most); err != nil {
				return out, err
			}
			row = fromSubscription(out.value)
			row.KeyDigest = digest[:]
			took, err := t.Q.InsertSubscription(ctx, shareddb.InsertSubscriptionParams(row))
			if out.created = took == 1; err != nil || out.created {
				return out, err
			}
			row, err = t.Q.SubscriptionByKey(ctx, digest[:]) // bound concurrently
			if err != nil {
				return out, err
			}
		} else if err != nil {
			return out, err
		}
		out.value, err = toSubscription(row)
		return out, err
	})
	return out.value, out.created, err
}

// Subscription implements store.Store.
func (r *Roles) Subscription(ctx context.Context, ref store.Ref) (store.Subscription, error) {
	return readOne(ctx, r, "subscription", func(ctx context.Context, v View) (store.Subscription, error) {
		return v.subscription(ctx, ref)
	})
}

func (v View) subscription(ctx context.Context, ref store.Ref) (store.Subscription, error) {
	var row shareddb.Subscription
	var err error
	if ref.Key != "" {
		digest := job.KeyDigest(ref.Project, ref.Key)
		row, err = v.Q.SubscriptionByKey(ctx, digest[:])
	} else {
		row, err = v.Q.GetSubscription(ctx, ref.ID)
	}
	if err == nil && ref.Project != "" && row.Project != ref.Project {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Subscription{}, orNotFound(err)
	}
	return toSubscription(row)
}

// ListSubscriptions implements store.Store.
func (r *Roles) ListSubscriptions(ctx context.Context, project string, after job.ID, limit int) ([]store.Subscription, error) {
	return read(ctx, r, "list subscriptions", func(ctx context.Context, v View) (out []store.Subscription, err error) {
		p := shareddb.SubscriptionsPageParams{Project: project, AfterTime: endOfTime, MaxRows: store.MaxBatch}
		if !after.IsZero() {
			last, err := v.subscription(ctx, store.Ref{Project: project, ID: after})
			if err != nil {
				return nil, err
			}
			p.AfterTime, p.AfterID = last.Created, after
		}
		most := rules.Page(limit)
		for {
			rows, err := v.Q.SubscriptionsPage(ctx, p)
			if err != nil {
				return nil, err
			}
			for _, row := range rows {
				s, err := toSubscription(row)
				if err != nil {
					return nil, err
				}
				if p.AfterTime, p.AfterID = row.CreatedAt, row.ID; s.State == store.SubscriptionDeleted || s.Callbacks {
					continue
				}
				if out = append(out, s); len(out) == most {
					return out, nil
				}
			}
			if len(rows) < store.MaxBatch {
				return out, nil
			}
		}
	})
}

// ChangeSubscription implements store.Store.
func (r *Roles) ChangeSubscription(ctx context.Context, s store.Subscription) (store.Subscription, error) {
	return write(ctx, r, "change subscription", func(ctx context.Context, t Tx) (store.Subscription, error) {
		if err := t.RefuseQuarantined(ctx); err != nil {
			return store.Subscription{}, err
		}
		return t.stepSubscription(ctx, store.SubscriptionStep{Subscription: s})
	})
}

// StepSubscription implements store.Store.
func (r *Roles) StepSubscription(ctx context.Context, step store.SubscriptionStep) (store.Subscription, error) {
	return write(ctx, r, "step subscription", func(ctx context.Context, t Tx) (store.Subscription, error) {
		if err := t.RefuseClosed(ctx); err != nil {
			return store.Subscription{}, err
		}
		return t.stepSubscription(ctx, step)
	})
}

func (t Tx) stepSubscription(ctx context.Context, step store.SubscriptionStep) (store.Subscription, error) {
	row, err := t.Q.LockSubscription(ctx, step.Subscription.ID)
	if err != nil {
		return store.Subscription{}, orNotFound(err)
	}
	if step.Subscription.Project != row.Project {
		return store.Subscription{}, store.ErrNotFound
	}
	was, err := toSubscription(row)
	if err != nil {
		return store.Subscription{}, err
	}
	next, made, err := step.Stepped(was, t.Now)
	if err != nil {
		return store.Subscription{}, err
	}
	if step.Ended != 0 {
		err = stale(t.Q.EndNotice(ctx, shareddb.EndNoticeParams{
			SubscriptionID: was.ID, Number: was.Open, EndedAt: t.Now, Outcome: step.Ended,
		}))
	}
	if err == nil && made != nil {
		err = t.carryNotice(ctx, next, step, made)
	}
	if err != nil {
		return store.Subscription{}, named("notice", err)
	}
	t.Wake(store.WatchEvents)
	r := fromSubscription(next)
	return next, named("subscription", stale(t.Q.SetSubscription(ctx, shareddb.SetSubscriptionParams{
		Version: r.Version, Revision: r.Revision, ConnectionID: r.ConnectionID, DisplayName: r.DisplayName, Spec: r.Spec,
		State: r.State, PauseCause: r.PauseCause, Note: r.Note, PausedAt: r.PausedAt, Position: r.Position,
		Incarnation: r.Incarnation, Memory: r.Memory, NextAt: r.NextAt, OnlyThen: r.OnlyThen, Asked: r.Asked, Number: r.Number,
		OpenNumber: r.OpenNumber, OpenJob: r.OpenJob, FailedNumber: r.FailedNumber, Failures: r.Failures,
		FailingAt: r.FailingAt, LastError: r.LastError, DeliveredAt: r.DeliveredAt, UpdatedAt: r.UpdatedAt,
		DeletedAt: r.DeletedAt, UpdatedBy: r.UpdatedBy, ID: r.ID,
	})))
}

// carryNotice makes the job of a notice, and its row, or opens that again.
func (t Tx) carryNotice(ctx context.Context, next store.Subscription, step store.SubscriptionStep, made *store.NewJob) error {
	if n := step.Notice; n != nil {
		if err := t.Q.InsertNotice(ctx, shareddb.InsertNoticeParams{
			SubscriptionID: next.ID, Number: next.Open, Kind: n.Kind, AfterPosition: n.After, ToPosition: n.To,
			Incarnation: next.Incarnation, Events: n.Events, JobID: made.Spec.ID, MadeAt: t.Now,
		}); err != nil {
			return err
		}
		upTo, most := store.RemovedUpTo(next.Number)
		if err := t.Q.RemoveNotices(ctx, shareddb.RemoveNoticesParams{SubscriptionID: next.ID, UpTo: upTo, MaxRows: most}); err != nil {
			return err
		}
	} else if err := stale(t.Q.ReopenNotice(ctx, shareddb.ReopenNoticeParams{
		SubscriptionID: next.ID, Number: next.Open, JobID: made.Spec.ID,
	})); err != nil {
		return err
	}
	out, err := t.MakeJobs(ctx, []store.NewJob{*made})
	switch {
	case err != nil:
		return err
	case errors.Is(out[0].Err, store.ErrNotFound):
		return &store.ConnectionGoneError{Connection: next.Connection}
	case out[0].Err != nil:
		return out[0].Err
	case !out[0].Created:
		return fmt.Errorf("%w: the key %s is bound", store.ErrIllegal, made.Spec.Key)
	default:
		return named("runnable row", t.Q.WakeNotice(ctx, shareddb.WakeNoticeParams{
			Now: t.Now, ConnectionID: made.Spec.Connection, HoldKey: made.Spec.HoldKey, Later: t.Now.Add(store.StopHeadStart),
		}))
	}
}

// Notices implements store.Store.
func (r *Roles) Notices(ctx context.Context, ref store.Ref, before int64, limit int) ([]store.Notice, error) {
	return read(ctx, r, "notices", func(ctx context.Context, v View) ([]store.Notice, error) {
		s, err := v.subscription(ctx, ref)
		if err != nil {
			return nil, err
		}
		if before <= 0 {
			before = math.MaxInt64
		}
		rows, err := v.Q.NoticesBefore(ctx, shareddb.NoticesBeforeParams{
			SubscriptionID: s.ID, Before: before, MaxRows: int32(rules.Page(limit)),
		})
		out := make([]store.Notice, len(rows))
		for i, row := range rows {
			out[i] = toNotice(row)
		}
		return out, err
	})
}

// LeaseNotices implements store.Store.
func (r *Roles) LeaseNotices(ctx context.Context, worker string, lease time.Duration) (bool, error) {
	type place struct {
		shareddb.NoticePlaceRow
		mine, taken bool
		now         time.Time
	}
	p, err := read(ctx, r, "notice lease", func(ctx context.Context, v View) (p place, err error) {
		p.now = v.Now
		if p.NoticePlaceRow, err = v.Q.NoticePlace(ctx); err != nil {
			return p, err
		}
		if p.mine = p.Worker == worker; p.mine || !p.Until.After(v.Now) {
			return p, nil
		}
		absent, err := v.Absent(ctx, []string{p.Worker})
		p.taken = !slices.Contains(absent, p.Worker)
		return p, err
	})
	switch {
	case err != nil:
		return false, err
	case p.taken:
		return false, nil
	case p.mine && p.Until.Sub(p.now) > lease/2: // a row that each step writes would collect dead versions
		return true, nil
	}
	return write(ctx, r, "notice lease", func(ctx context.Context, t Tx) (bool, error) {
		n, err := t.Q.TakeNoticePlace(ctx, shareddb.TakeNoticePlaceParams{
			Worker: worker, Until: t.Now.Add(lease), Was: p.Worker, WasUntil: p.Until,
		})
		return n == 1, err
	})
}

// DueSubscriptions implements store.Store.
func (r *Roles) DueSubscriptions(
	ctx context.Context, after job.ID, limit int, wait time.Duration,
) ([]store.DueSubscription, time.Duration, error) {
	var next time.Duration
	out, err := read(ctx, r, "due subscriptions", func(ctx context.Context, v View) ([]store.DueSubscription, error) {
		next = wait
		if v.Suspect.Suspends {
			return nil, nil
		}
		at, err := v.Q.NextSubscription(ctx)
		if err != nil {
			return nil, fmt.Errorf("next: %w", err)
		}
		if d := at.Sub(v.Now); !at.IsZero() && d > 0 {
			next = min(next, d)
		}
		ids, err := v.Q.DueSubscriptions(ctx, shareddb.DueSubscriptionsParams{
			AfterID: after, Now: v.Now, MaxRows: int32(rules.Page(limit)),
		})
		if err != nil {
			return nil, err
		}
		out := make([]store.DueSubscription, len(ids))
		for i, id := range ids {
			if out[i], err = v.dueSubscription(ctx, id); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
	return out, next, err
}

func (v View) dueSubscription(ctx context.Context, id job.ID) (store.DueSubscription, error) {
	d := store.DueSubscription{Now: v.Now}
	var err error
	if d.Subscription, err = v.subscription(ctx, store.Ref{ID: id}); err != nil {
		return d, err
	}
	if d.Connection, err = v.Connection(ctx, d.Subscription.Connection); err != nil && !errors.Is(err, store.ErrNotFound) {
		return d, err
	}
	number := d.Subscription.Told()
	if number == 0 {
		return d, nil
	}
	rows, err := v.Q.NoticesBefore(ctx, shareddb.NoticesBeforeParams{SubscriptionID: id, Before: number + 1, MaxRows: 1})
	if err != nil || len(rows) == 0 || rows[0].Number != number {
		return d, named("notice", err)
	}
	d.Open = toNotice(rows[0])
	snaps, err := v.SnapshotsByID(ctx, []job.ID{d.Open.Job}, true)
	if snap, ok := snaps[d.Open.Job]; ok {
		d.Job = &snap
	}
	return d, err
}

func toNotice(r shareddb.Notice) store.Notice {
	return store.Notice{
		Subscription: r.SubscriptionID, Number: r.Number, Kind: r.Kind, After: r.AfterPosition, To: r.ToPosition,
		Incarnation: r.Incarnation, Events: r.Events, Tries: r.Tries, Job: r.JobID, Made: r.MadeAt, Ended: r.EndedAt, Outcome: r.Outcome,
	}
}

func toSubscription(r shareddb.Subscription) (store.Subscription, error) {
	s := store.Subscription{
		ID: r.ID, Project: r.Project, Key: r.IdemKey, Callbacks: r.Callbacks, Version: r.Version, Revision: r.Revision,
		Connection: r.ConnectionID, DisplayName: r.DisplayName, Spec: bytesOf(r.Spec), Memory: bytesOf(r.Memory),
		State: r.State, PauseCause: r.PauseCause, Note: r.Note, PausedAt: r.PausedAt, Position: r.Position,
		Incarnation: r.Incarnation, Next: r.NextAt, OnlyThen: r.OnlyThen, Asked: r.Asked, Number: r.Number,
		Open: r.OpenNumber, OpenJob: job.ID(r.OpenJob), Failed: r.FailedNumber, Failures: r.Failures, Failing: r.FailingAt,
		LastError: r.LastError, Delivered: r.DeliveredAt, Created: r.CreatedAt, Updated: r.UpdatedAt, Deleted: r.DeletedAt,
		CreatedBy: r.CreatedBy, UpdatedBy: r.UpdatedBy,
	}
	var err error
	if _, s.Fingerprint, err = store.DecodeTerms("{}", r.Fingerprint); err != nil {
		return s, fmt.Errorf("subscription %s: %w", s.ID, err)
	}
	return s, nil
}

// fromSubscription returns the row of a subscription without the digest of its key.
func fromSubscription(s store.Subscription) shareddb.Subscription {
	return shareddb.Subscription{
		ID: s.ID, Project: s.Project, IdemKey: s.Key, Fingerprint: s.Fingerprint.Bytes(), Version: s.Version,
		Revision: s.Revision, Callbacks: s.Callbacks, ConnectionID: s.Connection, DisplayName: s.DisplayName,
		Spec: filled(s.Spec), State: s.State, PauseCause: s.PauseCause, Note: s.Note, PausedAt: s.PausedAt,
		Position: s.Position, Incarnation: s.Incarnation, Memory: filled(s.Memory), NextAt: s.Next, OnlyThen: s.OnlyThen,
		Asked: s.Asked, Number: s.Number, OpenNumber: s.Open, OpenJob: column.OptionalID(s.OpenJob), FailedNumber: s.Failed,
		Failures: s.Failures, FailingAt: s.Failing, LastError: s.LastError, DeliveredAt: s.Delivered, CreatedAt: s.Created,
		UpdatedAt: s.Updated, DeletedAt: s.Deleted, CreatedBy: s.CreatedBy, UpdatedBy: s.UpdatedBy,
	}
}

// NoticeDue reports whether the job of a notice under way may be claimed at a time.
func NoticeDue(n shareddb.OpenNoticesRow, now time.Time) bool {
	return n.State.Runnable() && !n.NextAt.After(now) && n.StartDeadline.After(now)
}
