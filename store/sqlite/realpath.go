package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrDangling reports that a database is named by a symbolic link to nothing. It is not
// created, because the disk that the link leads to may only be missing.
var ErrDangling = errors.New("the database is named by a symbolic link to a file that does not exist")

// Resolve returns the path of a database file without symbolic links. The file need not
// exist; its folder must. Files beside the database (its log, its lock file, its sealing
// keys) are named after this path, so that a database has one set of them under every name.
func Resolve(path string) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		resolved, err = resolveNew(path)
	}
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	resolved, err = filepath.Abs(resolved)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", path, err)
	}
	return resolved, nil
}

// resolveNew resolves the folder of a file that does not exist yet.
func resolveNew(path string) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", ErrDangling
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(folder, filepath.Base(path)), nil
}
