package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// meter counts the bytes that the socket took. It sits below TLS: if the socket refused
// the whole of a write that TLS prepared, no byte left; in every other case some did.
// TLS's own messages count too, which errs on the side of "sent".
type meter struct {
	*net.TCPConn
	socket
	written atomic.Int64
}

func newMeter(c *net.TCPConn) (*meter, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &meter{TCPConn: c, socket: newSocket(raw)}, nil
}

// writeNow writes what the socket takes immediately, and never waits: a short count
// without an error means that the socket takes no more for now.
func (m *meter) writeNow(b []byte) (int, error) {
	n, err := m.socket.writeNow(b)
	if n > 0 {
		m.written.Add(int64(n))
	}
	return n, err
}

func (m *meter) Write(b []byte) (int, error) {
	n, err := m.TCPConn.Write(b)
	if n > 0 {
		m.written.Add(int64(n))
	}
	return n, err
}

// ReadFrom keeps io.Copy from going around the count.
func (m *meter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{m}, r)
}

// abort closes the socket, and discards the bytes that the kernel has not sent yet.
func (m *meter) abort() {
	_ = m.SetLinger(0)
	_ = m.TCPConn.Close()
}

// wire is a connection to a target: a counted socket, or TLS over it.
type wire struct {
	sender *Sender
	target Target
	raw    *meter   // the counted socket
	conn   net.Conn // raw, or TLS over it
	secure bool
	once   sync.Once // closes
}

// shake starts TLS; all later bytes are encrypted. It fails with *Refusal, and the connection
// cannot be used after that.
func (w *wire) shake(ctx context.Context) error {
	secured := tls.Client(w.raw, w.sender.tlsFor(w.target))
	if err := secured.HandshakeContext(ctx); err != nil {
		w.abort()
		return refuseTLS(w.target, err)
	}
	w.conn, w.secure = secured, true
	return nil
}

// abort closes immediately: it discards bytes that the kernel has not sent yet, so that
// no byte reaches the peer after the attempt is judged.
func (w *wire) abort() { w.once.Do(w.raw.abort) }

// hangUp closes the connection gracefully.
func (w *wire) hangUp() {
	w.once.Do(func() {
		_ = w.raw.SetDeadline(time.Now().Add(time.Second))
		_ = w.conn.Close()
	})
}

// pulse is the result of a peek at a silent connection.
type pulse int

const (
	pulseQuiet pulse = iota // alive, nothing to read
	pulseData               // the peer sent something unasked, or TLS's tickets
	pulseGone               // end of file, an error, or unknown
)

// errHeadTooLarge means that an answer's head is above MaxHead.
var errHeadTooLarge = errors.New("the answer's headers are too large")

// Conn is one connection to a target, good for one exchange. A Conn is used by
// one goroutine, but Close may be called from any.
type Conn struct {
	*wire

	fresh  bool // never used before, never kept after
	reused bool // carried an earlier exchange
	timed  bool // a deadline for writing is set

	in *cappedReader
	br *bufio.Reader

	used  atomic.Bool // an exchange began, or the connection was given up
	since time.Time   // it has been idle
}

// renew moves an idle connection to a new Conn, so that a late Close of the old one, by
// its previous owner, cannot touch it.
func (l *Conn) renew() *Conn {
	return &Conn{wire: l.wire, reused: true, in: l.in, br: l.br}
}

// Reused reports whether the connection carried an earlier exchange.
func (l *Conn) Reused() bool { return l.reused }

// Close releases a connection that was not used. Safe to call twice, and after an
// exchange, which closes or keeps the connection by itself.
func (l *Conn) Close() {
	if !l.used.CompareAndSwap(false, true) {
		return
	}
	if !l.fresh && l.peek() == pulseQuiet && l.sender.pool.put(l) {
		return
	}
	l.hangUp()
}

// peek looks at the connection without waiting.
func (l *Conn) peek() pulse {
	if l.br != nil && l.br.Buffered() > 0 {
		return pulseData
	}
	return l.raw.peek()
}

// dead reports whether the connection can take no request any more. Data is no sign of
// death on a TLS connection that was never used: it is the session tickets. On any
// other connection it is an answer without a request (RFC 9112, section 9.5), mostly
// the 408 or close_notify of a peer that is closing.
func (l *Conn) dead() bool {
	switch l.peek() {
	case pulseQuiet:
		return false
	case pulseData:
		return l.reused || !l.secure
	default:
		return true
	}
}

// release keeps the connection for reuse, or closes it.
func (l *Conn) release(keep bool) {
	if !keep || l.fresh || l.br.Buffered() > 0 {
		l.hangUp()
		return
	}
	// The next exchange sets its own time for the answer; no goroutine reads from an
	// idle connection.
	if l.timed && l.conn.SetWriteDeadline(time.Time{}) != nil || !l.sender.pool.put(l) {
		l.hangUp()
	}
}

// cappedReader fails when more was read than its cap allows.
type cappedReader struct {
	r    io.Reader
	left int64
	over error // what it fails with then
	// seen, unless it is nil, collects what is read.
	seen []byte
	// last, unless it is zero, is when something was read last.
	last time.Time
}

func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, c.over
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.r.Read(p)
	c.left -= int64(n)
	if c.seen != nil {
		c.seen = append(c.seen, p[:n]...)
	}
	if n > 0 && !c.last.IsZero() {
		c.last = time.Now()
	}
	return n, err
}

func (c *cappedReader) allow(n int64, over error) { c.left, c.over = n, over }
