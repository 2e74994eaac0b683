// Package receiver is an HTTP receiver that commits each request, may then lose the
// answer, and counts the effects that really took place. The demo and the crash tests
// judge by its counts.
package receiver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Answer is what happens to the answer after a request was committed.
type Answer int

const (
	// Reply answers 200.
	Reply Answer = iota
	// Reset closes the connection without an answer.
	Reset
	// Silence never answers; the client must give up.
	Silence
)

// Request is one request as it arrived. Its path names the subject, which must take
// effect once.
type Request struct {
	Subject string
	// ID is the header webhook-id; empty: the client sent none.
	ID string
	// Number counts the requests for the subject, from 1.
	Number int
	// Effect reports whether this request took effect; false: it was dropped as a
	// repeat.
	Effect bool
}

// Options configure a Receiver.
type Options struct {
	// Dedupes drops requests whose webhook-id was seen before. They are answered
	// like others. A request without the header is never dropped.
	Dedupes bool
	// Plan decides what happens to the answer. It is called after the commit, from
	// many goroutines, and may block. Nil: Reply.
	Plan func(Request) Answer
}

// Totals holds a receiver's counts.
type Totals struct {
	Requests, Effects int
	// Subjects is how many subjects have an effect; further effects of them are
	// Duplicates.
	Subjects, Duplicates int
}

// Receiver serves on a loopback port.
type Receiver struct {
	opts Options
	http *http.Server
	url  string
	done chan struct{}

	mu       sync.Mutex
	requests map[string]int
	effects  map[string]int
	seen     map[string]bool
}

// Start starts a receiver.
func Start(opts Options) (*Receiver, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &Receiver{
		opts: opts, url: "http://" + listener.Addr().String(), done: make(chan struct{}),
		requests: make(map[string]int), effects: make(map[string]int), seen: make(map[string]bool),
	}
	r.http = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.http.Serve(listener) }()
	return r, nil
}

// Close stops the receiver and ends every request that it does not answer.
func (r *Receiver) Close() error {
	close(r.done)
	return r.http.Close()
}

// URL returns the URL for requests for a subject.
func (r *Receiver) URL(subject string) string { return r.url + "/" + subject }

// Effects returns the number of effects of a subject.
func (r *Receiver) Effects(subject string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.effects[subject]
}

// Requests returns the number of requests for a subject.
func (r *Receiver) Requests(subject string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests[subject]
}

// Totals returns the counts so far.
func (r *Receiver) Totals() Totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	var t Totals
	for _, n := range r.requests {
		t.Requests += n
	}
	for _, n := range r.effects {
		t.Effects += n
		t.Subjects++
	}
	t.Duplicates = t.Effects - t.Subjects
	return t
}

// ServeHTTP commits a request and treats its answer as planned.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if _, err := io.Copy(io.Discard, io.LimitReader(req.Body, 1<<20)); err != nil {
		return // an incomplete request has no effect
	}
	got := r.commit(strings.TrimPrefix(req.URL.Path, "/"), req.Header.Get("Webhook-Id"))
	answer := Reply
	if r.opts.Plan != nil {
		answer = r.opts.Plan(got)
	}
	switch answer {
	case Reply:
		w.WriteHeader(http.StatusOK)
	case Reset:
		CloseUnanswered(w)
	case Silence:
		select {
		case <-req.Context().Done():
		case <-r.done:
		}
		CloseUnanswered(w)
	}
}

func (r *Receiver) commit(subject, id string) Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests[subject]++
	got := Request{Subject: subject, ID: id, Number: r.requests[subject]}
	if r.opts.Dedupes && id != "" && r.seen[id] {
		return got
	}
	r.seen[id] = true
	r.effects[subject]++
	got.Effect = true
	return got
}

// CloseUnanswered closes a connection so that the client sees no answer.
func CloseUnanswered(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(errors.Join(http.ErrAbortHandler, err))
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
