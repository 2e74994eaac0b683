//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Rules of this file: a database is its file, not a name of it.
//
//   - The process that uses a database holds a lock on the file itself. A second process is
//     refused under every name: links, another mount, a file that was renamed under the first
//     process.
//   - SQLite's own locks belong to the process and end when the process closes any descriptor
//     of the file. So the file is opened once, is kept open until SQLite is closed, and is
//     never opened when this process has it already.
//   - SQLite names its log after the path. A file with two names has two logs, which are two
//     states of one database; it is refused.

// ErrLinked reports that a database file has more than one name.
var ErrLinked = errors.New("the database file has several names")

// fileID distinguishes a file from all others of a machine while it is open.
type fileID struct{ device, inode uint64 }

// databaseFile is the database's file, open and locked for this process.
type databaseFile struct {
	id   fileID
	file *os.File
	// strays are further descriptors, which must not be closed before SQLite is.
	strays []*os.File
}

// inUse holds the database files of this process.
var inUse = struct {
	sync.Mutex
	files map[fileID]*databaseFile
}{files: make(map[fileID]*databaseFile)}

// openFile opens and locks the file of a database, and creates it if there is none. path has
// no symbolic links.
func openFile(path string) (*databaseFile, error) {
	inUse.Lock()
	defer inUse.Unlock()
	if err := touch(path); err != nil {
		return nil, err
	}
	id, names, err := statFile(path)
	switch {
	case err != nil:
		return nil, err
	case inUse.files[id] != nil:
		return nil, fmt.Errorf("%w: this one has it already (%s)", ErrLocked, path)
	case names > 1:
		return nil, fmt.Errorf("%w: %s has %d hard links, and each would have a log of its own; remove the others (find / -samefile %[2]s)",
			ErrLinked, path, names)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	d := &databaseFile{file: f}
	if d.id, err = idOf(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if other := inUse.files[d.id]; other != nil { // it got this name just now
		other.strays = append(other.strays, f)
		return nil, fmt.Errorf("%w: this one has it already (%s)", ErrLocked, path)
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s itself: %w", path, err), f.Close())
	}
	inUse.files[d.id] = d
	return d, nil
}

// release unlocks the file. SQLite must have closed it before.
func (d *databaseFile) release() error {
	inUse.Lock()
	defer inUse.Unlock()
	delete(inUse.files, d.id)
	err := d.file.Close()
	for _, f := range d.strays {
		err = errors.Join(err, f.Close())
	}
	return err
}

// touch creates an empty file, readable by its owner alone, if there is none: files that
// SQLite creates are readable by all users.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	return f.Close()
}

// statFile returns which file has a name, and how many names it has.
func statFile(path string) (id fileID, names uint64, err error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return id, 0, fmt.Errorf("look at %s: %w", path, err)
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, uint64(st.Nlink), nil //nolint:unconvert // their types differ between systems
}

func idOf(f *os.File) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileID{}, fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, nil //nolint:unconvert // their types differ between systems
}

// userVersionAt is the offset of the user version in an SQLite file, four bytes.
const userVersionAt = 60

// userVersion reads the number in the file's header without SQLite and its log. It returns 0
// for a file that ends before it.
func (d *databaseFile) userVersion() (int32, error) {
	var b [4]byte
	if _, err := d.file.ReadAt(b[:], userVersionAt); err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("read the header: %w", err)
	}
	return int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])), nil
}
