//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// watchdog removes a cluster when the test's process lets go of it, or is gone:
// it reads a pipe that only the test's process holds open. It is in a session of
// its own, so that what kills the test's process group leaves it alone.
type watchdog struct {
	cmd  *exec.Cmd
	held *os.File // the pipe's end; initdb inherits it, the server does not
}

// cleaning waits for the pipe's end, then stops the server and removes the
// folder. $1: the programs, $2: the folder.
const cleaning = `cat >/dev/null; "$1/pg_ctl" -D "$2/data" -m immediate stop >/dev/null 2>&1; cd / && rm -rf "$2"`

func watch(o owner, bin, dir string) (*watchdog, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	defer read.Close() //nolint:errcheck // the watchdog has its own
	cmd := o.command(dir, "/bin/sh", "-c", cleaning, "fireonce-pgtest", bin, dir)
	cmd.Stdin = read
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: o.credential}
	if err := cmd.Start(); err != nil {
		write.Close() //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("pgtest: watchdog: %w", err)
	}
	return &watchdog{cmd: cmd, held: write}, nil
}

// release has the cluster removed, and waits for it.
func (w *watchdog) release() error {
	if err := w.held.Close(); err != nil {
		return fmt.Errorf("pgtest: watchdog: %w", err)
	}
	if err := w.cmd.Wait(); err != nil {
		return fmt.Errorf("pgtest: watchdog: %w", err)
	}
	return nil
}
