//go:build unix

package node

import (
	"os"
	"syscall"
	"time"
)

const (
	// littleSpace and noSpace are bytes that are left on a disk.
	littleSpace = 1 << 30
	noSpace     = 64 << 20
	// slowSync is a disk that each commit would wait for.
	slowSync = 200 * time.Millisecond
)

// disk looks at the folder's free space, and whether a file in it can be made durable.
func (d *doctor) disk(check, folder string) {
	took, err := syncs(folder)
	if err != nil {
		d.fail(check, "make the folder, and its disk, writable by this user", "%s: %v", folder, err)
		return
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		d.fail(check, "see what the disk says", "%s: %v", folder, err)
		return
	}
	free := s.Bavail * uint64(s.Bsize)
	switch {
	case free < noSpace:
		d.fail(check, "make room: a full disk stops everything", "%s has %d MiB left", folder, free>>20)
	case free < littleSpace:
		d.warn(check, "make room before it is full", "%s has %d MiB left", folder, free>>20)
	case took > slowSync:
		d.warn(check, "take a faster disk, or see what else writes to it", "%s: making a file durable took %v", folder, took.Round(time.Millisecond))
	default:
		d.ok(check, "%s has %d GiB left; making a file durable took %v", folder, free>>30, took.Round(100*time.Microsecond))
	}
}

// syncs writes a small file, makes it durable, and removes it.
func syncs(folder string) (took time.Duration, err error) {
	f, err := os.CreateTemp(folder, ".fireonce-doctor-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer func() { _ = f.Close() }()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		return 0, err
	}
	begun := time.Now()
	err = f.Sync()
	return time.Since(begun), err
}
