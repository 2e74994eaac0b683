package grpcserver

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Rules of this file: a stream whose reader takes nothing ends with an error. What the reader has
// not taken stays in the memory of its connection, so a connection on which that happens again
// and again is closed.

// maxCuts is how many streams of one connection may be cut off before it is closed.
const maxCuts = 16

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

// credentialsOfConns accepts connections, with TLS or without, and attaches each to its calls.
type credentialsOfConns struct {
	secure *tls.Config // nil: no TLS
	log    *slog.Logger
	logged *rate.Sometimes
}

// conn is the connection of a call.
type conn struct {
	credentials.CommonAuthInfo
	conn   net.Conn
	scheme string
	cuts   atomic.Int32
	// probes are the calls of health and reflection that are open.
	probes atomic.Int32
}

// connOf returns the connection of a call; nil: not known.
func connOf(ctx context.Context) *conn {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	c, _ := p.AuthInfo.(*conn)
	return c
}

// AuthType implements credentials.AuthInfo.
func (c *conn) AuthType() string { return c.scheme }

// The schemes of connections, as grpc-go names them.
const (
	schemePlain  = "insecure"
	schemeSecure = "tls"
)

// errNoHTTP2 ends a connection with TLS whose client does not offer HTTP/2.
var errNoHTTP2 = errors.New("the client did not offer the protocol h2 (ALPN)")

// ServerHandshake implements credentials.TransportCredentials. grpc-go bounds its time.
func (n *credentialsOfConns) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if n.secure == nil {
		return c, &conn{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, conn: c, scheme: schemePlain}, nil
	}
	secured := tls.Server(c, n.secure)
	err := secured.HandshakeContext(context.Background())
	if err == nil && secured.ConnectionState().NegotiatedProtocol != "h2" {
		err = errNoHTTP2
	}
	if err != nil {
		n.failed(c, err)
		_ = c.Close()
		return nil, nil, err
	}
	info := &conn{CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, conn: c, scheme: schemeSecure}
	return secured, info, nil
}

// handshakeLogEvery is the time between two log lines about failed handshakes: any peer can make
// them fail.
const handshakeLogEvery = time.Second

func (n *credentialsOfConns) failed(c net.Conn, err error) {
	n.logged.Do(func() { n.log.Warn("a TLS handshake failed", "peer", c.RemoteAddr().String(), "err", err) })
}

// ClientHandshake implements credentials.TransportCredentials. Servers make none.
func (*credentialsOfConns) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("no client's credentials")
}

// Info implements credentials.TransportCredentials.
func (n *credentialsOfConns) Info() credentials.ProtocolInfo {
	if n.secure == nil {
		return credentials.ProtocolInfo{SecurityProtocol: schemePlain}
	}
	return credentials.ProtocolInfo{SecurityProtocol: schemeSecure}
}

// Clone implements credentials.TransportCredentials. There is nothing to change.
func (n *credentialsOfConns) Clone() credentials.TransportCredentials { return n }

// OverrideServerName implements credentials.TransportCredentials.
func (*credentialsOfConns) OverrideServerName(string) error { return nil }

// closeAfterMany closes the connection of a stream that was cut off, if it is
// one of many.
func closeAfterMany(ctx context.Context) {
	if c := connOf(ctx); c != nil && c.cuts.Add(1) >= maxCuts {
		_ = c.conn.Close()
	}
}
