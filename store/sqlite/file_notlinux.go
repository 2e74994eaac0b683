//go:build unix && !linux

package sqlite

import (
	"fmt"
	"os"
)

// lockFile does nothing: the system has no lock on a file that is independent of SQLite's
// own. The lock file beside the database, named after the resolved path, is the only one; a
// second mount of the same file is not detected.
func lockFile(*os.File) error { return nil }

// fileIdentity names a file by device and inode: a copy has another one.
func fileIdentity(path string) (string, error) {
	id, _, err := statFile(path)
	if err != nil {
		return "", fmt.Errorf("file identity: %w", err)
	}
	return fmt.Sprintf("dev %d inode %d", id.device, id.inode), nil
}
