package sqlstore

import (
	"context"
	"fmt"

	"github.com/fireonce/fireonce/gen/shareddb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/rules"
)

// suspension returns why no job may start.
func (v View) suspension(ctx context.Context) (rules.Suspension, error) {
	why, err := v.Q.Quarantined(ctx)
	return rules.Suspension{Quarantined: why, Clock: v.Suspect}, err
}

// Quarantine implements store.Store. An empty reason would be no quarantine.
func (r *Roles) Quarantine(ctx context.Context, reason string) error {
	if reason == "" {
		return fmt.Errorf("quarantine: %w: without a reason", store.ErrIllegal)
	}
	return writeOnly(ctx, r, "quarantine", func(ctx context.Context, t Tx) error { return t.Q.Quarantine(ctx, reason) })
}

// Release implements store.Store.
func (r *Roles) Release(ctx context.Context) error {
	return writeOnly(ctx, r, "release", func(ctx context.Context, t Tx) error {
		t.Wake(store.WatchWork)
		n, err := t.Q.Release(ctx, t.Now)
		if err != nil || n == 0 {
			return err
		}
		t.Wake(store.WatchSchedules)
		schedules, err := t.Q.LockSchedules(ctx)
		if err != nil {
			return fmt.Errorf("schedules: %w", err)
		}
		if err := t.Q.HoldSchedules(ctx, shareddb.HoldSchedulesParams{Now: t.Now, Ids: schedules}); err != nil {
			return fmt.Errorf("schedules: %w", err)
		}
		jobs, err := t.Q.LockLooks(ctx)
		if err != nil {
			return fmt.Errorf("jobs: %w", err)
		}
		return named("fences", t.Q.RaiseFences(ctx, shareddb.RaiseFencesParams{NotBefore: t.Now.Add(store.LostGrace), Ids: jobs}))
	})
}

// SetNamespace implements store.Store.
func (r *Roles) SetNamespace(ctx context.Context, namespace string, copied bool) error {
	if err := job.CheckNamespace(namespace); err != nil {
		return fmt.Errorf("set namespace: %w", err)
	}
	return writeOnly(ctx, r, "set namespace", func(ctx context.Context, t Tx) error {
		m, err := t.Q.LockNamespace(ctx)
		if err != nil || m.Namespace == namespace {
			return err
		}
		if m.ArmedBefore && !(copied && m.Quarantined != "") {
			return &store.NamespaceError{Have: m.Namespace}
		}
		return t.Q.SetNamespace(ctx, namespace)
	})
}
