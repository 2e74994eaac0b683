package node

import "os"

// Rules of this file: a server lives on few megabytes and makes many more each
// second. The collector lets the heap grow in proportion to what lives, so it
// would run at each dozen megabytes, twenty times a second under load, and take a
// quarter of the processor time of a submit.

// ballastSize is what the collector takes to live beside the rest: so much, and
// what lives, may be made between two of its runs.
const ballastSize = 32 << 20

// ballast is memory that is never touched, so that it is no resident memory. An
// operator's own settings for the collector stand alone.
func ballast() []byte {
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(name) != "" {
			return nil
		}
	}
	return make([]byte, ballastSize)
}
