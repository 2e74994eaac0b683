package postgres

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/witness"
)

// Rules of this file: a cluster that is restored as a whole, from a base backup or a disk
// image, is identical to its earlier state: its files do not show what is missing. So each
// server notes outside of the database how far its log had come, and the next start looks for
// that very event. A crash of PostgreSQL keeps what was committed, so it never looks like a
// restore.

// noteEvery is how often the newest event is noted. A restore removes far older events than
// that.
const noteEvery = 5 * time.Second

// noteTime bounds one read of the newest event and its note.
const noteTime = 10 * time.Second

// memory is the note of one store.
type memory struct {
	path string
	// mu serializes the notes.
	mu       sync.Mutex
	saved    witness.Seen
	reporter witness.Reporter

	repeated *background
}

// recall reads the note of this database before it is compared with its description. The file
// is named after the database and its cluster, so that a copy elsewhere has another one.
func (s *Store) recall(ctx context.Context, conn *pgx.Conn) error {
	if s.opts.StateDir == "" {
		return nil
	}
	var id [16]byte
	var system, database, incarnation int64
	if err := conn.QueryRow(ctx, here+`
SELECT m.store_id, h.system_id, h.database_oid, m.incarnation FROM here AS h CROSS JOIN meta AS m WHERE m.id = 1`).
		Scan(&id, &system, &database, &incarnation); err != nil {
		return opening(ctx, err)
	}
	path := filepath.Join(s.opts.StateDir, fmt.Sprintf("fireonce-%s-%d-%d.seen", job.ID(id), uint64(system), database))
	seen, err := witness.Load(path)
	if err != nil {
		return err
	}
	s.memory = &memory{path: path, saved: seen, reporter: witness.Reporter{Report: s.opts.NoteFailed}}
	s.known.Store(seen.Era)
	if seen.Era == incarnation {
		s.confirmed(seen.Position)
	}
	return nil
}

// watchNewest notes the newest event from time to time, until the store is closed. It makes
// the first note immediately, so that an unwritable folder is detected.
func (s *Store) watchNewest(ctx context.Context) error {
	m := s.memory
	if m == nil {
		return nil
	}
	if err := s.note(ctx); err != nil {
		return err
	}
	// Other calls report a failure of the database too, and a failure of the folder is reported.
	// The next note follows.
	m.repeated = repeat(noteEvery, func(ctx context.Context) { _ = s.note(ctx) })
	return nil
}

// note writes the newest event, if it is newer than the noted one.
func (s *Store) note(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	m := s.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	var now witness.Seen
	err := s.pool.QueryRow(ctx, "SELECT m.incarnation, coalesce((SELECT max(e.position) FROM event_pages AS e), 0) FROM meta AS m WHERE m.id = 1").
		Scan(&now.Era, &now.Position)
	if err != nil {
		return opening(ctx, err)
	}
	if !now.Newer(m.saved) {
		return nil
	}
	err = m.save(now)
	m.reporter.Noted(err)
	return err
}

// save writes a note, unless another server of this machine has noted more.
func (m *memory) save(now witness.Seen) (err error) {
	if m.saved, err = witness.Load(m.path); err != nil {
		return err
	}
	if !now.Newer(m.saved) {
		return nil
	}
	if err := witness.Save(m.path, now); err != nil {
		return err
	}
	m.saved = now
	return nil
}

// endNotes makes a last note.
func (s *Store) endNotes() {
	m := s.memory
	if m == nil || m.repeated == nil {
		return
	}
	m.repeated.close()
	_ = s.note(context.Background()) // only a help: the note before stays
}
