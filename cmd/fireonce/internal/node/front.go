package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fireonce/fireonce/server"
)

// Rules of this file: the port is open from the beginning of the start, before the
// database is. Until the server is ready the port answers that it is not, so that
// probes and balancers see a process that lives and takes no calls yet.

// front is what the port answers with, at any moment.
type front struct{ handler atomic.Pointer[http.Handler] }

func (f *front) set(h http.Handler) { f.handler.Store(&h) }

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*f.handler.Load()).ServeHTTP(w, r)
}

// listen opens the port, and says there that the server starts.
func (n *Node) listen(addr *net.TCPAddr) error {
	n.peers = server.NewPeerLimit(n.cfg.Quotas, n.cfg.Log, time.Now)
	listener, err := n.bind(addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	n.listener = listener
	n.front.set(server.Starting())
	n.http = server.NewHTTPServer("", &n.front)
	n.http.ErrorLog = slog.NewLogLogger(n.cfg.Log.Handler(), slog.LevelWarn)
	go func() {
		if err := n.http.Serve(n.listener); !errors.Is(err, http.ErrServerClosed) {
			n.failed <- fmt.Errorf("serve: %w", err)
		}
	}()
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
