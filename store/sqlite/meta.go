package sqlite

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/fireonce/fireonce/gen/sqlitedb"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/sqlstore"
)

// Rules of this file: a database that may be a copy, or an older state of itself, must not
// send: jobs that it believes to be due may have been sent already. Two facts are compared at
// every open: which file on which machine the database was, and the newest state that the
// lock file beside it records.

// lockMark is the record in the lock file.
type lockMark struct {
	store      job.ID
	generation int64
	position   int64
}

const lockMarkFormat = "fireonce-lock-1 %s %d %d\n"

func (m lockMark) String() string {
	return fmt.Sprintf(lockMarkFormat, m.store, m.generation, m.position)
}

// parseLockMark reads a record. Any other text, such as that of a new file, is the zero
// record.
func parseLockMark(text string) lockMark {
	var m lockMark
	var id string
	if _, err := fmt.Sscanf(text, lockMarkFormat, &id, &m.generation, &m.position); err != nil {
		return lockMark{}
	}
	var err error
	if m.store, err = job.ParseID(id); err != nil {
		return lockMark{}
	}
	return m
}

// takeOver makes this process the database's owner: it detects a copied or restored file, and
// ends the leases of the process before, which has ended, because this process has the lock.
// It never changes fences of sends.
func (s *Store) takeOver(ctx context.Context) error {
	identity, err := s.identity()
	if err != nil {
		return err
	}
	seen, err := s.lock.mark()
	if err != nil {
		return err
	}
	mark, err := write(ctx, s, "take over", func(ctx context.Context, t *tx) (lockMark, error) {
		var none lockMark
		err := t.q.CreateMeta(ctx, sqlitedb.CreateMetaParams{
			StoreID: randomID(), CreatedAt: t.now, FileIdentity: identity, Namespace: cmp.Or(s.opts.Namespace, job.NewNamespace()),
		})
		if err != nil {
			return none, err
		}
		m, err := t.q.GetMeta(ctx)
		if err != nil {
			return none, err
		}
		position, err := t.q.LastPosition(ctx)
		if err != nil {
			return none, err
		}
		mark := lockMark{store: m.StoreID, generation: m.Generation + 1, position: position}
		reason, incarnation := m.Quarantined, m.Incarnation
		elsewhere, err := s.recall(mark.store, identity)
		if err != nil {
			return none, err
		}
		found := cmp.Or(suspicion(m.FileIdentity, identity, seen, mark), suspicion(m.FileIdentity, identity, elsewhere, mark))
		if found != "" {
			// The incarnation rises even if an operator quarantined the database before it
			// was copied.
			reason, incarnation = cmp.Or(reason, found), incarnation+1
		}
		err = sqlstore.InSequence(ctx,
			sqlstore.With(t.q.SetOpened, sqlitedb.SetOpenedParams{
				FileIdentity: identity, Generation: mark.generation, Quarantined: reason, Incarnation: incarnation,
			}),
			sqlstore.With(t.q.EndClaimLeases, t.now), sqlstore.With(t.q.EndLookLeases, t.now))
		if err != nil {
			return none, err
		}
		t.w.ses.dirty = true // the number of changed rows does not show it
		_, err = t.w.ses.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", s.watched.epoch))
		return mark, err
	})
	if err != nil {
		return err
	}
	// From here on the header of the file itself has the epoch (see watched). Where another
	// program reads, it gets there later.
	if _, err := s.writer.conn.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		return fmt.Errorf("write the log back: %w", err)
	}
	s.noted = mark
	if err := s.lock.setMark(mark); err != nil {
		return err
	}
	if err := s.memory.save(mark); err != nil {
		return err
	}
	return s.lock.sync()
}

// newEpoch returns the number by which this process recognizes its own file.
func newEpoch() int32 {
	return 1 + rand.Int32N(math.MaxInt32) //nolint:gosec // no secret: it distinguishes a file from an earlier copy
}

// suspicion returns why the database may be a copy or an old state; empty: it is the one that
// was last open here.
func suspicion(before, now string, seen, mark lockMark) string {
	switch {
	case mark.generation == 1:
		return "" // just made
	case before != now:
		return fmt.Sprintf("the database was last open as another file or on another machine (%s; now %s)", before, now)
	case seen.store.IsZero():
		return ""
	case seen.store != mark.store:
		return "another database was last open under this name"
	case seen.generation >= mark.generation || seen.position > mark.position:
		return "a newer state of this database was open here before: it may be restored from a copy"
	default:
		return ""
	}
}

// identity names the file and the machine.
func (s *Store) identity() (string, error) {
	file, err := fileIdentity(s.lock.path)
	if err != nil {
		return "", err
	}
	host := s.opts.Host
	if host == "" {
		host = hostIdentity()
	}
	return file + " on " + host, nil
}

// hostIdentity names the machine in a way that survives a reboot.
func hostIdentity() string {
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && len(strings.TrimSpace(string(id))) > 0 {
		return "machine " + strings.TrimSpace(string(id))
	}
	name, err := os.Hostname()
	if err != nil {
		return "an unnamed host"
	}
	return "host " + name
}

// markClosed writes the newest position to the lock file. It only helps to detect a restore,
// so its failure is no failure of closing.
func (s *Store) markClosed() {
	if s.loss.failed() == nil {
		position, err := s.writer.q.LastPosition(context.Background())
		if err != nil {
			return
		}
		s.noted.position = position
	}
	if s.lock.setMark(s.noted) == nil {
		_ = s.lock.sync()
	}
	_ = s.memory.save(s.noted)
}

// Meta implements store.Store.
func (s *Store) Meta(ctx context.Context) (store.Meta, error) {
	return read(ctx, s, "meta", func(ctx context.Context, v view) (store.Meta, error) {
		m, err := v.q.GetMeta(ctx)
		if err != nil {
			return store.Meta{}, err
		}
		clock, err := v.q.GetClock(ctx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return store.Meta{}, err
		}
		stops, err := v.shared().CountOpenStops(ctx, m.Stops, v.now)
		if err != nil {
			return store.Meta{}, err
		}
		return store.Meta{
			StoreID: m.StoreID, Engine: "sqlite", Created: m.CreatedAt, Quarantined: m.Quarantined,
			Incarnation: m.Incarnation, Namespace: m.Namespace, Identity: m.FileIdentity, Stops: stops,
			Now: v.now, Steady: v.now.Add(-time.Duration(clock.Moved) * time.Microsecond), Clock: v.suspect,
		}, nil
	})
}

func randomID() job.ID {
	var id job.ID
	crand.Read(id[:])
	return id
}
