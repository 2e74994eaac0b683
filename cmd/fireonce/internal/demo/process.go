package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

// process is a server process that is started, killed and started again, on
// one database and one port.
type process struct {
	binary, dir, log string
	address          string
	cmd              *exec.Cmd
	out              *os.File
}

const (
	startTimeout = 20 * time.Second
	// starts bounds the tries of a start: another program may have the port.
	starts = 5
)

// readyAddress finds the address in the line that `serve` prints when it is ready.
var readyAddress = regexp.MustCompile(` ready: http://([0-9.]+:[0-9]+),`)

func (p *process) start(ctx context.Context) error {
	var err error
	for range starts {
		if err = p.tryStart(ctx); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (p *process) tryStart(ctx context.Context) (err error) {
	if p.address == "" {
		p.address = "127.0.0.1:0"
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, p.binary, "serve", "--dev", "--listen", p.address, //nolint:gosec // our own binary
		"--database", "sqlite:"+filepath.Join(p.dir, "demo.db"), "--grace", grace.String(), "--log-level", "warn")
	cmd.Env = cleanEnv()
	cmd.Stdout, cmd.Stderr = write, log
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return fmt.Errorf("start the server: %w", err)
	}
	p.cmd, p.out = cmd, read
	_ = read.SetReadDeadline(time.Now().Add(startTimeout))
	line, err := bufio.NewReader(read).ReadString('\n')
	found := readyAddress.FindStringSubmatch(line)
	if found == nil {
		p.kill()
		return fmt.Errorf("the server did not get ready (%q, %w); see %s", strings.TrimSpace(line), err, p.log)
	}
	p.address = found[1]
	return nil
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // "signal: killed" is expected
	_ = p.out.Close()
	p.cmd = nil
}

func (p *process) dial() (*client.API, error) {
	host, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return nil, err
	}
	return client.Dial("http://"+net.JoinHostPort(host, port), "")
}

// cleanEnv returns the environment without the variables that would configure the server.
func cleanEnv() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "FIREONCE_") {
			env = append(env, pair)
		}
	}
	return env
}
