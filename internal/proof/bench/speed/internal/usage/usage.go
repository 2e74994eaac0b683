// Package usage reads what processes have used: processor time and memory. On
// systems without /proc everything is zero.
package usage

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Self is the processor time of this process so far.
func Self() time.Duration { return self() }

// Process is the processor time of another process so far.
func Process(pid int) time.Duration {
	s, _ := statOf(pid)
	return s.own
}

// Postgres is the processor time of a PostgreSQL server so far: of its first
// process, of all that it started, and of those of them that are gone.
func Postgres(data string) time.Duration {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	first, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0
	}
	s, ok := statOf(first)
	if !ok {
		return 0
	}
	sum := s.own + s.gone
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return sum
	}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			continue
		}
		if s, ok := statOf(pid); ok && s.parent == first {
			sum += s.own
		}
	}
	return sum
}

// Memory is the resident memory of a process in bytes, now and at its highest.
func Memory(pid int) (now, highest int64) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0
	}
	return kilobytes(string(text), "VmRSS:"), kilobytes(string(text), "VmHWM:")
}

func kilobytes(status, name string) int64 {
	_, rest, found := strings.Cut(status, "\n"+name)
	if !found {
		return 0
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// stat is a part of /proc/PID/stat.
type stat struct {
	parent    int
	own, gone time.Duration // gone: of children that ended
}

// tick is the unit of the kernel's times there: 100 a second everywhere on Linux.
const tick = time.Second / 100

func statOf(pid int) (stat, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	return parseStat(string(text))
}

// parseStat reads the fields after the name, which may hold anything.
func parseStat(text string) (stat, bool) {
	const parent, user, system, goneUser, goneSystem = 1, 11, 12, 13, 14
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= goneSystem {
		return stat{}, false
	}
	number := func(i int) int64 {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return stat{
		parent: int(number(parent)),
		own:    time.Duration(number(user)+number(system)) * tick,
		gone:   time.Duration(number(goneUser)+number(goneSystem)) * tick,
	}, true
}
