//go:build unix

package pgtest

import (
	"context"
	"sync"
	"testing"
)

// Apart is like Reused for a test that runs beside others and must not meet their transactions:
// the oldest one of a whole server decides what is durable in each of its databases. A server
// goes from test to test with its databases, and has as many as one test asks for. A failed
// test's goes to no other one: its sessions may still be there.
func Apart(tb testing.TB, prepare func(ctx context.Context, url string) error) string {
	tb.Helper()
	skipWithout(tb)
	own, err := spares.take(tb, prepare)
	if err != nil {
		tb.Fatal(err)
	}
	return own.free.lend(tb, func(ctx context.Context) (*reused, error) { return own.cluster.newReused(ctx, own.template) })
}

// spare is a cluster for one test at a time.
type spare struct {
	cluster  *Cluster
	template string
	free     pool
}

type spareSet struct {
	mu   sync.Mutex
	free []*spare
	held map[testing.TB]*spare
}

// spares end with the process.
var spares = spareSet{held: make(map[testing.TB]*spare)}

// take returns the test's cluster.
func (s *spareSet) take(tb testing.TB, prepare func(context.Context, string) error) (*spare, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.held[tb]; own != nil {
		return own, nil
	}
	var own *spare
	if n := len(s.free); n > 0 {
		own, s.free = s.free[n-1], s.free[:n-1]
	} else {
		c, err := create(Options{})
		if err != nil {
			return nil, err
		}
		own = &spare{cluster: c}
		if own.template, err = c.prepare(tb.Context(), prepare); err != nil {
			return nil, err
		}
	}
	s.held[tb] = own
	tb.Cleanup(func() { // after the databases' own, which came later
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, tb)
		if !tb.Failed() {
			s.free = append(s.free, own)
		}
	})
	return own, nil
}
