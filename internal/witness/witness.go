// Package witness records, in a small file outside a database, how far the database had
// come when a server last used it. A database that is restored as a whole contains no
// sign of the restore. Only a record outside it shows that it had been further.
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
	// Era only increases: on PostgreSQL with each restore that was noticed, on SQLite with
	// each start.
	Era int64
	// Position is the position of a durable event, the newest that was read.
	Position int64
}

// Newer reports whether the database had come further than at another time.
func (s Seen) Newer(than Seen) bool {
	if s.Era != than.Era {
		return s.Era > than.Era
	}
	return s.Position > than.Position
}

// ErrUnreadable is returned for a file that is not a witness file.
var ErrUnreadable = errors.New("not a witness file")

const format = "fireonce-seen-1 %d %d\n"

// Load reads a witness file. It returns the zero Seen if the file does not exist.
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

// Save replaces a witness file durably: after a crash, the file is the old one or the new one.
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

// Writable reports whether files can be created in a directory.
func Writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".seen-*")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}
