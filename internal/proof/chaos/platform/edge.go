package platform

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/fireonce/fireonce/internal/proof/loopback"
)

// The marks of an Edge's refusals: 503 has the header RefusedBy with the value Refused, and
// 502 has NoReceiver in its body. The same statuses without a mark prove nothing.
const (
	RefusedBy  = "X-Refused-By"
	Refused    = "edge"
	NoReceiver = "edge: no healthy receiver was asked"
)

const (
	// edgeRefuses is the share of requests that an Edge does not pass on.
	edgeRefuses = 0.08
	// edgeWaits bounds how long it waits for the head of an answer: less than its clients do.
	edgeWaits = 700 * time.Millisecond
)

// Edge is a proxy in front of a platform, as operators have one in front of their receivers: a
// hop of its own over TCP. It refuses some requests with a mark, and passes on all others once.
// If its receiver breaks off, it answers 502 or 503 without a mark, and 504 if the receiver is
// too slow: the receiver may have acted, and may still act. It is safe for concurrent use.
type Edge struct {
	server *loopback.Server
	seed   uint64

	mu      sync.Mutex
	fair    bool
	numbers map[string]int // of requests, by path
	counts  EdgeCounts
}

// EdgeCounts counts an Edge's own answers to jobs; those to notices would hide that there were none.
type EdgeCounts struct {
	// Refused were not passed on, and are marked.
	Refused int
	// Broken are 502 and 503 for a receiver that broke off, and Late 504.
	Broken, Late int
}

// Drawn for one request at an Edge.
const (
	drawRefused uint64 = iota + 100
	drawEdgeStatus
)

// StartEdge serves on a loopback port, in front of the platform at a URL. A seed decides what it
// refuses.
func StartEdge(platform string, seed uint64) (*Edge, error) {
	to, err := url.Parse(platform)
	if err != nil {
		return nil, err
	}
	e := &Edge{seed: seed, numbers: make(map[string]int)}
	if e.server, err = loopback.Listen(); err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		// A connection is used once: a transport that reuses them may send a request twice.
		Transport:    &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: edgeWaits},
		ErrorHandler: e.broken,
		ErrorLog:     stdlog.New(io.Discard, "", 0), // answers that break off in the middle are the platform's faults
	}
	e.server.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number, refused := e.receive(r)
		if refused {
			e.answer(w, r, number, true)
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), numberKey{}, number)))
	}))
	return e, nil
}

type numberKey struct{}

// URL is the base URL; its paths are the platform's.
func (e *Edge) URL() string { return e.server.URL() }

// Heal ends the refusals.
func (e *Edge) Heal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fair = true
}

// Counts returns what the Edge has answered so far.
func (e *Edge) Counts() EdgeCounts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts
}

// Close ends the Edge.
func (e *Edge) Close() error { return e.server.Close() }

// receive numbers a request among those of its path, and decides whether it is refused.
func (e *Edge) receive(r *http.Request) (number int, refused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.numbers[r.URL.Path]++
	number = e.numbers[r.URL.Path]
	refused = !e.fair && draw(e.seed, "edge", r.URL.Path, number, drawRefused) < edgeRefuses
	if refused && !isTold(r) {
		e.counts.Refused++
	}
	return number, refused
}

// broken answers for a receiver that did not.
func (e *Edge) broken(w http.ResponseWriter, r *http.Request, err error) {
	var timeout net.Error
	late := errors.As(err, &timeout) && timeout.Timeout()
	if r.Context().Err() != nil {
		loopback.Reset(w)
		return
	}
	e.mu.Lock()
	switch {
	case isTold(r):
	case late:
		e.counts.Late++
	default:
		e.counts.Broken++
	}
	e.mu.Unlock()
	if late {
		failed(http.StatusGatewayTimeout, "edge: the receiver did not answer in time").send(w)
		return
	}
	number, _ := r.Context().Value(numberKey{}).(int)
	e.answer(w, r, number, false)
}

// answer writes 502 or 503, as the request's number decides, with the mark of a refusal or
// without it.
func (e *Edge) answer(w http.ResponseWriter, r *http.Request, number int, refused bool) {
	a := failed(http.StatusServiceUnavailable, "edge: the receiver broke off")
	header := draw(e.seed, "edge", r.URL.Path, number, drawEdgeStatus) < 0.5
	switch {
	case refused && header:
		a.header = map[string]string{RefusedBy: Refused}
	case refused:
		a = failed(http.StatusBadGateway, NoReceiver)
	case !header:
		a.status = http.StatusBadGateway
	}
	a.send(w)
}

func (c EdgeCounts) String() string {
	return fmt.Sprintf("%d refused with a mark; %d times 502 or 503, and %d times 504, for a receiver that had the request", c.Refused, c.Broken, c.Late)
}
