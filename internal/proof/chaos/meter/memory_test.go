package meter

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// world is a made-up /proc.
func world(t *testing.T) (m *Memory, write func(pid int, status string)) {
	t.Helper()
	m = &Memory{proc: t.TempDir()}
	return m, func(pid int, status string) {
		dir := filepath.Join(m.proc, fmt.Sprint(pid))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "status"), []byte(status), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEveryProcessIsALifeOfItsOwn(t *testing.T) {
	m, write := world(t)
	for _, it := range []struct {
		server, pid int
		status      string
	}{
		{0, 7, "Name:\tfireonce\nVmHWM:\t     900 kB\nVmRSS:\t     100 kB\n"},
		{1, 8, "VmHWM:\t 50 kB\nVmRSS:\t 50 kB\n"},
		{0, 7, "VmHWM:\t 900 kB\nVmRSS:\t 200 kB\n"},
		{0, 9, "VmHWM:\t 10 kB\nVmRSS:\t 10 kB\n"},
		{0, 9, "Name:\tfireonce\nState:\tZ (zombie)\n"},
	} {
		write(it.pid, it.status)
		if err := m.Sample(it.server, it.pid); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Sample(0, 10); err != nil {
		t.Errorf("a process that is gone: %v", err)
	}
	want := []Life{
		{Server: 0, PID: 7, Samples: []int64{100 << 10, 200 << 10}, Peak: 900 << 10},
		{Server: 1, PID: 8, Samples: []int64{50 << 10}, Peak: 50 << 10},
		{Server: 0, PID: 9, Samples: []int64{10 << 10}, Peak: 10 << 10},
	}
	if got := m.Lives(); !slices.EqualFunc(got, want, func(a, b Life) bool {
		return a.Server == b.Server && a.PID == b.PID && a.Peak == b.Peak && slices.Equal(a.Samples, b.Samples)
	}) {
		t.Errorf("%+v", got)
	}
	write(11, "VmRSS:\t much\n")
	if err := m.Sample(0, 11); err == nil {
		t.Error("what is not understood was taken")
	}
}

func TestTheOwnMemoryIsRead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is read from /proc")
	}
	m := NewMemory()
	if err := m.Sample(0, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if l := m.Lives(); len(l) != 1 || l[0].Samples[0] < 1<<20 || l[0].Peak < l[0].Samples[0]/2 {
		t.Errorf("%+v", l)
	}
}

func TestThirds(t *testing.T) {
	for _, tt := range []struct {
		samples     []int64
		first, last int64
	}{
		{nil, 0, 0}, {[]int64{1, 2}, 0, 0}, {[]int64{1, 5, 9}, 1, 9}, {[]int64{1, 3, 50, 50, 50, 7, 9}, 2, 8},
	} {
		if first, last := (Life{Samples: tt.samples}).Thirds(); first != tt.first || last != tt.last {
			t.Errorf("%v: %d and %d", tt.samples, first, last)
		}
	}
}
