//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal opens a pseudo-terminal and returns its two sides.
func openTerminal(t *testing.T) (write, read *os.File) {
	t.Helper()
	read, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { read.Close() })
	if err := unix.IoctlSetPointerInt(int(read.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(read.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	write, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return write, read
}

// TestColors checks that a terminal gets colors, unless it or its user turns them off.
func TestColors(t *testing.T) {
	t.Parallel()
	n := startNode(t, onSQLite, 0)
	if out, code := command(t, "connections", "create", "--server", n.URL(), "--key", "orders", "--receiver-dedupes", "no"); code != 0 {
		t.Fatal(out)
	}
	for name, c := range map[string]struct {
		env  string
		args []string
		want bool
	}{
		"a terminal": {want: true},
		"NO_COLOR":   {env: "NO_COLOR=1"},
		"TERM":       {env: "TERM=dumb"},
		"--no-color": {args: []string{"--no-color"}},
		"JSON":       {args: []string{"--output", "jsonl"}},
	} {
		t.Run(name, func(t *testing.T) {
			write, read := openTerminal(t)
			cmd := exec.CommandContext(waiting(t), "fireonce", append([]string{"connections", "list", "--server", n.URL()}, c.args...)...)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "TERM=xterm", "NO_COLOR=", c.env), write, os.Stderr
			err := cmd.Run()
			write.Close()
			if err != nil {
				t.Fatal(err)
			}
			out, _ := io.ReadAll(read) // ends with EIO: the other side is closed
			if !strings.Contains(string(out), "ACTIVE") || strings.Contains(string(out), "\x1b[32mACTIVE\x1b[0m") != c.want || strings.Contains(string(out), "\x1b") != c.want {
				t.Errorf("printed %q", out)
			}
		})
	}
}
