package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

const (
	naiveTries = 3
	naivePause = 100 * time.Millisecond
)

// naive is code without a store that tries three times. An application hands it
// one job after the other; what a worker has in hand when it is killed is gone
// with it.
type naive struct {
	*environment
	face   string
	server *loopback.Server

	mu     sync.Mutex
	next   int            // of subjects
	life   int            // of the worker
	inHand map[string]int // jobs and the life that has them
	said   map[string]tally.Verdict
}

func newNaive(h *environment, face string) system {
	return &naive{environment: h, face: face, inHand: make(map[string]int), said: make(map[string]tally.Verdict)}
}

func (n *naive) prepare(context.Context) error {
	var err error
	if n.server, err = loopback.Listen(); err != nil { //nolint:contextcheck // it lives as long as the trial
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /next", n.give)
	mux.HandleFunc("POST /done", n.take)
	n.server.Serve(mux)
	return nil
}

// give hands out a job.
func (n *naive) give(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == len(n.subjects) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	life, err := strconv.Atoi(r.FormValue("life"))
	if err != nil || life != n.life {
		http.Error(w, "of an earlier life", http.StatusGone)
		return
	}
	subject := n.subjects[n.next]
	n.next++
	n.inHand[subject] = life
	_, _ = fmt.Fprint(w, subject) // who does not hear it has lost it
}

// take notes what became of a job.
func (n *naive) take(_ http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	subject := r.FormValue("subject")
	delete(n.inHand, subject)
	n.said[subject] = tally.Failed
	if r.FormValue("ok") == "true" {
		n.said[subject] = tally.Succeeded
	}
}

func (n *naive) command() *exec.Cmd {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.life++
	return worker("naive", n.work(n.face, n.server.URL()+"?life="+strconv.Itoa(n.life)))
}

func (n *naive) ready(context.Context, string) error { return nil }

func (n *naive) atRest(context.Context) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	atRest := n.next
	for _, life := range n.inHand {
		if life == n.life {
			atRest--
		}
	}
	return atRest, nil
}

func (n *naive) verdicts(context.Context) (map[string]tally.Verdict, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.subjects[n.next:] {
		n.said[s] = tally.Unfinished
	}
	return n.said, nil
}

func (n *naive) close() error {
	if n.server == nil {
		return nil
	}
	return n.server.Close()
}

// naiveWorker is a worker's process.
type naiveWorker struct {
	poster *poster
	store  *url.URL
}

func workNaive(ctx context.Context, w work, ready func()) error {
	store, err := url.Parse(w.Store)
	if err != nil {
		return err
	}
	n := naiveWorker{newPoster(w), store}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	defer all.Wait()
	for range w.Senders {
		all.Go(func() {
			if err := n.work(ctx); err != nil {
				cancel(err)
			}
		})
	}
	ready()
	<-ctx.Done()
	return context.Cause(ctx)
}

// work does one job after the other until there are no more.
func (n naiveWorker) work(ctx context.Context) error {
	for ctx.Err() == nil {
		subject, err := n.ask(ctx, "/next", nil)
		if err != nil || subject == "" {
			return err
		}
		failed := n.poster.post(ctx, subject)
		for range naiveTries - 1 {
			if failed == nil || !nap(ctx, naivePause) {
				break
			}
			failed = n.poster.post(ctx, subject)
		}
		ok := strconv.FormatBool(failed == nil)
		if _, err := n.ask(ctx, "/done", url.Values{"subject": {subject}, "ok": {ok}}); err != nil {
			return err
		}
	}
	return nil
}

// ask calls the application.
func (n naiveWorker) ask(ctx context.Context, path string, form url.Values) (string, error) {
	u := *n.store
	u.Path = path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode > 299 {
		return "", errors.New("the application answered " + resp.Status)
	}
	return string(text), nil
}
