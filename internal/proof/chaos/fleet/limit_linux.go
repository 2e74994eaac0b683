package fleet

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// limitAddressSpace bounds the virtual memory of a process that has just started. A Go
// program that meets the bound ends with "fatal error: out of memory".
func limitAddressSpace(pid int, bytes uint64) error {
	if err := unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes}, nil); err != nil {
		return fmt.Errorf("limit the address space of process %d: %w", pid, err)
	}
	return nil
}
