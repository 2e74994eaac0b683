package node

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/server/grpcserver"
)

// Rules of this file: the port is open from the beginning of the start, before the database is.
// Until the server is ready the port answers that it is not, so that probes and balancers see a
// live process that takes no calls yet.

// front is the handler of the port at the moment: of the start, then of the server.
type front struct{ handler atomic.Pointer[http.Handler] }

func (f *front) set(h http.Handler) { f.handler.Store(&h) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*f.handler.Load()).ServeHTTP(w, r)
}

// openPorts opens what a server that starts answers on.
func (n *Node) openPorts(listen addresses) error {
	if err := n.openTLS(); err != nil {
		return err
	}
	if err := n.listen(listen.api); err != nil {
		return err
	}
	return n.listenOps(listen.ops)
}

// listen opens the port, which answers that the server starts.
func (n *Node) listen(addr *net.TCPAddr) error {
	n.peers = server.NewPeerLimit(n.cfg.Quotas, n.cfg.Log, time.Now)
	listener, err := n.bind(addr)
	if err != nil {
		return fmt.Errorf("%w; --listen ADDRESS:PORT names another one", err)
	}
	n.listener = listener
	n.front.set(server.Starting())
	n.http = server.NewHTTPServer("", &n.front)
	n.http.ErrorLog = n.cfg.transportLog()
	if n.tls != nil {
		n.http.TLSConfig = n.tls.Config("h2", "http/1.1")
	}
	go n.serve("serve", n.http, n.listener, n.tls != nil)
	return nil
}

// serve answers on a listener until the server is closed.
func (n *Node) serve(what string, s *http.Server, l net.Listener, secure bool) {
	var err error
	if secure {
		err = s.ServeTLS(l, "", "")
	} else {
		err = s.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) {
		n.failed <- fmt.Errorf("%s: %w", what, err)
	}
}

// transportLog is the log of net/http for failed connections. Any peer can cause such lines, so
// only a few of each second are kept.
func (c *Config) transportLog() *log.Logger {
	to := slog.NewLogLogger(c.Log.Handler(), slog.LevelWarn)
	return log.New(&someLines{to: to.Writer(), limit: rate.NewLimiter(transportLines, transportLines)}, "", 0)
}

// transportLines is how many lines of net/http are kept in a second.
const transportLines = 5

// someLines writes as many lines as its limit allows, and drops the others.
type someLines struct {
	to    io.Writer
	limit *rate.Limiter
}

// Write implements io.Writer.
func (s *someLines) Write(line []byte) (int, error) {
	if !s.limit.Allow() {
		return len(line), nil
	}
	return s.to.Write(line)
}

// listenGRPC opens the second port, if there is an address for it.
func (n *Node) listenGRPC(addr *net.TCPAddr) (err error) {
	if addr == nil {
		return nil
	}
	if n.grpcListener, err = n.bind(addr); err != nil {
		if errors.Is(err, syscall.EADDRINUSE) && n.cfg.GRPCOptional {
			n.cfg.Log.Warn("gRPC has no port of its own: another process has it; see --grpc-listen", "address", addr.String())
			return nil
		}
		return fmt.Errorf("listen for gRPC: %w", err)
	}
	var secure *tls.Config
	if n.tls != nil {
		secure = n.tls.Config("h2")
	}
	n.grpc = grpcserver.New(n.server, secure)
	return nil
}

// bind opens a port, with the limit of connections that holds for each peer.
func (n *Node) bind(addr *net.TCPAddr) (net.Listener, error) {
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, err
	}
	return n.peers.Listener(l), nil
}
