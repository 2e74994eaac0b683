//go:build unix

package pgtest

import (
	"context"
	"sync"
	"testing"
)

// Apart is like Reused for a test that runs beside others and must not meet their transactions:
// the oldest one of a whole server decides what is durable in each of its databases. A server
// goes from test to test with its databases, and has as many as one test asks for.
func Apart(tb testing.TB, prepare func(ctx context.Context, url string) error) string {
	tb.Helper()
	skipWithout(tb)
	l, err := lanes.take(tb, prepare)
	if err != nil {
		tb.Fatal(err)
	}
	return l.free.lend(tb, func(ctx context.Context) (*reused, error) { return l.cluster.newReused(ctx, l.template) })
}

// lane is a cluster for one test at a time.
type lane struct {
	cluster  *Cluster
	template string
	free     pool
}

type laneSet struct {
	mu   sync.Mutex
	free []*lane
	held map[testing.TB]*lane
}

// lanes end with the process.
var lanes = laneSet{held: make(map[testing.TB]*lane)}

// take returns the test's lane.
func (s *laneSet) take(tb testing.TB, prepare func(context.Context, string) error) (*lane, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.held[tb]; l != nil {
		return l, nil
	}
	var l *lane
	if n := len(s.free); n > 0 {
		l, s.free = s.free[n-1], s.free[:n-1]
	} else {
		c, err := create(Options{})
		if err != nil {
			return nil, err
		}
		l = &lane{cluster: c}
		if l.template, err = c.prepare(tb.Context(), prepare); err != nil {
			return nil, err
		}
	}
	s.held[tb] = l
	tb.Cleanup(func() { // after the databases' own, which came later
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, tb)
		s.free = append(s.free, l)
	})
	return l, nil
}
