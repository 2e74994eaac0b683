package vault

import (
	"errors"
	"io/fs"
)

// ErrFileMode says that others than its owner may read or write a file of secrets.
var ErrFileMode = errors.New("the file is open to its group or to others: chmod 600 it")

// OwnerOnly refuses a file of secrets that is open to others than its owner. It fails
// with ErrFileMode.
func OwnerOnly(info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return ErrFileMode
	}
	return nil
}
