package main

import (
	"context"
	"errors"
	"hash/fnv"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/commitproxy"
	"github.com/fireonce/fireonce/internal/proof/chaos/nemesis"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

// database is what the servers keep their jobs in.
type database struct {
	url    string
	faults nemesis.Database
	lost   func() map[string]int // swallowed answers to COMMIT, by the kind of transaction
	close  func() error
}

// openSQLite makes a database in a file: its faults are its one server's.
func openSQLite(dir string) *database {
	return &database{
		url:  "sqlite:" + filepath.Join(dir, "fireonce.db"),
		lost: func() map[string]int { return nil }, close: func() error { return nil },
	}
}

// lostShare is which share of the answers to COMMIT is lost while any is.
const lostShare = 0.3

// openPostgres runs a cluster of its own, and a proxy before it.
func openPostgres() (_ *database, err error) {
	cluster, err := pgtest.Open(pgtest.Options{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, cluster.Close())
		}
	}()
	name, err := cluster.CreateDatabase(context.Background())
	if err != nil {
		return nil, err
	}
	var losing, disturbing atomic.Bool
	proxy, err := commitproxy.Start(commitproxy.Options{
		Socket: cluster.Socket(),
		Lose:   func(k commitproxy.Kind, number int) bool { return losing.Load() && drawn(k, number) < lostShare },
		Query: func(number int) commitproxy.Fate {
			if !disturbing.Load() {
				return commitproxy.Fate{}
			}
			return disturbed(number)
		},
	})
	if err != nil {
		return nil, err
	}
	return &database{
		url: proxy.URL(pgtest.Role, name), lost: func() map[string]int { return byName(proxy.LostAll()) },
		faults: nemesis.Database{
			Crash:   func() error { return cluster.Down(pgtest.Immediate) },
			Recover: cluster.Up, Cut: proxy.Cut, Lose: losing.Store, Disturb: disturbing.Store,
		},
		close: func() error { return errors.Join(proxy.Close(), cluster.Close()) },
	}, nil
}

func byName(lost map[commitproxy.Kind]int) map[string]int {
	out := make(map[string]int, len(lost))
	for k, n := range lost {
		out[string(k)] = n
	}
	return out
}

// While queries are disturbed, one in cutEvery ends its line, and each is slowestQuery late at most.
const (
	cutEvery     = 40
	slowestQuery = 20 * time.Millisecond
)

// disturbed returns the fate of a query while queries are disturbed.
func disturbed(number int) commitproxy.Fate {
	share := drawn("query", number)
	fate := commitproxy.Fate{After: time.Duration(share * float64(slowestQuery))}
	switch number % (2 * cutEvery) {
	case 0:
		fate.Cut = commitproxy.BeforeQuery
	case cutEvery:
		fate.Cut = commitproxy.BeforeAnswer
	}
	return fate
}

// drawn returns a number in [0, 1) for one commit.
func drawn(k commitproxy.Kind, number int) float64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(k))
	_, _ = h.Write([]byte{byte(number >> 16), byte(number >> 8), byte(number)})
	return float64(h.Sum32()) / (1 << 32)
}
