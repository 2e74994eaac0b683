package node

import (
	"os"
	"runtime/debug"
)

// Rules of this file: a server lives on few megabytes and makes many more each
// second. The collector lets the heap grow in proportion to what lives, so it
// would run at each dozen megabytes, twenty times a second under load, and take a
// quarter of the processor time of a submit.

//
// Requests that are made to cost much live for milliseconds and are many: what lives at
// one run is hundreds of megabytes, and the heap might grow to twice of that before the
// next. Above softLimit the collector runs before that.

// softLimit is the memory from which on the collector no longer lets the heap double.
const softLimit = 640 << 20

// ballastSize is what the collector takes to live beside the rest: so much, and
// what lives, may be made between two of its runs.
const ballastSize = 32 << 20

// ballast is memory that is never touched, so that it is no resident memory. It sets the
// soft limit, too. An operator's own settings for the collector stand alone.
func ballast() []byte {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	debug.SetMemoryLimit(softLimit)
	return make([]byte, ballastSize)
}
