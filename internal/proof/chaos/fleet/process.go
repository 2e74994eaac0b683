// Package fleet runs servers as they are run in earnest: real processes on one
// database, each started again when it ends. It starts, kills, freezes and thaws
// them, and calls them as clients do.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// stopBy bounds the end in order that SIGTERM asks for.
const stopBy = 75 * time.Second

// Life is what a server is started with.
type Life struct {
	// Failpoint is where it kills itself, Freeze where it freezes, Offsets how far
	// its wall clock is off; see internal/failpoint. Empty: nothing of the kind.
	Failpoint, Freeze, Offsets string
}

func (l Life) env() []string {
	return append(os.Environ(), "FIREONCE_FAILPOINT="+l.Failpoint, "FIREONCE_FREEZE="+l.Freeze,
		"FIREONCE_CLOCK_OFFSET="+l.Offsets)
}

// process is one life of a server.
type process struct {
	*proc.Process
	life Life
	at   Listener
	api  *API
}

// Listener is a running server: its process, and the addresses that it serves.
type Listener struct {
	Server, PID int
	// URL is the API's. GRPC is the host and port of the listener for gRPC alone; empty:
	// the server has none.
	URL, GRPC string
}

var readyURL = regexp.MustCompile(` ready: (http://[^,]+),(?: gRPC ([^,]+),)?`)

// begin starts a process and waits until it is ready. Its log goes to a file that
// all lives of a server share.
func begin(ctx context.Context, o Options, number int, life Life) (*process, error) {
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--database", o.Database}, o.Args...)
	// It ends by its fleet, not with the context that bounds its start.
	cmd := exec.Command(o.Binary, args...) //nolint:noctx,gosec // the binary that was built for this
	cmd.Dir, cmd.Env = o.Dir, append(life.env(), o.Env...)
	started, err := proc.StartLogged(cmd, filepath.Join(o.Dir, fmt.Sprintf("server-%d.log", number)))
	if err != nil {
		return nil, err
	}
	p := &process{Process: started, life: life, at: Listener{Server: number, PID: started.PID()}}
	if o.AddressSpace > 0 {
		err = limitAddressSpace(p.PID(), o.AddressSpace)
	}
	if err == nil {
		p.at.URL, p.at.GRPC, err = p.ready(ctx)
	}
	if err == nil {
		p.api, err = Dial(p.at.URL, o.Key)
	}
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// ready waits for the line that says where the server serves.
func (p *process) ready(ctx context.Context) (url, grpc string, err error) {
	line, err := p.Ready(ctx, proc.ReadyBy)
	if err != nil {
		return "", "", err
	}
	found := readyURL.FindStringSubmatch(line)
	if found == nil {
		return "", "", fmt.Errorf("the server was not ready: %q", line)
	}
	return found[1], found[2], nil
}

// stop ends the server in order.
func (p *process) stop() error {
	if err := p.Stop(stopBy); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return p.Err()
}
