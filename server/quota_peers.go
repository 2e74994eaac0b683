package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Rules of this file: a peer is the address that connects, and for IPv6 the network of 64 bits
// that one customer has. Many people may share one: behind a proxy, all of them. So a peer's
// failures take nothing from an honest caller at the same address: a key that was right before on
// this server, and the operator's, are never refused here. Failed sign-ins of a peer use up its
// look-ups of keys that this server does not know. The address is the socket's: behind a proxy it
// is the proxy's, and a header in which a client names another one counts for nothing.

// maskedBits is the part of an IPv6 address that distinguishes peers.
const maskedBits = 64

// peerOf returns the name of a peer, and whether it is this machine. The name is empty
// where there is no such address, as for a socket in the file system.
func peerOf(addr string) (name string, loopback bool) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return "", false
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(maskedBits); err == nil && !ip.IsLoopback() {
			return p.String(), false
		}
	}
	return ip.String(), ip.IsLoopback()
}

// withPeer adds the address that a call comes from. Its name is made only when it is needed.
func withPeer(ctx context.Context, addr net.Addr) context.Context {
	return context.WithValue(ctx, keyPeer, addr)
}

// remoteAddr is an address as net/http has it.
type remoteAddr string

// Network implements net.Addr.
func (remoteAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a remoteAddr) String() string { return string(a) }

// peerIn returns the name of the peer that a call comes from.
func peerIn(ctx context.Context) string {
	addr, _ := ctx.Value(keyPeer).(net.Addr)
	if addr == nil {
		return ""
	}
	name, _ := peerOf(addr.String())
	return name
}

// signIns are the failed sign-ins of a peer; nil: they have no limit.
func (a *authenticator) signIns(ctx context.Context) *rate.Limiter {
	limit, peer := a.quotas.limit("", QuotaPeerSignIns), peerIn(ctx)
	if limit == 0 || peer == "" {
		return nil
	}
	return a.failed.bucket(peer, rate.Limit(float64(limit)/60), int(limit))
}

// checkSignInRate refuses to look up a key that this server does not know, for a peer that has
// tried too many keys that do not exist.
func (a *authenticator) checkSignInRate(ctx context.Context, id string) *fault {
	if a.keys.knows(id) {
		return nil
	}
	l := a.signIns(ctx)
	if l == nil || l.TokensAt(a.now()) >= 1 {
		return nil
	}
	limit := a.quotas.limit("", QuotaPeerSignIns)
	wait, _ := take(l, a.now())
	return tooManyCalls(QuotaPeerSignIns, limit, wait,
		fmt.Sprintf("more than %d sign-ins a minute with wrong API keys came from this address; repeat the call after a while", limit))
}

// signInFailed counts a wrong key.
func (a *authenticator) signInFailed(ctx context.Context) {
	if l := a.signIns(ctx); l != nil {
		l.AllowN(a.now(), 1)
	}
}

// PeerLimit bounds the open connections of each peer, over all listeners of a process.
type PeerLimit struct {
	limit int64 // 0: none
	notes *quotaLog
	conns *peerCount
}

// NewPeerLimit makes the limit that QuotaPeerConnections sets.
func NewPeerLimit(q Quotas, log *slog.Logger, now func() time.Time) *PeerLimit {
	return &PeerLimit{limit: q.limit("", QuotaPeerConnections), notes: newQuotaLog(log, now), conns: newPeerCount()}
}

// Listener returns a listener that accepts what l accepts, within the limit. What comes
// above it is closed before anything is read.
func (p *PeerLimit) Listener(l net.Listener) net.Listener {
	if p.limit == 0 {
		return l
	}
	return &peerListener{l, p}
}

type peerListener struct {
	net.Listener
	limit *PeerLimit
}

// Accept implements net.Listener.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, loopback := peerOf(conn.RemoteAddr().String())
		if peer == "" || loopback {
			return conn, nil
		}
		if leave, ok := l.limit.conns.enter(peer, l.limit.limit); ok {
			return &peerConn{Conn: conn, leave: leave}, nil
		}
		l.limit.notes.usedUp(peer, QuotaPeerConnections, l.limit.limit, l.limit.limit)
		refuseConn(conn)
	}
}

// refuseConn closes a connection with a reset, so that nothing of it is kept.
func refuseConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// peerConn is a connection that counts until it is closed.
type peerConn struct {
	net.Conn
	leave func()
	left  atomic.Bool
}

// Close implements net.Conn.
func (c *peerConn) Close() error {
	if !c.left.Swap(true) {
		c.leave()
	}
	return c.Conn.Close()
}

// peerCount counts the connections of peers.
type peerCount struct {
	mu   sync.Mutex
	open map[string]int64
}

func newPeerCount() *peerCount { return &peerCount{open: make(map[string]int64)} }

// enter counts a connection in, unless there are as many as may be.
func (p *peerCount) enter(peer string, limit int64) (leave func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[peer] >= limit {
		return nil, false
	}
	p.open[peer]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open[peer]--; p.open[peer] == 0 {
			delete(p.open, peer)
		}
	}, true
}
