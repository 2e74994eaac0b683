package storetest

import (
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var namespaceTests = []test{
	{"a new database has one", namespaceNew},
	{"it may change until something was armed", namespaceChanges},
	{"it is fixed once something was armed, also when that was removed", namespaceFixed},
	{"removing a job that was never armed does not fix it", namespaceUnarmed},
	{"a copy may become an installation of its own", namespaceCopied},
}

func namespaceNew(f *fixture) {
	f.ok(job.CheckNamespace(f.meta().Namespace))
}

func namespaceChanges(f *fixture) {
	f.submit()
	f.claim()
	f.ok(f.s.SetNamespace(f.ctx, "mine", false))
	f.is(f.meta().Namespace, "mine", "namespace")
	f.fails(f.s.SetNamespace(f.ctx, "Not one", false), job.ErrBadNamespace)
	f.is(f.meta().Namespace, "mine", "namespace")
}

// namespaceIsFixed checks that the namespace can be set to its present value, and to no
// other.
func (f *fixture) namespaceIsFixed(copied bool) {
	f.Helper()
	have := f.meta().Namespace
	err := f.s.SetNamespace(f.ctx, "another", copied)
	f.fails(err, store.ErrNamespaceFixed)
	var fixed *store.NamespaceError
	f.is(errors.As(err, &fixed) && fixed.Have == have, true, "the error is %v", err)
	f.ok(f.s.SetNamespace(f.ctx, have, copied))
	f.is(f.meta().Namespace, have, "namespace")
}

func namespaceFixed(f *fixture) {
	f.ok(f.s.SetNamespace(f.ctx, "mine", false))
	s := f.ended(job.Failed)
	f.namespaceIsFixed(false)
	f.namespaceIsFixed(true) // without a quarantine it is no copy
	f.clock.advance(2 * time.Hour)
	f.retain(store.Keep{Jobs: time.Hour})
	_, err := f.s.Job(f.ctx, store.Ref{ID: s.ID})
	f.fails(err, store.ErrNotFound)
	f.namespaceIsFixed(false)
}

func namespaceUnarmed(f *fixture) {
	f.apply(f.submit(), job.CancelAsked{})
	f.clock.advance(1000 * day)
	f.is(f.retain(keeping).Jobs, 1, "jobs removed")
	f.ok(f.s.SetNamespace(f.ctx, "mine", false))
	f.is(f.meta().Namespace, "mine", "namespace")
}

func namespaceCopied(f *fixture) {
	first := f.ambiguous()
	f.ok(f.s.Quarantine(f.ctx, reason))
	f.namespaceIsFixed(false)
	key := f.attempts(first.ID)[0].EffectKey
	f.ok(f.s.SetNamespace(f.ctx, "staging", true))
	f.is(f.meta().Namespace, "staging", "namespace")
	f.is(f.attempts(first.ID)[0].EffectKey, key, "effect key of what was armed before")
	f.ok(f.s.Release(f.ctx))
	f.namespaceIsFixed(true)
}
