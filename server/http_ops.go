package server

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/fireonce/fireonce/internal/metrics"
)

// Rules of this file: operators' programs have a listener of their own. It needs no key, so its
// answers have numbers and states, and nothing that a client wrote.

const (
	// opsTime bounds a request to the operations listener and its answer.
	opsTime = 15 * time.Second
	// readyWait is how long /readyz waits for the database.
	readyWait = 2 * time.Second
)

// opsIdle is short, because few connections are allowed: idle ones must not keep out a monitor.
const opsIdle = 15 * time.Second

// Ops answers on the operations listener: GET /metrics, /status, /livez and /readyz.
type Ops struct {
	metrics http.Handler
	// anyHost makes it answer to any host name.
	anyHost      bool
	allowedHosts []string
	server       atomic.Pointer[Server]
}

// NewOps makes one for a server that starts. On a loopback address it answers to loopback names
// and allowedHosts only, so that no web page reaches it by a name of its own.
func NewOps(m *metrics.Metrics, loopback bool, allowedHosts []string) *Ops {
	return &Ops{metrics: m.Handler(), anyHost: !loopback, allowedHosts: allowedHosts}
}

// Serve is called when the server is ready.
func (o *Ops) Serve(s *Server) { o.server.Store(s) }

// HTTPServer makes the server of the listener.
func (o *Ops) HTTPServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", o.metrics)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { opsSay(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", o.ready)
	mux.HandleFunc("GET "+statusPath, func(w http.ResponseWriter, r *http.Request) {
		if s := o.server.Load(); s != nil {
			s.status(w, r)
			return
		}
		startingPage(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeAs(w, r, http.StatusNotFound, connect.NewError(connect.CodeUnimplemented,
			errors.New("this is the port for operations, with GET /metrics, "+statusPath+", /livez and /readyz; the API has a port of its own: --listen")))
	})
	return &http.Server{
		Handler:           o.guarded(mux),
		ReadHeaderTimeout: ReadHeaderTimeout, ReadTimeout: opsTime, WriteTimeout: opsTime, IdleTimeout: opsIdle,
		MaxHeaderBytes: maxHeaderBytes,
	}
}

func (o *Ops) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Content-Type-Options"] = nosniff
		w.Header()["Cache-Control"] = noStore
		if o.anyHost || hostAllowed(r.Host, o.allowedHosts) {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, "the operations listener answers to loopback names only, and to --allow-host", http.StatusMisdirectedRequest)
	})
}

// ready answers 200 when calls are served: the server has started, is not shutting down,
// and its database answers.
func (o *Ops) ready(w http.ResponseWriter, r *http.Request) {
	s := o.server.Load()
	if s == nil {
		opsSay(w, http.StatusServiceUnavailable, "starting")
		return
	}
	if s.health.stopping.Load() {
		opsSay(w, http.StatusServiceUnavailable, "shutting down")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyWait)
	defer cancel()
	if _, err := s.meta(ctx); err != nil {
		opsSay(w, http.StatusServiceUnavailable, "the database cannot be reached")
		return
	}
	opsSay(w, http.StatusOK, "ready")
}

func opsSay(w http.ResponseWriter, code int, what string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(what + "\n")) // a client that has gone gets no answer
}
