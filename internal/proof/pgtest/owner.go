//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// superuser is the cluster's own. The tests' databases belong to role.
const (
	superuser = "postgres"
	role      = "fireonce"
)

// owner is the user that the server runs as. It matters only if the tests run
// as root, which PostgreSQL refuses.
type owner struct{ credential *syscall.Credential }

func findOwner() (owner, error) {
	if os.Geteuid() != 0 {
		return owner{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return owner{}, fmt.Errorf("pgtest: user %s: %w", name, err)
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return owner{}, fmt.Errorf("pgtest: group of %s: %w", name, err)
		}
		return owner{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return owner{}, fmt.Errorf("pgtest: PostgreSQL refuses to run as root, and there is no user postgres or nobody")
}

// folder makes the owner's folder. Its path is short: a socket's has 104 bytes
// on some systems.
func (o owner) folder() (string, error) {
	base := memdir.Base() // each new database takes a checkpoint, which a busy disk may take seconds for
	if len(base) > 60 {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "fireonce-pg-")
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	if o.credential != nil {
		if err := os.Chown(dir, int(o.credential.Uid), int(o.credential.Gid)); err != nil {
			return "", fmt.Errorf("pgtest: %w", err)
		}
	}
	return filepath.Abs(dir)
}

// command prepares a program that runs as the owner, in its folder and in a
// process group of its own: a Ctrl-C at the terminal is not meant for it.
func (o owner) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...) //nolint:noctx,gosec // ended by its cluster, not by a test's context; programs are PostgreSQL's
	cmd.Dir, cmd.Env = dir, environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: o.credential}
	return cmd
}

// environment is ours without what would steer PostgreSQL's programs, and in
// English: the logs are read.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") && !strings.HasPrefix(v, "LC_") && !strings.HasPrefix(v, "LANG") {
			env = append(env, v)
		}
	}
	return env
}
