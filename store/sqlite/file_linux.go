package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockedByte is the byte of the file that is locked. SQLite locks only bytes from
// 0x40000000 on.
const lockedByte = 0

// lockFile takes an exclusive lock on an open file. It belongs to the descriptor and not to
// the process, ends with it, and works on a network file system too.
func lockFile(f *os.File) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockedByte, Len: 1}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return err
}

// fileIdentity names a file by device, inode and, where the file system has it, the time of
// its creation: a copy has another identity, even if it got the inode of a removed file.
func fileIdentity(path string) (string, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return "", fmt.Errorf("file identity: %w", err)
	}
	name := fmt.Sprintf("dev %d inode %d", unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino)
	if st.Mask&unix.STATX_BTIME != 0 {
		name += fmt.Sprintf(" born %d.%09d", st.Btime.Sec, st.Btime.Nsec)
	}
	return name, nil
}
