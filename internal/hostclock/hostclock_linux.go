package hostclock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		// Kernels since 2.6.39 have it. Without it, the monotonic clock replaces it.
		return time.Since(processStart)
	}
	return time.Duration(ts.Nano())
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// maxKernelError is the largest error, in microseconds, that the kernel may estimate of
// a synchronized clock.
const maxKernelError = 500_000

func synchronized() bool {
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	return err == nil && state != unix.TIME_ERROR && tx.Status&unix.STA_UNSYNC == 0 && tx.Maxerror < maxKernelError
}
