package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hibiken/asynq"
)

// redisProgram finds a Redis server; empty: there is none.
func redisProgram() string {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return ""
	}
	return path
}

// redisServer is a Redis of one trial's own, on a Unix socket. It is never
// killed: what it has promised to keep, it keeps.
type redisServer struct {
	cmd    *exec.Cmd
	done   chan struct{}
	socket string
}

func startRedis(ctx context.Context, program, dir string) (*redisServer, error) {
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
	r := &redisServer{socket: filepath.Join(home, "socket"), done: make(chan struct{})}
	r.cmd = exec.Command(program, "-") //nolint:noctx // ended by its trial
	config, err := redisConfig(r.socket, home)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	defer config.Close() //nolint:errcheck // only read
	r.cmd.Dir, r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr, r.cmd.SysProcAttr = home, config, log, log, attributes()
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.done)
	}()
	if err := r.answers(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// redisConfig gives the server's configuration, to be read from its start.
func redisConfig(socket, dir string) (*os.File, error) {
	path := filepath.Join(dir, "redis.conf")
	text := "port 0\nunixsocket " + socket + "\nunixsocketperm 700\ndir " + dir + "\nsave \"\"\nappendonly yes\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// answers waits until the server does.
func (r *redisServer) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyBy)
	defer cancel()
	inspector := asynq.NewInspector(redisAt(r.socket))
	defer inspector.Close() //nolint:errcheck // nothing was written
	for {
		_, err := inspector.Queues()
		if err == nil {
			return nil
		}
		select {
		case <-r.done:
			return errors.Join(errors.New("redis ended by itself"), err)
		default:
		}
		if !nap(ctx, 20*time.Millisecond) {
			return errors.Join(errors.New("redis did not get ready"), err)
		}
	}
}

func redisAt(socket string) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Network: "unix", Addr: socket}
}

func (r *redisServer) close() error {
	_ = r.cmd.Process.Kill() // it may be gone already
	<-r.done
	return os.RemoveAll(filepath.Dir(r.socket))
}
