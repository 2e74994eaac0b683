package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"time"
)

// Rules of this file: a protocol that is not HTTP gets the same socket, dialled under
// the same policy and counted below TLS. Only its connector knows the protocol.

// RawConn is a connection for a protocol that is not HTTP. One goroutine uses it,
// but Abort may be called from any.
type RawConn struct{ *wire }

// Dial connects to the target, under the egress policy, within ConnectTimeout. It sends
// nothing on the connection. It fails with *Refusal.
func (s *Sender) Dial(ctx context.Context, t Target) (*RawConn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.connectBy)
	defer cancel()
	w, err := s.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	return &RawConn{w}, nil
}

// Handshake starts TLS; all later bytes are encrypted. It fails with *Refusal, and the
// connection cannot be used after that.
func (w *RawConn) Handshake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.sender.connectBy)
	defer cancel()
	return w.shake(ctx)
}

// Secure reports whether Handshake has succeeded.
func (w *RawConn) Secure() bool { return w.secure }

// Read implements io.Reader.
func (w *RawConn) Read(b []byte) (int, error) { return w.conn.Read(b) }

// Write implements io.Writer.
func (w *RawConn) Write(b []byte) (int, error) { return w.conn.Write(b) }

// Written counts the bytes that the socket took, TLS's own included. If the count is
// the same before and after a Write, that Write sent nothing.
func (w *RawConn) Written() int64 { return w.raw.written.Load() }

// Quiet reports whether the peer is there and has sent nothing that was not read.
func (w *RawConn) Quiet() bool { return w.raw.peek() == pulseQuiet }

// SetDeadline is net.Conn's. It may be called from any goroutine.
func (w *RawConn) SetDeadline(at time.Time) error { return w.raw.SetDeadline(at) }

// SetReadDeadline is net.Conn's.
func (w *RawConn) SetReadDeadline(at time.Time) error { return w.raw.SetReadDeadline(at) }

// SetWriteDeadline is net.Conn's.
func (w *RawConn) SetWriteDeadline(at time.Time) error { return w.raw.SetWriteDeadline(at) }

// Local is the connection's own address.
func (w *RawConn) Local() netip.Addr {
	at, ok := w.raw.LocalAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return at.AddrPort().Addr().Unmap()
}

// Abort closes immediately: it discards bytes that the kernel has not sent yet, so that
// no byte reaches the peer after the attempt is judged. Safe to call twice.
func (w *RawConn) Abort() { w.abort() }

// Close closes in good order. Safe to call twice, and after Abort.
func (w *RawConn) Close() { w.hangUp() }

// tlsFor returns the TLS settings for a target.
func (s *Sender) tlsFor(t Target) *tls.Config {
	cfg := s.tls.Clone()
	cfg.ServerName = t.Host
	if t.Scheme != "https" {
		cfg.NextProtos = nil // no name of HTTP's for another protocol
	}
	return cfg
}
