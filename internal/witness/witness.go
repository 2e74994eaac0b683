// Package witness keeps, in a small file outside of a database, how far the database
// had come when a server last saw it. A database that is restored as a whole brings
// back all that it knows of itself; only something beside it can tell that it had
// been further.
package witness

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Seen is how far a database had come. The zero Seen is nothing.
type Seen struct {
	// Era rises and never falls: on PostgreSQL with each restore that was noticed, on
	// SQLite with each start.
	Era int64
	// Position is that of an event that was durable, the newest that was looked at.
	Position int64
}

// Newer reports whether a database had come further than another time.
func (s Seen) Newer(than Seen) bool {
	if s.Era != than.Era {
		return s.Era > than.Era
	}
	return s.Position > than.Position
}

// ErrUnreadable reports that a file holds something else.
var ErrUnreadable = errors.New("no file of a witness")

const format = "fireonce-seen-1 %d %d\n"

// Load reads a file. One that does not exist has seen nothing.
func Load(path string) (Seen, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Seen{}, nil
	}
	if err != nil {
		return Seen{}, fmt.Errorf("witness: %w", err)
	}
	var s Seen
	if _, err := fmt.Sscanf(string(text), format, &s.Era, &s.Position); err != nil || fmt.Sprintf(format, s.Era, s.Position) != string(text) {
		return Seen{}, fmt.Errorf("%w: %s; if the database was not restored, remove it", ErrUnreadable, path)
	}
	return s, nil
}

// Save replaces a file durably: a crash leaves the old one or the new one.
func Save(path string, s Seen) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".seen-*")
	if err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("witness: %w", errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = fmt.Fprintf(f, format, s.Era, s.Position)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Writable reports whether files can be made in a folder.
func Writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".seen-*")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}
