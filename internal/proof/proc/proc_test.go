package proc_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// limit bounds every wait, far above what one takes.
const limit = time.Minute

func shell(t *testing.T, script string) *proc.Process {
	t.Helper()
	p, err := proc.Start(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func TestReadyReturnsTheFirstLine(t *testing.T) {
	p := shell(t, "echo ready: here; echo more; read -r _; exit 3")
	line, err := p.Ready(t.Context(), limit)
	if err != nil || line != "ready: here" {
		t.Errorf("%q, %v", line, err)
	}
	if code := p.ExitCode(); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if p.Alive() == nil || p.Killed() {
		t.Error("it has ended by itself")
	}
	if err := p.Stop(limit); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("stop after the end: %v", err)
	}
}

func TestReadyKillsAProcessWithoutALine(t *testing.T) {
	p := shell(t, "sleep 600")
	if _, err := p.Ready(t.Context(), time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) || !p.Killed() {
		t.Errorf("%v", err)
	}
}

func TestStopThawsAFrozenProcess(t *testing.T) {
	p := shell(t, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
	if _, err := p.Ready(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(limit); err != nil {
		t.Error(err)
	}
}

func TestStopKillsAProcessThatStays(t *testing.T) {
	p := shell(t, "trap '' TERM; echo ready; while :; do sleep 0.01; done")
	if _, err := p.Ready(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(time.Millisecond); err == nil || !p.Killed() {
		t.Errorf("%v", err)
	}
}

func TestServeAppendsItsLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for range 2 {
		p, line, err := proc.Serve(t.Context(), exec.Command("sh", "-c", "echo a line >&2; echo ready; read -r _"), log)
		if err != nil || line != "ready" {
			t.Fatalf("%q, %v", line, err)
		}
		p.Kill()
	}
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "a line\n") != 2 {
		t.Errorf("%q, %v", text, err)
	}
	if _, _, err := proc.Serve(t.Context(), exec.Command("sh", "-c", "exit 1"), log); err == nil || !strings.Contains(err.Error(), log) {
		t.Errorf("a program that ends: %v", err)
	}
}
