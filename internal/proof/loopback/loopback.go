// Package loopback is what the fakes of platforms are made of: a server on a
// loopback port whose answers can be lost or held back. It is for tests and the sandbox.
package loopback

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Server serves a handler on 127.0.0.1.
type Server struct {
	listener net.Listener
	http     http.Server
	done     chan struct{}
	once     sync.Once
}

// Listen takes a free port. Who connects waits for Serve.
func Listen() (*Server, error) { return ListenAt(0) }

// ListenAt takes a port; 0: a free one. It fails with what the system says of a port that is taken.
func ListenAt(port int) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return &Server{listener: listener, done: make(chan struct{})}, nil
}

// Serve starts serving. It is called once.
func (s *Server) Serve(h http.Handler) {
	s.http.Handler, s.http.ReadHeaderTimeout = h, 10*time.Second
	go func() { _ = s.http.Serve(s.listener) }()
}

// URL is the server's base URL, without a slash at its end; empty for nil.
func (s *Server) URL() string {
	if s == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String()
}

// Port is the server's port.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Close ends the server and every connection. Safe to call twice, and on nil.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	var err error
	s.once.Do(func() {
		close(s.done)
		_ = s.listener.Close() // Serve may not have taken it over
		// It closes the listener, too, unless Serve has seen the end already.
		if err = s.http.Close(); errors.Is(err, net.ErrClosed) {
			err = nil
		}
	})
	return err
}

// Gone returns a channel that is closed when the request's client has given up,
// the server has ended, or stop is called, which the handler owes. The body must
// have been read before.
func (s *Server) Gone(r *http.Request) (gone <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	if s != nil {
		go func() {
			select {
			case <-s.done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx.Done(), cancel
}

// Reset closes a connection with RST, so that the client sees no more of an
// answer.
func Reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
