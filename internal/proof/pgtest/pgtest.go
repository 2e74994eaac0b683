//go:build unix

// Package pgtest provides tests with a PostgreSQL server of their own: a throwaway
// cluster in a temporary folder, served on a Unix socket, with fsync on as the
// service demands it.
//
// A test that needs a database calls [New]. A test that stops, kills, restores
// or replicates the server calls [Start] and has a cluster to itself. Nothing is
// left behind, also when the test's process is killed: see watchdog.go.
//
// Without PostgreSQL a test fails and states what to install. Under `go test -short`, which
// `make test` runs, it is skipped.
package pgtest

import (
	"context"
	"sync"
	"testing"
)

// shared is the cluster of this test process. It ends with the process.
var shared = sync.OnceValues(func() (*Cluster, error) { return create(Options{}) })

// New returns the URL of a fresh, empty database on a cluster that all tests of
// the process share. Its owner, the URL's user, is no superuser. It is dropped
// when the test ends, connected or not.
func New(tb testing.TB) string {
	tb.Helper()
	c := Shared(tb)
	return c.URL(c.NewDatabase(tb))
}

// Shared returns the cluster that New makes its databases on, for a test that does
// more with its database than to connect to it. Such a test stops nothing.
func Shared(tb testing.TB) *Cluster {
	tb.Helper()
	skipWithout(tb)
	c, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// NewFrom is like New for a database that prepare has filled, as migrations do. prepare
// runs once in the process, on a database that the others are copied from: copying one
// takes a fraction of the time. Every caller in a process must give the same prepare,
// also callers of Reused, and it must leave nothing connected.
func NewFrom(tb testing.TB, prepare func(ctx context.Context, url string) error) string {
	tb.Helper()
	c := Shared(tb)
	return c.URL(c.newDatabase(tb, c.template(tb, prepare)))
}

// template returns the name of the database that prepare has filled.
func (c *Cluster) template(tb testing.TB, prepare func(ctx context.Context, url string) error) string {
	tb.Helper()
	prepared.once.Do(func() { prepared.name, prepared.err = c.prepare(tb.Context(), prepare) })
	if prepared.err != nil {
		tb.Fatal(prepared.err)
	}
	return prepared.name
}

// prepared is the database that NewFrom and Reused copy.
var prepared struct {
	once sync.Once
	name string
	err  error
}

func (c *Cluster) prepare(ctx context.Context, prepare func(context.Context, string) error) (name string, err error) {
	if name, err = c.CreateDatabase(ctx); err != nil {
		return "", err
	}
	return name, prepare(ctx, c.URL(name))
}

// skipWithout leaves a test out of `go test -short` on a machine without PostgreSQL.
func skipWithout(tb testing.TB) {
	tb.Helper()
	if _, err := programs(); err != nil && testing.Short() {
		tb.Skip("PostgreSQL's programs are not here")
	}
}
