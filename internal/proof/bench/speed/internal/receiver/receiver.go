// Package receiver is where the jobs of a comparison take effect: an HTTP server
// in a process of its own that counts how often each job's request arrives, and
// how late. What it says is the only judge of what was done.
package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/stats"
)

// Tally is what arrived in one run.
type Tally struct {
	// Jobs arrived at least once; Doubled of them more than once.
	Jobs    int `json:"jobs"`
	Doubled int `json:"doubled"`
	// Strange requests were none of the run's.
	Strange int `json:"strange"`
	// Lags are between the times that the jobs say and their arrivals.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
	Max time.Duration `json:"max"`
}

// Check returns what is wrong with a run of so many jobs.
func (t Tally) Check(jobs int) error {
	if t.Jobs != jobs || t.Doubled > 0 || t.Strange > 0 {
		return fmt.Errorf("of %d jobs %d took effect, %d of them more than once, and %d requests were none of theirs",
			jobs, t.Jobs, t.Doubled, t.Strange)
	}
	return nil
}

const (
	// mostJobs bounds a run.
	mostJobs = 1 << 24
	// runs is the prefix of the paths of runs.
	runs = "/run/"
)

// run is one run's arrivals.
type run struct {
	mu      sync.Mutex
	counts  []uint8 // by job
	lags    []int64 // in microseconds
	jobs    int
	doubled int
	strange int
}

// note counts an arrival. Jobs below zero warm up and are not counted.
func (r *run) note(body []byte, at time.Time) {
	n, ok := number(body, `"n":`)
	since, timed := number(body, `"since":`)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !ok || !timed || n >= mostJobs:
		r.strange++
		return
	case n < 0:
		return
	}
	for int(n) >= len(r.counts) {
		r.counts = append(r.counts, make([]uint8, max(1024, len(r.counts)))...)
	}
	switch r.counts[n]++; r.counts[n] {
	case 0:
		r.counts[n]-- // enough is known
	case 1:
		r.jobs++
	case 2:
		r.doubled++
	}
	r.lags = append(r.lags, at.UnixMicro()-since)
}

func (r *run) tally() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := func(q float64) time.Duration {
		return time.Duration(stats.Quantile(r.lags, q)) * time.Microsecond
	}
	return Tally{Jobs: r.jobs, Doubled: r.doubled, Strange: r.strange, P50: of(0.5), P99: of(0.99), Max: of(1)}
}

// arrived is how many jobs have arrived, without putting lags in order.
func (r *run) arrived() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.jobs
}

// server answers every request with 200 immediately.
type server struct {
	mu      sync.RWMutex
	runs    map[string]*run
	buffers sync.Pool
}

func newServer() *server {
	return &server{runs: make(map[string]*run), buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
}

func (s *server) run(name string) *run {
	s.mu.RLock()
	r := s.runs[name]
	s.mu.RUnlock()
	if r != nil {
		return r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[name] == nil {
		s.runs[name] = new(run)
	}
	return s.runs[name]
}

// ServeHTTP takes a job's request with POST, returns the number of jobs with GET,
// and returns a run's tally and forgets it with DELETE.
func (s *server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	name, ok := strings.CutPrefix(req.URL.Path, runs)
	if !ok || name == "" {
		http.NotFound(w, req)
		return
	}
	switch req.Method {
	case http.MethodPost:
		b := s.buffers.Get().(*bytes.Buffer)
		defer s.buffers.Put(b)
		b.Reset()
		if _, err := io.Copy(b, req.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.run(name).note(b.Bytes(), at)
	case http.MethodGet:
		fmt.Fprintln(w, s.run(name).arrived())
	case http.MethodDelete:
		tally := s.run(name).tally()
		s.mu.Lock()
		delete(s.runs, name)
		s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(tally) // who asks sees half an answer
	default:
		http.Error(w, "POST, GET or DELETE", http.StatusMethodNotAllowed)
	}
}

// Serve serves on a free port of the loopback, until ctx ends. ready gets the
// URL.
func Serve(ctx context.Context, ready func(url string)) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &http.Server{Handler: newServer(), ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = h.Close() })
	defer stop()
	ready("http://" + l.Addr().String())
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
