package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fireonce/fireonce/internal/sleep"
	"github.com/fireonce/fireonce/internal/vault"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - A server that starts while PostgreSQL is away, or loses it during the start, waits for it, for
//     a bounded time, and logs that. Every step of the start that uses the database goes through
//     databaseWait. An error that waiting does not cure (see postgres.ErrRefused) ends the start
//     immediately, and so does every error of an SQLite file.
//   - A read that only serves a warning runs after the start, and ends nothing.

const (
	// firstPause is the pause before the second try of a step; each further
	// one doubles it, up to mostPause.
	firstPause = 100 * time.Millisecond
	mostPause  = 2 * time.Second
	// remindEvery is how often a waiting server logs that it waits.
	remindEvery = 30 * time.Second
)

// openDatabase opens the database, and makes all reads and writes that the start needs.
func (n *Node) openDatabase(ctx context.Context, source keySource) (keys *vault.Vault, err error) {
	w := &databaseWait{n: n, began: time.Now()}
	for _, step := range []func(context.Context) error{
		n.tryDatabase,
		n.takeNamespace,
		n.takeQuarantine,
		func(ctx context.Context) (err error) {
			keys, err = source.open(ctx, n.store, time.Now, n.cfg.Log)
			return err
		},
	} {
		if err := w.do(ctx, step); err != nil {
			return nil, err
		}
	}
	w.end()
	return keys, nil
}

// databaseWait is the wait of one start for its database, over all steps of the start together.
type databaseWait struct {
	n     *Node
	began time.Time
	// told is when it was last logged; zero: nothing was waited for.
	told time.Time
}

// do calls a step until it succeeds, fails with an error that waiting does not cure, or the time is
// over. A step must allow a repeat after a write whose outcome it does not know.
func (w *databaseWait) do(ctx context.Context, step func(context.Context) error) error {
	n := w.n
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		err := step(ctx)
		if err == nil {
			return nil
		}
		left := n.cfg.DatabaseWait - time.Since(w.began)
		if !n.database.mayComeBack(err) || n.cfg.DatabaseWait == 0 {
			return err
		}
		if left <= 0 {
			return fmt.Errorf("waited %v for the database (--database-wait): %w", n.cfg.DatabaseWait, err)
		}
		if time.Since(w.told) >= remindEvery {
			w.told = time.Now()
			n.cfg.Log.Warn("waiting for the database", "database", n.database.String(), "why", err,
				"for_at_most", left.Round(time.Second), "not_ready_at", n.URL())
		}
		if !sleep.For(ctx, min(pause, left)) {
			return ctx.Err()
		}
	}
}

func (w *databaseWait) end() {
	if !w.told.IsZero() {
		w.n.cfg.Log.Info("the database is there", "waited", time.Since(w.began).Round(time.Millisecond))
	}
}

// tryDatabase opens the database once, and reads its metadata. It leaves nothing open when it fails.
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

// mayComeBack reports whether a step that failed may work later.
func (d Database) mayComeBack(err error) bool {
	return d.url != "" && (errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnconfirmed))
}
