//go:build unix && !linux

package fleet

import "errors"

// limitAddressSpace fails: only Linux limits another process.
func limitAddressSpace(int, uint64) error {
	return errors.New("the address space of a server can be limited on Linux only")
}
