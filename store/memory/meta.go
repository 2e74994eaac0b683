package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// Meta implements store.Store.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	return call(ctx, s, "meta", func(t *tx) (store.Meta, error) {
		m := t.meta
		m.Now, m.Steady, m.Clock = t.now, t.now.Add(-t.moved), t.suspect
		for i := range t.stops {
			if t.stops[i].Open(t.now) {
				m.Stops++
			}
		}
		return m, nil
	})
}

// Quarantine implements store.Store.
func (s *Store) Quarantine(ctx context.Context, reason string) error {
	_, err := call(ctx, s, "quarantine", func(t *tx) (struct{}, error) {
		if reason == "" {
			return struct{}{}, fmt.Errorf("%w: without a reason", store.ErrIllegal)
		}
		t.meta.Quarantined = reason
		t.meta.Incarnation++
		return struct{}{}, nil
	})
	return err
}

// Release implements store.Store.
func (s *Store) Release(ctx context.Context) error {
	_, err := call(ctx, s, "release", func(t *tx) (struct{}, error) {
		if t.meta.Quarantined != "" {
			t.raiseFences()
			t.released = t.now
			t.holdSchedules()
			t.hint[store.WatchSchedules] = true
		}
		t.meta.Quarantined = ""
		t.hint[store.WatchWork] = true
		return struct{}{}, nil
	})
	return err
}

// raiseFences treats every job whose outcome is open as armed just now by a lost state. This
// is no change of theirs: no version, no event.
func (t *tx) raiseFences() {
	for _, r := range t.active {
		if r.job.State != job.Sending && r.job.State != job.Ambiguous {
			continue
		}
		last := &r.attempts[len(r.attempts)-1]
		fence := micros(t.now.Add(last.AnswerDeadline.Sub(last.ArmedAt) + store.LostGrace))
		last.Fence, last.PeerEnded = later(last.Fence, fence), false
		r.job.NextAt = later(r.job.NextAt, last.Fence)
		r.job.ClaimToken, r.job.Negatives = job.ID{}, 0
		t.touch(r)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// suspension returns why no job may start.
func (t *tx) suspension() rules.Suspension {
	return rules.Suspension{Quarantined: t.meta.Quarantined, Clock: t.suspect}
}

func (t *tx) refuseClosed() error      { return t.suspension().Refuse() }
func (t *tx) refuseQuarantined() error { return t.suspension().RefuseQuarantined() }

// SetNamespace implements store.Store.
func (s *Store) SetNamespace(ctx context.Context, namespace string, copied bool) error {
	_, err := call(ctx, s, "set namespace", func(t *tx) (struct{}, error) {
		if err := job.CheckNamespace(namespace); err != nil {
			return struct{}{}, err
		}
		if len(t.tokens) > 0 && t.meta.Namespace != namespace && !(copied && t.meta.Quarantined != "") {
			return struct{}{}, &store.NamespaceError{Have: t.meta.Namespace}
		}
		t.meta.Namespace = namespace
		return struct{}{}, nil
	})
	return err
}
