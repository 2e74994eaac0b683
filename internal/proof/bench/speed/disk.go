//go:build unix

package main

import (
	"errors"
	"os"
)

// onDisk returns the folder to measure in: the one that is named, or the first of
// the usual ones that is not in memory, where durability costs nothing and says
// nothing.
func onDisk(named string) (string, error) {
	if named != "" {
		if inMemory(named) {
			return "", errors.New(named + " is in memory: nothing is durable there")
		}
		return named, nil
	}
	for _, dir := range []string{os.TempDir(), "/var/tmp"} {
		if info, err := os.Stat(dir); err == nil && info.IsDir() && !inMemory(dir) {
			return dir, nil
		}
	}
	return "", errors.New("the folder for temporary files is in memory: name one on a disk with -dir")
}
