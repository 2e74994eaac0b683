package transport

import (
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"
)

// Rules of this file:
//   - one request, written once; whatever happens, never a second one;
//   - MaySend is the last thing before the first byte;
//   - both deadlines are absolute, so a slow peer gains nothing by trickling;
//   - the answer is read while the request is written: a peer may answer early;
//   - a Response holds what happened, classify.go decides what it means.

// Bounds limit one exchange.
type Bounds struct {
	// SendBy is when the last byte must be written, AnswerBy when the answer must
	// be complete.
	SendBy, AnswerBy time.Time
	// MaySend is asked directly before the first byte; nil allows.
	MaySend func() error
}

// Response is the result of one exchange.
type Response struct {
	// Written counts the bytes that the socket took, TLS's own included. Zero
	// proves that nothing was sent.
	Written int64
	// Sent reports that the whole request was written.
	Sent bool
	// Status is the final status code, once the head was read whole; else 0.
	Status int
	Header http.Header
	// Complete reports that head and body were read to their end, or, with TooLong, as far as
	// was wanted.
	Complete bool
	// TooLong reports that the answer was longer than MaxHead or MaxBody, or than the time for
	// it, and that only its beginning was read, because Request.StatusDecides: the status and
	// what is in Header and Excerpt are the target's, and more of either may have been lost.
	TooLong bool
	// OutOfTime reports, with TooLong, that the body was still coming when the time was over.
	OutOfTime bool
	// Excerpt is the body's beginning, up to Request.Keep bytes; Cut reports whether
	// there was more.
	Excerpt []byte
	Cut     bool
	// PeerClosed reports that the peer closed or reset the connection before the answer was
	// complete.
	PeerClosed bool
	// Err is the error of the sending if nothing was written, else the first error.
	Err error
	// At is when the exchange was over.
	At time.Time
}

// Errors of a failed exchange.
var (
	// ErrConnDead means that the peer had closed the connection before the first byte.
	ErrConnDead = errors.New("the peer closed the connection before the request")
	// ErrConnUsed means that the connection had its one exchange already.
	ErrConnUsed = errors.New("the connection was used already")
	// ErrBodyTooLarge means that the answer's body is above MaxBody.
	ErrBodyTooLarge = errors.New("the answer's body is too large")
)

// PeerEnded reports whether the peer itself ended the exchange, so that it no longer works on
// the request: with a complete answer of its own, or by closing the connection. A deadline of
// ours, an error of the network and an answer of a gateway in the place of a server
// that may still be working do not show that.
func (a Response) PeerEnded() bool {
	if a.Complete {
		return !a.TooLong && !ofGateway(a.Status) // one that is still answering may be working, too
	}
	return a.PeerClosed
}

// ofGateway reports whether a gateway may answer with the status while the server behind it
// works on: 408 and 504 by their definition, 502 as Google's load balancers do after their
// timeout, 503 as Heroku's router does, and 520 and above, which no standard defines, as
// Cloudflare does (522, 524).
func ofGateway(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return status >= 520
	}
}

// closedByPeer reports whether an error means that the peer closed or reset the connection.
func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Exchange writes the request, reads the answer, and releases the connection. It
// returns by AnswerBy.
func (l *Conn) Exchange(c Request, b Bounds) Response {
	if !l.used.CompareAndSwap(false, true) {
		return Response{Err: ErrConnUsed, At: time.Now()}
	}
	buf := buffers.Get().(*[]byte)
	r, err := c.encode(*buf, l.sender.agent, l.fresh)
	a := Response{Err: err}
	if err != nil {
		l.abort()
	} else {
		a = l.exchange(r, b, c)
	}
	if cap(r.start) <= keptBuffer {
		*buf = r.start[:0]
		buffers.Put(buf)
	}
	a.At = time.Now()
	return a
}

func (l *Conn) exchange(r encodedRequest, b Bounds, c Request) Response {
	if b.SendBy.After(b.AnswerBy) {
		b.SendBy = b.AnswerBy
	}
	if l.dead() || l.conn.SetReadDeadline(b.AnswerBy) != nil {
		l.abort()
		return Response{Err: ErrConnDead}
	}
	if !time.Now().Before(b.SendBy) {
		l.abort()
		return Response{Err: os.ErrDeadlineExceeded}
	}
	before := l.raw.written.Load()
	got, done, werr := l.converse(r, b, c)
	tooLong, late := c.cutShort(got, b.AnswerBy)
	a := Response{
		Written: l.raw.written.Load() - before, Sent: werr == nil, Status: got.status, Header: got.header,
		Complete: (got.err == nil || tooLong) && done, TooLong: tooLong && done, OutOfTime: late && done, Excerpt: got.excerpt, Cut: got.cut || tooLong,
		Err: errors.Join(werr, got.err),
	}
	if werr != nil && (a.Written == 0 || !a.Complete) {
		a.Err = werr
	}
	if a.Complete {
		a.Err = nil
	} else {
		a.PeerClosed = closedByPeer(werr) || closedByPeer(got.err)
	}
	if a.Complete && a.Sent && !a.TooLong {
		l.release(got.keep)
	} else {
		l.abort()
	}
	return a
}

// cutShort reports whether an answer counts though it was not read to its end, and whether that
// is because its time was over.
func (c Request) cutShort(got reply, by time.Time) (tooLong, late bool) {
	if !c.StatusDecides || got.status == 0 {
		return false, false
	}
	late = got.coming(by)
	return late || errors.Is(got.err, ErrBodyTooLarge) || errors.Is(got.err, errHeadTooLarge), late
}

// converse writes the request and reads the answer. done reports whether the reading
// came to its end.
//
// A request that the kernel takes whole, without waiting, needs no concurrent reader:
// an early answer has nothing left to break off.
func (l *Conn) converse(r encodedRequest, b Bounds, c Request) (got reply, done bool, werr error) {
	g := &writeGuard{w: l.conn, before: l.raw.written.Load(), ask: b.MaySend}
	from := 0
	if !l.secure && r.more == 0 {
		if werr = g.enter(); werr != nil {
			return reply{err: werr}, false, werr
		}
		from, werr = l.raw.writeNow(r.start)
		switch {
		case werr != nil:
			return reply{err: werr}, false, werr
		case from == len(r.start):
			return l.read(c.Method, c.keep()), true, nil
		}
	}
	if l.conn.SetWriteDeadline(b.SendBy) != nil {
		return reply{err: ErrConnDead}, false, ErrConnDead
	}
	l.timed = true
	reading, writing := make(chan reply, 1), make(chan error, 1)
	g.opened = func() { go func() { reading <- l.read(c.Method, c.keep()) }() }
	if g.open {
		g.opened()
	}
	go func() { writing <- r.write(g, from) }()
	return l.await(reading, writing, g)
}

// await waits for both directions. Both end by their deadlines. A complete refusal, or
// nonsense, while the request is still being written ends the writing (RFC 9112,
// section 9.5). A success does not, because it counts only if the whole request was
// sent. done reports whether the reading came to its end.
func (l *Conn) await(reading <-chan reply, writing <-chan error, g *writeGuard) (got reply, done bool, werr error) {
	select {
	case werr = <-writing:
	case got = <-reading:
		if got.err != nil || got.status >= 300 {
			_ = l.raw.SetWriteDeadline(time.Now())
		}
		if werr = <-writing; werr != nil && got.err != nil {
			werr = got.err // it came first
		}
		return got, true, werr
	}
	unsent := l.raw.written.Load() == g.before
	if !g.open || (werr != nil && (unsent || !g.broken)) {
		return reply{err: werr}, false, werr // nothing to be answered, or we gave up ourselves
	}
	return <-reading, true, werr
}

// writeGuard calls MaySend before the first byte and starts the reading then.
type writeGuard struct {
	w      io.Writer
	before int64 // the connection's count of bytes so far
	ask    func() error
	opened func()
	open   bool
	broken bool // the connection failed, and not the request's body
	denied error
}

// enter asks for permission to send, once.
func (g *writeGuard) enter() error {
	if g.open || g.denied != nil {
		return g.denied
	}
	if g.ask != nil {
		if g.denied = g.ask(); g.denied != nil {
			return g.denied
		}
	}
	g.open = true
	return nil
}

func (g *writeGuard) Write(p []byte) (int, error) {
	if !g.open {
		if err := g.enter(); err != nil {
			return 0, err
		}
		g.opened()
	}
	n, err := g.w.Write(p)
	g.broken = err != nil
	return n, err
}
