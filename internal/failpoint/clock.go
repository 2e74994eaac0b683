//go:build failpoints

package failpoint

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var shift atomic.Int64

var hasten = hastenFrom(os.Getenv("FIREONCE_HASTEN"))

// Hasten gives the part of d that FIREONCE_HASTEN leaves of it.
func Hasten(d time.Duration) time.Duration { return d / hasten }

// hastenFrom panics for what is no such number, as offsetsFrom does.
func hastenFrom(text string) time.Duration {
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic("FIREONCE_HASTEN: " + strconv.Quote(text) + " is no number of times")
	}
	return time.Duration(n)
}

// WallShift is how far this process's wall clock is off now.
func WallShift() time.Duration { return time.Duration(shift.Load()) }

// BootID is the name of the machine's run that FIREONCE_BOOT_ID makes up; empty: the
// machine's own.
func BootID() string { return os.Getenv("FIREONCE_BOOT_ID") }

// ClockSynchronized reports whether FIREONCE_CLOCK_SYNCHRONIZED decides what the kernel
// says of its clock, and what it says. A clock that FIREONCE_CLOCK_OFFSET shifts is not
// the kernel's, so that the kernel's word about its own says nothing about it.
func ClockSynchronized() (known, synced bool) {
	switch os.Getenv("FIREONCE_CLOCK_SYNCHRONIZED") {
	case "true":
		return true, true
	case "false":
		return true, false
	default:
		return os.Getenv("FIREONCE_CLOCK_OFFSET") != "", false
	}
}

func init() {
	offsets := offsetsFrom(os.Getenv("FIREONCE_CLOCK_OFFSET"))
	if len(offsets) == 0 {
		return
	}
	shift.Store(int64(offsets[0]))
	steps := make(chan os.Signal, len(offsets))
	signal.Notify(steps, syscall.SIGUSR1)
	go func() {
		for _, offset := range offsets[1:] {
			<-steps
			shift.Store(int64(offset))
		}
	}()
}

// offsetsFrom panics for what is no list of durations: a campaign that believes
// that clocks are off must not run on clocks that are right.
func offsetsFrom(text string) []time.Duration {
	var out []time.Duration
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		d, err := time.ParseDuration(part)
		if err != nil {
			panic("FIREONCE_CLOCK_OFFSET: " + err.Error())
		}
		out = append(out, d)
	}
	return out
}
