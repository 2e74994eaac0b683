package usage

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	got, ok := parseStat("41 (a (b) c) S 7 41 41 0 -1 4194560 1 2 3 4 150 50 3 2 20 0 1 0 99 1000 10")
	if want := (stat{parent: 7, own: 2 * time.Second, gone: 50 * time.Millisecond}); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := parseStat("41 (short) S 7"); ok {
		t.Error("half a line was read")
	}
}

func TestKilobytes(t *testing.T) {
	const status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n"
	if got := kilobytes(status, "VmRSS:"); got != 1<<20 {
		t.Errorf("%d", got)
	}
	if got := kilobytes(status, "VmHWM:"); got != 2<<20 {
		t.Errorf("%d", got)
	}
	if got := kilobytes(status, "VmSwap:"); got != 0 {
		t.Errorf("%d", got)
	}
}
