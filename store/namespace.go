package store

import (
	"context"
	"errors"
)

// ErrNamespaceFixed: the namespace may not change any more. Engines return it as a
// *NamespaceError.
var ErrNamespaceFixed = errors.New("the namespace is fixed")

// NamespaceError is ErrNamespaceFixed with the namespace that the database has.
type NamespaceError struct{ Have string }

func (e *NamespaceError) Error() string {
	return ErrNamespaceFixed.Error() + ": something was armed under " + e.Have
}

// Is makes the error one of ErrNamespaceFixed.
func (e *NamespaceError) Is(target error) bool { return target == ErrNamespaceFixed }

// Namespaces keep installations apart at receivers that they share (see job.EffectKey). A
// new database is given one when it is first opened; Meta reads it.
type Namespaces interface {
	// SetNamespace replaces the namespace. It fails with a *NamespaceError once
	// something was armed, unless the database is quarantined and copied says that the
	// copy becomes an installation of its own: attempts then keep their keys, and new ones
	// go under the new namespace. The same namespace again changes nothing.
	// job.ErrBadNamespace for a text that is none. A server that has the database open
	// meanwhile arms nothing more until it is started again.
	SetNamespace(ctx context.Context, namespace string, copied bool) error
}
