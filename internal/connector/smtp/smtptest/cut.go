package smtptest

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Cutter passes the bytes of connections on to a relay, and cuts a connection after a
// set number of bytes.
type Cutter struct {
	listener net.Listener
	to       string
	wg       sync.WaitGroup
	once     sync.Once

	mu     sync.Mutex
	up     int64
	down   int64
	breaks []Break

	// passedUp and passedDown count what the last connection passed on.
	passedUp, passedDown atomic.Int64
}

// NewCutter starts a cutter before an address. It cuts nothing until Cut.
func NewCutter(to string) (*Cutter, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cutter{listener: l, to: to, up: -1, down: -1}
	c.wg.Go(c.serve)
	return c, nil
}

// Addr is where the cutter listens.
func (c *Cutter) Addr() Addr { return Addr(c.listener.Addr().String()) }

// Cut cuts the next connections after up bytes to the relay or down bytes to the
// client, whichever comes first; negative: never. The relay gets what was passed on
// before it sees the end.
func (c *Cutter) Cut(up, down int64) { c.mu.Lock(); defer c.mu.Unlock(); c.up, c.down = up, down }

// Passed returns how many bytes the last connection passed on, each way.
func (c *Cutter) Passed() (up, down int64) { return c.passedUp.Load(), c.passedDown.Load() }

// Settle waits until every connection is over at both ends.
func (c *Cutter) Settle() {
	_ = c.listener.Close()
	c.wg.Wait()
}

// Close ends the cutter. Safe to call twice, and after Settle.
func (c *Cutter) Close() error {
	c.once.Do(func() { _ = c.listener.Close() })
	return nil
}

func (c *Cutter) serve() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		up, down := c.up, c.down
		c.mu.Unlock()
		c.passedUp.Store(0)
		c.passedDown.Store(0)
		talk := func(client, relay *net.TCPConn) { c.talk(client, relay, up, down) }
		if b := c.next(); b != Never {
			talk = b.talk
		}
		c.wg.Go(func() { c.pass(client.(*net.TCPConn), talk) })
	}
}

func (c *Cutter) pass(client *net.TCPConn, talk func(client, relay *net.TCPConn)) {
	defer func() { _ = client.Close() }()
	dialled, err := new(net.Dialer).DialContext(context.Background(), "tcp", c.to)
	if err != nil {
		return
	}
	relay := dialled.(*net.TCPConn)
	defer func() { _ = relay.Close() }()
	talk(client, relay)
}

func (c *Cutter) talk(client, relay *net.TCPConn, up, down int64) {
	var both sync.WaitGroup
	both.Go(func() {
		if pass(relay, client, up, &c.passedUp) {
			_ = client.Close()
		}
		_ = relay.CloseWrite()
	})
	both.Go(func() {
		if pass(client, relay, down, &c.passedDown) {
			_ = client.Close()
		}
		_ = client.CloseWrite()
		_, _ = io.Copy(io.Discard, relay) // let the relay come to its end
	})
	both.Wait()
}

// pass copies up to limit bytes, and reports whether it stopped for the limit.
func pass(to io.Writer, from io.Reader, limit int64, passed *atomic.Int64) bool {
	if limit == 0 {
		return true
	}
	if limit > 0 {
		from = io.LimitReader(from, limit)
	}
	n, err := io.Copy(struct{ io.Writer }{to}, io.TeeReader(from, counter{passed}))
	return limit > 0 && n == limit && err == nil
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) { c.n.Add(int64(len(b))); return len(b), nil }
