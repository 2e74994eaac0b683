package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a server that starts while PostgreSQL is away waits for it, for a bounded
// time, and logs that. An error that waiting does not cure (see postgres.ErrRefused) ends the start
// immediately, and so does every error of an SQLite file.

const (
	// firstPause is the pause before the second try to open a database; each further
	// one doubles it, up to mostPause.
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	// remindEvery is how often a waiting server logs that it waits.
	remindEvery = 30 * time.Second
)

// openDatabase opens the database and reads its metadata.
func (n *Node) openDatabase(ctx context.Context) error {
	began := time.Now()
	var told time.Time
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := n.tryDatabase(ctx)
		if err == nil {
			if !told.IsZero() {
				n.cfg.Log.Info("the database is there", "waited", time.Since(began).Round(time.Millisecond))
			}
			return nil
		}
		left := n.cfg.DatabaseWait - time.Since(began)
		if !n.database.mayComeBack(err) || n.cfg.DatabaseWait == 0 {
			return err
		}
		if left <= 0 {
			return fmt.Errorf("waited %v for the database (--database-wait): %w", n.cfg.DatabaseWait, err)
		}
		if time.Since(told) >= remindEvery {
			told = time.Now()
			n.cfg.Log.Warn("waiting for the database", "database", n.database.String(), "why", err,
				"for_at_most", left.Round(time.Second), "not_ready_at", n.URL())
		}
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryDatabase opens the database once. It leaves nothing open when it fails.
func (n *Node) tryDatabase(ctx context.Context) error {
	s, err := n.database.open(ctx, true)
	if err != nil {
		return stopFirst(err)
	}
	meta, err := s.Meta(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("open the database: %w", err), s.Close())
	}
	n.store, n.meta = s, meta
	return nil
}

// mayComeBack reports whether a failed open may work later.
func (d Database) mayComeBack(err error) bool {
	return d.url != "" && errors.Is(err, store.ErrUnavailable)
}
