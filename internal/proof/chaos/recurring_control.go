package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

const (
	naiveCronPrefix = "cron-"
	// naiveCrons fire every naiveEvery; each process looks as often as it can be late.
	naiveCrons = 8
	naiveEvery = 5 * time.Second
	naiveLook  = 250 * time.Millisecond
)

// naiveCron is the scheduler that many write: each process has a timer in memory, looks at the
// row that all share whether the time is done, posts, and notes that it has. Each process of
// it lives and dies with a server of the campaign, and posts to the same platform. If it
// makes no duplicates, the faults do not bite.
type naiveCron struct {
	fleet *fleet.Fleet
	url   string

	mu    sync.Mutex
	noted [naiveCrons]int64 // the last time that is done: the row that all share
}

func newNaiveCron(f *fleet.Fleet, url string) *naiveCron {
	n := &naiveCron{fleet: f, url: url}
	for i := range n.noted {
		n.noted[i] = time.Now().Unix() / int64(naiveEvery/time.Second)
	}
	return n
}

// run has a process beside each server until ctx ends.
func (n *naiveCron) run(ctx context.Context) {
	var all sync.WaitGroup
	for server := range n.fleet.Size() {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, runs := n.fleet.Life(server); runs {
					n.live(ctx, n.fleet.Ended(server))
				}
				fleet.Pause(ctx, naiveLook)
			}
		})
	}
	all.Wait()
}

// live is one life of a process, which ends in the middle of whatever it does.
func (n *naiveCron) live(ctx context.Context, ended <-chan struct{}) {
	ctx, die := context.WithCancel(ctx)
	defer die()
	var all sync.WaitGroup
	client := &http.Client{Timeout: attemptTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range naiveCrons {
		all.Go(func() {
			_ = every(ctx, naiveLook, func() error { // it does not fail
				n.look(ctx, client, i)
				return nil
			})
		})
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
	die()
	all.Wait()
}

// look posts for the time that has come, unless it is noted.
func (n *naiveCron) look(ctx context.Context, client *http.Client, i int) {
	due := time.Now().Unix() / int64(naiveEvery/time.Second)
	n.mu.Lock()
	done := n.noted[i] >= due
	n.mu.Unlock()
	if done || !post(ctx, client, fmt.Sprintf("%s/hook/opaque/%s%d-%d", n.url, naiveCronPrefix, i, due)) || ctx.Err() != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.noted[i] = max(n.noted[i], due)
}

func isNaiveCron(subject string) bool { return strings.HasPrefix(subject, naiveCronPrefix) }

// isControls reports whether a subject is none of the service's.
func isControls(subject string) bool { return isControl(subject) || isNaiveCron(subject) }
