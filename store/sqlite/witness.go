package sqlite

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/witness"
)

// Rules of this file: the lock file is beside the database, and a restore of the whole folder
// restores it too. So a server with a folder elsewhere (StateDir) keeps the same record
// there, some seconds behind.

// noteEvery is the least time between two notes of new events: each waits for the disk.
const noteEvery = 5 * time.Second

// memory is the note of one database. Without a path there is none.
type memory struct {
	path  string
	saved lockMark
	// next is the earliest time of the next note of new events.
	next     time.Time
	reporter witness.Reporter
}

// recall reads the record that was noted of a file. A copy is another file, and has another
// note.
func (s *Store) recall(id job.ID, identity string) (lockMark, error) {
	if s.opts.StateDir == "" {
		return lockMark{}, nil
	}
	name := fmt.Sprintf("fireonce-%s-%x.seen", id, sha256.Sum256([]byte(identity)))
	s.memory.path = filepath.Join(s.opts.StateDir, name)
	seen, err := witness.Load(s.memory.path)
	if err != nil || seen == (witness.Seen{}) {
		return lockMark{}, err
	}
	return lockMark{store: id, generation: seen.Era, position: seen.Position}, nil
}

// save writes a record, and waits for the disk.
func (m *memory) save(mark lockMark) error {
	if m.path == "" {
		return nil
	}
	err := witness.Save(m.path, witness.Seen{Era: mark.generation, Position: mark.position})
	if err == nil {
		m.saved = mark
	}
	m.reporter.Noted(err)
	return err
}

// follow writes a record that is not noted yet, unless it is too soon: then a later call
// does. A failure is reported, and tried again.
func (m *memory) follow(mark lockMark) {
	now := time.Now()
	if m.path == "" || mark == m.saved || now.Before(m.next) {
		return
	}
	m.next = now.Add(noteEvery)
	_ = m.save(mark)
}
