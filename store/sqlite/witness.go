package sqlite

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/witness"
)

// Rules of this file: the lock file is beside the database, and whoever puts all files
// of a folder back puts it back, too. A server that was told of a folder elsewhere
// keeps the same mark there.

// noteEvery is the least time between two notes of new events: each waits for the disk.
const noteEvery = 5 * time.Second

// memory is the note of one database; its zero value is none.
type memory struct {
	path string
	next time.Time
}

// recall reads the mark that was noted of a file. A copy is another file, and has
// another note.
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

// save notes a mark.
func (m *memory) save(mark lockMark) error {
	if m.path == "" {
		return nil
	}
	return witness.Save(m.path, witness.Seen{Era: mark.generation, Position: mark.position})
}

// due reports whether it is time for a note of new events.
func (m *memory) due() bool {
	now := time.Now()
	if m.path == "" || now.Before(m.next) {
		return false
	}
	m.next = now.Add(noteEvery)
	return true
}
