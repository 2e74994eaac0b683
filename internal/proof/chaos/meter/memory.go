package meter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Memory keeps the resident memory of processes, as Linux shows it. It is safe for
// concurrent use.
type Memory struct {
	proc string // "/proc"

	mu    sync.Mutex
	lives []*Life
}

// Life is the memory of one process.
type Life struct {
	Server int `json:"server"`
	PID    int `json:"pid"`
	// Samples are its resident bytes, one for each Sample.
	Samples []int64 `json:"-"`
	// Peak is the most that it ever had resident, between samples too.
	Peak int64 `json:"peak"`
}

// NewMemory returns a meter without samples.
func NewMemory() *Memory { return &Memory{proc: "/proc"} }

// Sample reads the memory of a server's process. A process that is gone is no error.
func (m *Memory) Sample(server, pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("%s/%d/status", m.proc, pid))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	resident, peak, err := read(string(text))
	if err != nil {
		return fmt.Errorf("memory of process %d: %w", pid, err)
	}
	if resident == 0 {
		return nil // it has ended, and waits for its parent
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.lives, func(l *Life) bool { return l.Server == server && l.PID == pid })
	if i < 0 {
		i = len(m.lives)
		m.lives = append(m.lives, &Life{Server: server, PID: pid})
	}
	l := m.lives[i]
	l.Samples, l.Peak = append(l.Samples, resident), max(l.Peak, peak)
	return nil
}

// read returns VmRSS and VmHWM of a process's status, in bytes; both are 0 of a process
// without memory.
func read(status string) (resident, peak int64, err error) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*int64{"VmRSS": &resident, "VmHWM": &peak}[name]
		if into == nil {
			continue
		}
		kilobytes, found := strings.CutSuffix(strings.TrimSpace(value), " kB")
		n, parseErr := strconv.ParseInt(kilobytes, 10, 64)
		if !found || parseErr != nil {
			return 0, 0, fmt.Errorf("%q is not understood", strings.TrimSpace(line))
		}
		*into = n << 10
	}
	return resident, peak, nil
}

// Lives returns the memory of every process that was sampled, in the order of their
// first samples.
func (m *Memory) Lives() []Life {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Life, 0, len(m.lives))
	for _, l := range m.lives {
		all = append(all, Life{Server: l.Server, PID: l.PID, Samples: slices.Clone(l.Samples), Peak: l.Peak})
	}
	return all
}

// Thirds returns the mean of the first and of the last third of the samples; both are 0
// where there are fewer than three.
func (l Life) Thirds() (first, last int64) {
	n := len(l.Samples) / 3
	if n == 0 {
		return 0, 0
	}
	return mean(l.Samples[:n]), mean(l.Samples[len(l.Samples)-n:])
}

func mean(all []int64) int64 {
	sum := int64(0)
	for _, n := range all {
		sum += n
	}
	return sum / int64(len(all))
}
