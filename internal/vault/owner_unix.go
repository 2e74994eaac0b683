//go:build unix

package vault

import (
	"os"
	"syscall"
)

// giveOwner changes the owner of a file to that of another file.
func giveOwner(file, like string) error {
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(file, int(of.Uid), int(of.Gid))
}
