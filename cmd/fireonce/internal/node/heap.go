package node

import (
	"os"
	"runtime/debug"
)

// Rules of this file: a server lives on few megabytes and makes many more each second. The
// collector lets the heap grow in proportion to the live part, so it would run at each dozen
// megabytes, twenty times a second under load, and take a quarter of the processor time of a
// submit.

//
// Requests that are made to cost much live for milliseconds and are many: what lives at
// one run is hundreds of megabytes, and the heap might grow to twice of that before the
// next. Above softLimit the collector runs before that.

// softLimit is the memory above which the collector no longer lets the heap double.
const softLimit = 640 << 20

// heapFloorSize is the size of the heap floor: the collector counts it as live, so that at least as
// much may be allocated between two of its runs.
const heapFloorSize = 32 << 20

// heapFloor allocates memory that is never touched, and so is not resident. It sets the soft limit,
// too. An operator's own settings for the collector replace both.
func heapFloor() []byte {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	debug.SetMemoryLimit(softLimit)
	return make([]byte, heapFloorSize)
}
