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

// Hasten returns d divided by FIREONCE_HASTEN.
func Hasten(d time.Duration) time.Duration { return d / hasten }

// hastenFrom parses FIREONCE_HASTEN. It panics for a text that is not a positive number, for
// the reason of offsetsFrom.
func hastenFrom(text string) time.Duration {
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		panic("FIREONCE_HASTEN: " + strconv.Quote(text) + " is not a positive number")
	}
	return time.Duration(n)
}

// WallShift returns the present offset of this process's wall clock.
func WallShift() time.Duration { return time.Duration(shift.Load()) }

// BootID returns the boot id that FIREONCE_BOOT_ID simulates; empty: the machine's own counts.
func BootID() string { return os.Getenv("FIREONCE_BOOT_ID") }

// ClockSynchronized reports whether FIREONCE_CLOCK_SYNCHRONIZED replaces the kernel's answer
// about its clock, and that answer. If FIREONCE_CLOCK_OFFSET shifts the clock, the kernel's
// answer does not apply to it, so it is replaced in any case.
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

// offsetsFrom parses FIREONCE_CLOCK_OFFSET. It panics for a text that is not a list of
// durations: a campaign that expects wrong clocks must not run on correct ones.
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
