package server

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Rules of this file: a reader that takes nothing is told so and left. What it
// has not taken stays with its connection until it does, so a connection on
// which that happens again and again is closed.

// mostCuts is how many streams of one connection may be cut off before it is closed.
const mostCuts = 16

// pace bounds the steps of a stream: over is closed when one takes too long.
type pace struct {
	over  chan struct{}
	timer *time.Timer
	limit time.Duration
}

// newPace starts with the time for the request.
func newPace(request, step time.Duration) *pace {
	p := &pace{over: make(chan struct{}), limit: step}
	var once atomic.Bool
	p.timer = time.AfterFunc(request, func() {
		if once.CompareAndSwap(false, true) {
			close(p.over)
		}
	})
	return p
}

func (p *pace) start() { p.timer.Reset(p.limit) }
func (p *pace) rest()  { p.timer.Stop() }
func (p *pace) stop()  { p.timer.Stop() }

func paceOf(ctx context.Context) *pace {
	p, _ := ctx.Value(keyPace).(*pace)
	return p
}

// plainConns takes connections as they are, and remembers each beside its calls.
type plainConns struct{}

// plainConn is what is known of a connection.
type plainConn struct {
	credentials.CommonAuthInfo
	conn net.Conn
	cuts atomic.Int32
	// probes are the calls of health and reflection that are open.
	probes atomic.Int32
}

// connOf returns the connection of a call; nil: not known.
func connOf(ctx context.Context) *plainConn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*plainConn)
	return c
}

// AuthType implements credentials.AuthInfo.
func (*plainConn) AuthType() string { return "insecure" }

// ServerHandshake implements credentials.TransportCredentials.
func (plainConns) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, &plainConn{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, conn: c}, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (plainConns) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, &plainConn{conn: c}, nil
}

// Info implements credentials.TransportCredentials.
func (plainConns) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "insecure"}
}

// Clone implements credentials.TransportCredentials.
func (c plainConns) Clone() credentials.TransportCredentials { return c }

// OverrideServerName implements credentials.TransportCredentials.
func (plainConns) OverrideServerName(string) error { return nil }

// closeAfterMany closes the connection of a stream that was cut off, if it is
// one of many.
func closeAfterMany(ctx context.Context) {
	if c := connOf(ctx); c != nil && c.cuts.Add(1) >= mostCuts {
		_ = c.conn.Close()
	}
}
