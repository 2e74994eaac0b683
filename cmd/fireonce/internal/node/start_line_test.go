package node

import (
	"context"
	"flag"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/commitproxy"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/store/postgres"
)

var eachQuery = flag.Bool("start.each", false, "cut the line at each query of a start that makes the schema (minutes)")

// line is starts over a line to PostgreSQL that is cut at one query.
type line struct {
	name string
	cut  commitproxy.Cut
	// reset is the statement that prepares the database for each start.
	reset string
	// step is the distance of the queries that are cut without -start.each: a start that makes the
	// schema has more than 100 of them in a row for it.
	step   int
	config Config
}

const (
	emptied = "DROP SCHEMA public CASCADE; CREATE SCHEMA public AUTHORIZATION " + pgtest.Role
	renamed = "UPDATE meta SET namespace = 'before', quarantined = ''"
)

// TestStartOverALineThatIsCut cuts the line to PostgreSQL at the queries of a start in turn, before
// PostgreSQL gets it or after it has run it. Each start must end in a server that is ready.
func TestStartOverALineThatIsCut(t *testing.T) {
	if testing.Short() { // it starts a server for each statement of a start
		t.Skip("left out of the ordinary tests")
	}
	t.Parallel()
	cluster := pgtest.Shared(t)
	for _, l := range []line{
		{"a new database, before a query", commitproxy.BeforeQuery, emptied, 23, Config{}},
		{"a new database, before an answer", commitproxy.BeforeAnswer, emptied, 29, Config{}},
		{"a namespace and a quarantine, before a query", commitproxy.BeforeQuery, renamed, 1, Config{Namespace: "after", Quarantined: true}},
		{"a namespace and a quarantine, before an answer", commitproxy.BeforeAnswer, renamed, 1, Config{Namespace: "after", Quarantined: true, RequireAPIKey: true}},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			database := cluster.NewDatabase(t)
			if err := postgres.Migrate(t.Context(), cluster.URL(database)); err != nil {
				t.Fatal(err)
			}
			if l.reset == renamed {
				l.start(t, cluster, database, 0) // which makes the row
			}
			if *eachQuery {
				l.step = 1
			}
			n := 1
			for ; ; n += l.step {
				cluster.Exec(t, database, l.reset)
				if !l.start(t, cluster, database, n) {
					break
				}
			}
			t.Logf("fewer than %d queries, each %dth of them was cut", n, l.step)
			if n < 20 {
				t.Errorf("a start has %d queries: they were not counted", n-1)
			}
		})
	}
}

// start starts and ends a server whose line is cut at its n-th query, and reports whether the start
// had so many.
func (l line) start(t *testing.T, c *pgtest.Cluster, database string, n int) (cut bool) {
	t.Helper()
	cuts := make(chan struct{}, 1)
	proxy, err := commitproxy.Start(commitproxy.Options{Socket: c.Socket(), Query: func(number int) commitproxy.Fate {
		if number != n {
			return commitproxy.Fate{}
		}
		cuts <- struct{}{}
		return commitproxy.Fate{Cut: l.cut}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	config := l.config
	config.Listen, config.Database = "127.0.0.1:0", proxy.URL(pgtest.Role, database)
	config.KeyFile = filepath.Join(t.TempDir(), "key")
	config.DatabaseWait, config.Log, config.Version, config.Dev = time.Minute, slog.New(slog.DiscardHandler), "test", true
	node, err := Start(t.Context(), config)
	if err != nil {
		t.Errorf("cut at query %d: %v", n, err)
		return len(cuts) > 0
	}
	cut = len(cuts) > 0
	if l.config.Namespace != "" && node.meta.Namespace != l.config.Namespace || l.config.Quarantined && node.meta.Quarantined == "" {
		t.Errorf("cut at query %d: namespace %s, quarantined %q", n, node.meta.Namespace, node.meta.Quarantined)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := node.Run(ctx); err != nil {
		t.Errorf("cut at query %d: the end: %v", n, err)
	}
	return cut
}
