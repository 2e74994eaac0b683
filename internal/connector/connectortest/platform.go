// Package connectortest holds what every connector is tested with: a scripted
// platform on a real loopback socket, which counts requests by the bytes that
// arrive and not by what an HTTP library makes of them, and the conformance
// suite. It is for tests.
package connectortest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/proof/loopcert"
)

// Platform is a scripted peer. Requests get the scripts in order; the last one
// serves all that follow. It keeps reading after its answer, so that a second
// request on the same connection is seen too.
type Platform struct {
	tb       testing.TB
	listener net.Listener
	tls      *tls.Config
	roots    *x509.CertPool
	release  chan struct{}
	gone     chan struct{}
	open     sync.Once
	// aside answers requests that are not counted; nil: all are.
	aside func(Received) string

	bytes atomic.Int64 // of requests, after TLS
	wg    sync.WaitGroup

	mu       sync.Mutex
	scripts  []Script
	started  int // requests whose first byte arrived
	requests []Received
	conns    map[net.Conn]bool
	accepted int
	latest   string // the peer that was accepted last
	changed  *sync.Cond
	closed   bool
}

// Received is a request that arrived whole.
type Received struct {
	Line   string // e.g. "POST /hook HTTP/1.1"
	Head   string // the raw head, less the line
	Header map[string][]string
	Body   []byte
	Conn   int // the connection's number, from 1
}

// Get returns the first value of a header, in any case of letters.
func (r Received) Get(name string) string {
	if v := r.Header[strings.ToLower(name)]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// NewPlatform starts a platform on 127.0.0.1, with TLS if secure. It ends with
// the test.
func NewPlatform(tb testing.TB, secure bool, scripts ...Script) *Platform {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	p := &Platform{
		tb: tb, listener: l, scripts: scripts, conns: make(map[net.Conn]bool),
		release: make(chan struct{}), gone: make(chan struct{}),
	}
	p.changed = sync.NewCond(&p.mu)
	if secure {
		pair, roots := loopcert.Get()
		p.tls, p.roots = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, roots
	}
	p.wg.Add(1)
	go p.accept()
	tb.Cleanup(p.Close)
	return p
}

// URL is the platform's base URL, without a slash at its end.
func (p *Platform) URL() string {
	scheme := "http"
	if p.tls != nil {
		scheme = "https"
	}
	return scheme + "://" + p.listener.Addr().String()
}

// Sender makes a sender that may reach loopback and trusts the platform.
func (p *Platform) Sender() *transport.Sender {
	s := transport.NewSender(transport.Config{
		Egress:  transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")),
		RootCAs: p.roots,
		Version: "test",
	})
	p.tb.Cleanup(s.Close)
	return s
}

// restart waits until no client is connected, and then resets all state. Connections
// are accepted in order: once restart's own was accepted, all earlier ones were.
func (p *Platform) restart(scripts []Script) {
	p.tb.Helper()
	conn, err := (&net.Dialer{}).DialContext(p.tb.Context(), "tcp", p.listener.Addr().String())
	if err != nil {
		p.tb.Fatalf("dial: %v", err)
	}
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.latest != conn.LocalAddr().String() || len(p.conns) > 0) && !p.closed {
		p.changed.Wait()
	}
	p.scripts, p.started, p.requests, p.accepted = scripts, 0, nil, 0
	p.bytes.Store(0)
}

// Release lets every script go on that waits for it.
func (p *Platform) Release() { p.open.Do(func() { close(p.release) }) }

// Bytes counts what arrived of requests.
func (p *Platform) Bytes() int64 { return p.bytes.Load() }

// Started counts the requests of which at least one byte arrived.
func (p *Platform) Started() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

// Accepted counts the connections.
func (p *Platform) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Requests returns the requests that arrived whole, in order.
func (p *Platform) Requests() []Received {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Received(nil), p.requests...)
}

// AwaitRequests waits until n requests have arrived whole.
func (p *Platform) AwaitRequests(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.requests) < n && !p.closed {
		p.changed.Wait()
	}
}

// AwaitIdle waits until no connection is open.
func (p *Platform) AwaitIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.conns) > 0 && !p.closed {
		p.changed.Wait()
	}
}

// Close ends the platform and its connections. Safe to call twice.
func (p *Platform) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.gone)
	for c := range p.conns {
		_ = c.Close()
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.wg.Wait()
}

func (p *Platform) accept() {
	defer p.wg.Done()
	for {
		raw, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			_ = raw.Close()
			return
		}
		p.accepted++
		p.latest = raw.RemoteAddr().String()
		c := &Conn{p: p, raw: raw.(*net.TCPConn), number: p.accepted}
		p.conns[raw] = true
		p.wg.Add(1)
		p.mu.Unlock()
		go c.serve()
	}
}

// Conn is one connection as a script sees it.
type Conn struct {
	p      *Platform
	raw    *net.TCPConn
	conn   net.Conn
	br     *bufio.Reader
	number int
	ended  bool
	// Request is the request that the script answers, as far as it was read.
	Request Received
}

func (c *Conn) serve() {
	p := c.p
	defer p.wg.Done()
	defer func() {
		_ = c.raw.Close()
		p.mu.Lock()
		delete(p.conns, c.raw)
		p.changed.Broadcast()
		p.mu.Unlock()
	}()
	c.conn = c.raw
	next := p.script()
	if next.At == AtAccept {
		p.taken()
		next.Do(c)
		if c.ended {
			return
		}
	}
	if p.tls != nil {
		secured := tls.Server(c.raw, p.tls)
		if secured.HandshakeContext(p.tb.Context()) != nil {
			return
		}
		c.conn = secured
	}
	c.br = bufio.NewReader(&counter{c.conn, &p.bytes})
	for !c.ended && c.one() == nil {
	}
}

// script returns the script of the next request, without taking it.
func (p *Platform) script() Script {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.scripts) == 0 {
		return OK
	}
	return p.scripts[0]
}

// taken goes on to the next script.
func (p *Platform) taken() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.scripts) > 1 {
		p.scripts = p.scripts[1:]
	}
}

// one reads one request and runs its script.
func (c *Conn) one() error {
	p := c.p
	if _, err := c.br.Peek(1); err != nil {
		return err
	}
	p.mu.Lock()
	p.started++
	p.mu.Unlock()
	s := p.script()
	if s.At == AtFirstByte {
		p.taken()
		s.Do(c)
		return nil
	}
	length, err := c.head()
	if err != nil {
		return err
	}
	if p.aside != nil {
		if done, err := c.beside(length); done || err != nil {
			return err
		}
	}
	p.taken()
	if s.At == AtHead {
		s.Do(c)
		if c.ended {
			return nil
		}
	}
	c.Request.Body = make([]byte, length)
	if _, err := io.ReadFull(c.br, c.Request.Body); err != nil {
		return err
	}
	p.mu.Lock()
	p.requests = append(p.requests, c.Request)
	p.changed.Broadcast()
	p.mu.Unlock()
	if s.At == AtRequest {
		s.Do(c)
	}
	return nil
}

// beside answers a request that is not counted. done reports whether this was one. If
// aside returns no answer, beside does not read the body.
func (c *Conn) beside(length int64) (done bool, err error) {
	raw := c.p.aside(c.Request)
	if raw == "" {
		return false, nil
	}
	if _, err := io.CopyN(io.Discard, c.br, length); err != nil {
		return true, err
	}
	c.p.mu.Lock()
	c.p.started--
	c.p.mu.Unlock()
	c.Write(raw)
	return true, nil
}

var errBadRequest = errors.New("connectortest: not a request")

// head parses a request's head by itself, strictly: what a sloppy sender might
// get past a lenient library is an error here.
func (c *Conn) head() (length int64, err error) {
	var raw bytes.Buffer
	for !bytes.HasSuffix(raw.Bytes(), []byte("\r\n\r\n")) {
		line, err := c.br.ReadSlice('\n')
		raw.Write(line)
		if err != nil {
			return 0, err
		}
	}
	first, rest, _ := strings.Cut(raw.String(), "\r\n")
	c.Request = Received{Line: first, Head: rest, Header: make(map[string][]string), Conn: c.number}
	for line := range strings.SplitSeq(strings.TrimSuffix(rest, "\r\n\r\n"), "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(line, "\r\n") || strings.TrimSpace(name) != name {
			c.p.tb.Errorf("malformed header line %q", line)
			return 0, errBadRequest
		}
		name = strings.ToLower(name)
		c.Request.Header[name] = append(c.Request.Header[name], strings.TrimSpace(value))
	}
	if method, _, _ := strings.Cut(first, " "); len(c.Request.Header["content-length"]) == 0 && c.Request.Get("Transfer-Encoding") == "" &&
		(method == "GET" || method == "HEAD" || method == "DELETE") {
		return 0, nil // no body (RFC 9112, section 6.3)
	}
	if c.Request.Get("Transfer-Encoding") != "" || len(c.Request.Header["content-length"]) != 1 {
		c.p.tb.Errorf("a request without one known length: %q", rest)
		return 0, errBadRequest
	}
	length, err = strconv.ParseInt(c.Request.Get("Content-Length"), 10, 64)
	if err != nil || length < 0 {
		return 0, fmt.Errorf("%w: its length", errBadRequest)
	}
	return length, nil
}

type counter struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n.Add(int64(n))
	return n, err
}
