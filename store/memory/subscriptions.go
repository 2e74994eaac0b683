package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// subscription is a subscription and its notices, oldest first.
type subscription struct {
	store.Subscription
	notices []store.Notice
}

// notice returns a notice that is kept; nil: it is not.
func (c *subscription) notice(number int64) *store.Notice {
	for i := range c.notices {
		if c.notices[i].Number == number {
			return &c.notices[i]
		}
	}
	return nil
}

// CreateSubscription implements store.Store.
func (s *Store) CreateSubscription(ctx context.Context, n store.NewSubscription) (store.Subscription, bool, error) {
	created := false
	out, err := call(ctx, s, "create subscription", func(t *tx) (store.Subscription, error) {
		if c, err := t.subscriptionOf(store.Ref{Project: n.Subscription.Project, Key: n.Subscription.Key}); err == nil {
			return c.Clone(), nil
		}
		next, err := n.Stored(t.now, int64(len(t.log)), t.meta.Incarnation)
		if err != nil {
			return store.Subscription{}, err
		}
		if err := store.OneMore(t.holdings(next.Project).Subscriptions, n.Most); err != nil {
			return store.Subscription{}, err
		}
		if t.subscriptions[next.ID] != nil {
			return store.Subscription{}, fmt.Errorf("%w: the id %s is taken", store.ErrIllegal, next.ID)
		}
		t.subscriptions[next.ID] = &subscription{Subscription: next.Clone()}
		created = true
		return next.Clone(), nil
	})
	return out, created, err
}

// subscriptionOf finds a subscription of a project.
func (t *tx) subscriptionOf(ref store.Ref) (*subscription, error) {
	c, ok := t.subscriptions[ref.ID]
	if ref.Key != "" {
		ok = false
		for _, other := range t.subscriptions {
			if other.Project == ref.Project && other.Key == ref.Key {
				c, ok = other, true
			}
		}
	}
	if !ok || ref.Project != "" && c.Project != ref.Project {
		return nil, store.ErrNotFound
	}
	return c, nil
}

// Subscription implements store.Store.
func (s *Store) Subscription(ctx context.Context, ref store.Ref) (store.Subscription, error) {
	return call(ctx, s, "subscription", func(t *tx) (store.Subscription, error) {
		c, err := t.subscriptionOf(ref)
		if err != nil {
			return store.Subscription{}, err
		}
		return c.Clone(), nil
	})
}

// ListSubscriptions implements store.Store.
func (s *Store) ListSubscriptions(ctx context.Context, project string, after job.ID, limit int) ([]store.Subscription, error) {
	return call(ctx, s, "list subscriptions", func(t *tx) (out []store.Subscription, err error) {
		newest := func(a, b store.Subscription) int {
			return cmp.Or(b.Created.Compare(a.Created), bytes.Compare(b.ID[:], a.ID[:]))
		}
		var last *subscription
		if !after.IsZero() {
			if last, err = t.subscriptionOf(store.Ref{Project: project, ID: after}); err != nil {
				return nil, err
			}
		}
		for _, c := range t.subscriptions {
			if c.Project == project && c.State != store.SubscriptionDeleted && !c.Callbacks &&
				(last == nil || newest(c.Subscription, last.Subscription) > 0) {
				out = append(out, c.Clone())
			}
		}
		slices.SortFunc(out, newest)
		return out[:min(len(out), rules.Page(limit))], nil
	})
}

// ChangeSubscription implements store.Store.
func (s *Store) ChangeSubscription(ctx context.Context, next store.Subscription) (store.Subscription, error) {
	return call(ctx, s, "change subscription", func(t *tx) (store.Subscription, error) {
		if err := t.refuseQuarantined(); err != nil {
			return store.Subscription{}, err
		}
		return t.stepSubscription(store.SubscriptionStep{Subscription: next})
	})
}

// StepSubscription implements store.Store.
func (s *Store) StepSubscription(ctx context.Context, step store.SubscriptionStep) (store.Subscription, error) {
	return call(ctx, s, "step subscription", func(t *tx) (store.Subscription, error) {
		if err := t.refuseClosed(); err != nil {
			return store.Subscription{}, err
		}
		return t.stepSubscription(step)
	})
}

func (t *tx) stepSubscription(step store.SubscriptionStep) (store.Subscription, error) {
	c, err := t.subscriptionOf(store.Ref{ID: step.Subscription.ID})
	if err == nil && c.Project != step.Subscription.Project {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Subscription{}, err
	}
	next, made, err := step.Stepped(c.Subscription, t.now)
	if err != nil {
		return store.Subscription{}, err
	}
	if made != nil {
		if n := c.notice(step.Again); step.Again > 0 && (n == nil || n.Ended.IsZero() && step.Ended == 0) {
			return store.Subscription{}, store.ErrStale
		}
		out, err := t.create(*made)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return store.Subscription{}, &store.ConnectionGoneError{Connection: next.Connection}
		case err != nil:
			return store.Subscription{}, err
		case !out.Created:
			return store.Subscription{}, fmt.Errorf("%w: the key %s is bound", store.ErrIllegal, made.Spec.Key)
		}
	}
	if n := c.notice(c.Open); step.Ended != 0 && n != nil {
		n.Ended, n.Outcome = t.now, step.Ended
	}
	if made != nil {
		if n := step.Notice; n != nil {
			upTo, most := store.RemovedUpTo(next.Number)
			c.notices = slices.DeleteFunc(c.notices, func(n store.Notice) bool {
				most--
				return most >= 0 && n.Number <= upTo && !n.Ended.IsZero()
			})
			c.notices = append(c.notices, store.Notice{
				Subscription: next.ID, Number: next.Open, Kind: n.Kind, After: n.After, To: n.To, Incarnation: next.Incarnation,
				Events: n.Events, Tries: 1, Job: made.Spec.ID, Made: t.now,
			})
		} else {
			n := c.notice(step.Again)
			n.Tries, n.Job, n.Ended, n.Outcome = n.Tries+1, made.Spec.ID, time.Time{}, 0
		}
	}
	c.Subscription = next.Clone()
	t.hint[store.WatchEvents] = true
	return next, nil
}

// Notices implements store.Store.
func (s *Store) Notices(ctx context.Context, ref store.Ref, before int64, limit int) ([]store.Notice, error) {
	return call(ctx, s, "notices", func(t *tx) (out []store.Notice, err error) {
		c, err := t.subscriptionOf(ref)
		if err != nil {
			return nil, err
		}
		for _, n := range slices.Backward(c.notices) {
			if (before <= 0 || n.Number < before) && len(out) < rules.Page(limit) {
				out = append(out, n)
			}
		}
		return out, nil
	})
}

// LeaseNotices implements store.Store.
func (s *Store) LeaseNotices(ctx context.Context, worker string, lease time.Duration) (bool, error) {
	return call(ctx, s, "notice lease", func(t *tx) (bool, error) {
		p := &t.noticePlace
		if p.worker != worker && p.until.After(t.now) && t.enlisted[p.worker] {
			return false, nil
		}
		p.worker, p.until = worker, t.now.Add(lease)
		return true, nil
	})
}

// noticePlace is which server makes notices, and until when.
type noticePlace struct {
	worker string
	until  time.Time
}

// DueSubscriptions implements store.Store.
func (s *Store) DueSubscriptions(
	ctx context.Context, after job.ID, limit int, wait time.Duration,
) ([]store.DueSubscription, time.Duration, error) {
	next := wait
	out, err := call(ctx, s, "due subscriptions", func(t *tx) (out []store.DueSubscription, err error) {
		if t.suspect.Suspends || t.meta.Quarantined != "" {
			return nil, nil
		}
		for _, c := range t.subscriptions {
			if d := c.Next.Sub(t.now); c.State == store.SubscriptionActive && c.Open == 0 && !c.Next.IsZero() && d > 0 {
				next = min(next, d)
			}
			if bytes.Compare(c.ID[:], after[:]) > 0 && t.subscriptionDue(c) {
				out = append(out, t.dueSubscription(c))
			}
		}
		slices.SortFunc(out, func(a, b store.DueSubscription) int {
			return bytes.Compare(a.Subscription.ID[:], b.Subscription.ID[:])
		})
		return out[:min(len(out), rules.Page(limit))], nil
	})
	return out, next, err
}

func (t *tx) subscriptionDue(c *subscription) bool {
	if c.Open != 0 {
		r, ok := t.jobs[c.OpenJob]
		return !ok || r.job.State >= job.NeedsResolution || c.State == store.SubscriptionDeleted && r.job.CancelAsked.IsZero()
	}
	if c.Asked != 0 {
		return true
	}
	return c.State == store.SubscriptionActive && (!c.Next.IsZero() && !c.Next.After(t.now) ||
		!c.OnlyThen && (c.Incarnation != t.meta.Incarnation || slices.ContainsFunc(t.log[min(c.Position, int64(len(t.log))):], func(e job.Event) bool {
			return e.Project == c.Project
		})))
}

func (t *tx) dueSubscription(c *subscription) store.DueSubscription {
	d := store.DueSubscription{Subscription: c.Clone(), Now: t.now}
	if conn, ok := t.conns[c.Connection]; ok && conn.Project == c.Project {
		d.Connection = t.public(conn)
	}
	if n := c.notice(c.Told()); n != nil {
		d.Open = *n
		if r, ok := t.jobs[n.Job]; ok {
			snap := r.snapshot(t.now)
			d.Job = &snap
		}
	}
	return d
}
