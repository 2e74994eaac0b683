//go:build failpoints

package main

import (
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/chaos/commitproxy"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

// startWire starts a lossy proxy of a cluster.
func startWire(t *testing.T, c *pgtest.Cluster, lose func(commitproxy.Kind, int) bool) *commitproxy.Proxy {
	t.Helper()
	p, err := commitproxy.Start(commitproxy.Options{Socket: c.Socket(), Lose: lose})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestLostCommits loses the answers to the servers' COMMITs.
func TestLostCommits(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(commitproxy.Kind, int) bool
		hits []commitproxy.Kind
	}{
		// A claim whose commit had no answer ends with its lease, and five of them in a row
		// end the job; looks are claims too. Of claims the first is lost: one may take all
		// jobs that are due, and then no other is needed.
		"every third": {func(k commitproxy.Kind, n int) bool {
			switch k {
			case commitproxy.Claim:
				return n%3 == 1 && n < 13
			case commitproxy.Look:
				return n%3 == 0 && n < 13
			default:
				return n%3 == 0
			}
		}, []commitproxy.Kind{commitproxy.Create, commitproxy.Claim, commitproxy.Arm}},
		"arms and results": {func(k commitproxy.Kind, n int) bool {
			return (k == commitproxy.Arm || k == commitproxy.Success || k == commitproxy.Decision) && n%2 == 0
		}, []commitproxy.Kind{commitproxy.Arm}},
	} {
		for _, class := range classes {
			t.Run(name+"/"+className(class), func(t *testing.T) {
				t.Parallel()
				c := pgtest.Shared(t)
				w := startWire(t, c, tt.lose)
				f := newCrash(t, onPostgres, w.URL(pgtest.Role, c.NewDatabase(t)), class, startTarget(t, class, lostFor(class)))
				f.jobs = scaled(12)
				f.run()
				t.Log(w)
				for _, k := range tt.hits {
					if w.Lost(k) == 0 {
						t.Errorf("no answer to the COMMIT of a %s was lost", k)
					}
				}
				// Of OPAQUE jobs, whose attempts succeed at first, each is an outcome. Of the others
				// some are decisions to repeat or to look.
				if w.Lost(commitproxy.Success)+w.Lost(commitproxy.Decision) == 0 {
					t.Error("no answer to the COMMIT of an outcome was lost")
				}
				if class == fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE && w.Lost(commitproxy.Success) == 0 {
					t.Error("no answer to the COMMIT of a success was lost")
				}
			})
		}
	}
}
