package node

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/net/netutil"

	"github.com/fireonce/fireonce/server"
)

// Rules of this file: the operations listener is open from the beginning of the start to the very
// end, so that monitoring distinguishes a process that starts or shuts down from a dead one. On
// loopback it never has TLS: its clients are agents of the same machine. Beyond loopback it has the
// TLS of the other ports, client certificates included.

// opsConnections bounds the connections to the operations listener.
const opsConnections = 64

// listenOps opens the operations listener, if there is to be one.
func (n *Node) listenOps(addr *net.TCPAddr) error {
	if addr == nil {
		return nil
	}
	l, err := net.ListenTCP("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) && n.cfg.OpsOptional {
		n.cfg.Log.Warn("metrics are not served: another process has the port; see --ops-listen", "address", addr.String())
		return nil
	}
	if err != nil {
		return fmt.Errorf("--ops-listen: %w", err)
	}
	n.opsListener = netutil.LimitListener(l, opsConnections)
	n.ops = server.NewOps(n.metrics, addr.IP.IsLoopback(), n.cfg.AllowHosts)
	n.opsHTTP = n.ops.HTTPServer()
	n.opsHTTP.ErrorLog = n.cfg.transportLog()
	// Stored separately: net/http sets TLSConfig in any case, while it serves.
	if n.opsTLS = n.tls != nil && !addr.IP.IsLoopback(); n.opsTLS {
		n.opsHTTP.TLSConfig = n.tls.Config("http/1.1")
	}
	go n.serve("serve operations", n.opsHTTP, n.opsListener, n.opsTLS)
	return nil
}

// serveOps starts the handlers that need the database.
func (n *Node) serveOps() {
	n.metrics.Watch(n.store)
	n.metrics.Gauge("store_slots_busy", "Of store_slots_limit: PostgreSQL connections in use, or operations that wait for SQLite's writer.",
		nil, func() float64 { busy, _ := n.saturation(); return float64(busy) })
	n.metrics.Gauge("store_slots_limit", "PostgreSQL connections of this server's pool, or places in the queue of SQLite's writer.",
		nil, func() float64 { _, limit := n.saturation(); return float64(limit) })
	if n.ops != nil {
		n.ops.Serve(n.server)
	}
}

// saturation returns how much of the store's capacity for this process is in use.
func (n *Node) saturation() (busy, limit int) {
	if s, ok := n.store.(interface{ Saturation() (busy, limit int) }); ok {
		return s.Saturation()
	}
	return 0, 0
}

// OpsURL returns where operations are served; empty: nowhere.
func (n *Node) OpsURL() string {
	if n.ops == nil {
		return ""
	}
	scheme := "http"
	if n.opsTLS {
		scheme = "https"
	}
	return scheme + "://" + n.opsListener.Addr().String()
}
