package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"

	"github.com/fireonce/fireonce/internal/proof/proc"
)

// work is the task of a worker's process.
type work struct {
	// URL takes the requests; Keyed: with a key.
	URL     string
	Keyed   bool
	Senders int
	Timeout platform.Duration
	// Store is where the system keeps its jobs: a database, a socket of Redis, or
	// the application that calls.
	Store string
}

func (h *environment) work(face, store string) work {
	return work{
		URL: h.hook(face), Keyed: face == platform.FaceKeyed, Senders: h.senders,
		Timeout: platform.Duration(h.timeout), Store: store,
	}
}

// workers are the peers' worker processes. Each calls ready and works until it
// is killed or ctx ends.
var workers = map[string]func(ctx context.Context, w work, ready func()) error{
	"river": workRiver, "asynq": workAsynq, "reset": workReset, "naive": workNaive,
}

// worker prepares a worker process: this program once more.
func worker(name string, w work) *exec.Cmd {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // strings and numbers can be written
	}
	return proc.Again("worker", name, string(text))
}

// runWorker is the worker's process.
func runWorker(ctx context.Context, args []string) error {
	if len(args) != 2 || workers[args[0]] == nil {
		return fmt.Errorf("not a worker: %q", args)
	}
	var w work
	if err := json.Unmarshal([]byte(args[1]), &w); err != nil {
		return err
	}
	return workers[args[0]](ctx, w, func() { fmt.Println("ready") })
}

// nap waits; false: ctx has ended.
func nap(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
