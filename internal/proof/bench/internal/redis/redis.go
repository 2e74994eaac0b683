// Package redis runs a Redis server for asynq.
package redis

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// readyBy bounds the start, far above what it takes on a busy machine.
const readyBy = time.Minute

// ErrNone is why asynq is left out.
var ErrNone = errors.New("there is no redis-server on the PATH: .ci/need-redis installs it")

// Program finds a Redis server; empty: there is none.
func Program() string {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return ""
	}
	return path
}

// Server is a Redis of one trial's own, on a Unix socket. It is never
// killed: what it has promised to keep, it keeps.
type Server struct {
	// Socket is where it listens.
	Socket string

	process *proc.Process
}

// Start runs a server that logs into a folder. Its data is in a folder of its own.
func Start(ctx context.Context, program, dir string) (*Server, error) {
	log, err := os.Create(filepath.Join(dir, "redis.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	// The path of a socket is short on some systems.
	home, err := os.MkdirTemp("", "fireonce-redis-")
	if err != nil {
		return nil, err
	}
	r := &Server{Socket: filepath.Join(home, "socket")}
	cmd := exec.Command(program, "-") //nolint:noctx // ended by its trial
	conf, err := config(r.Socket, home)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	defer conf.Close() //nolint:errcheck // only read
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = home, conf, log, log
	if r.process, err = proc.Start(cmd); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	if err := r.answers(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// config returns the server's configuration, to be read from its start.
func config(socket, dir string) (*os.File, error) {
	path := filepath.Join(dir, "redis.conf")
	text := "port 0\nunixsocket " + socket + "\nunixsocketperm 700\ndir " + dir + "\nsave \"\"\nappendonly yes\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// answers waits until the server does.
func (r *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyBy)
	defer cancel()
	inspector := asynq.NewInspector(At(r.Socket))
	defer inspector.Close() //nolint:errcheck // nothing was written
	for {
		_, err := inspector.Queues()
		if err == nil {
			return nil
		}
		select {
		case <-r.process.Done():
			return errors.Join(errors.New("redis ended by itself"), err)
		default:
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(errors.New("redis did not get ready"), err)
		}
	}
}

// At is how asynq finds the server of a socket.
func At(socket string) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: socket}
}

// Close ends the server and removes its data.
func (r *Server) Close() error {
	r.process.Kill()
	return os.RemoveAll(filepath.Dir(r.Socket))
}
