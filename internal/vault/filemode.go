package vault

import (
	"errors"
	"io/fs"
)

// ErrFileMode is returned for a file of secrets that users other than its owner may read or
// write.
var ErrFileMode = errors.New("the file is open to its group or to others: chmod 600 it")

// OwnerOnly fails with ErrFileMode if users other than its owner may read or write a file.
func OwnerOnly(info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return ErrFileMode
	}
	return nil
}
