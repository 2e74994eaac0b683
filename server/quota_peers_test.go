package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/internal/apikey"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// TestQuotaCalls: as many calls as a second has may come together, and then one for each
// part of a second; another project has its own.
func TestQuotaCalls(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey, limitedTo("calls=4"))
			c := dial(f)
			shop, other := f.issue("shop", server.Scopes()).Reveal(), f.issue("other", server.Scopes()).Reveal()
			second := f.issue("shop", server.Scopes()).Reveal()
			for i := range 4 {
				f.must(list(t, c, []string{shop, second}[i%2]))
			}
			e := wantReason(t, list(t, c, second), tooManyCalls)
			if got := e.detail.GetMetadata(); got["quota"] != "calls" || got["limit"] != "4" || retryOf(e) != 250*time.Millisecond {
				t.Errorf("metadata %v, to be repeated after %v", got, retryOf(e))
			}
			f.must(list(t, c, other))
			f.clock.advance(250 * time.Millisecond)
			f.must(list(t, c, shop))
			wantReason(t, list(t, c, shop), tooManyCalls)
			f.clock.advance(time.Hour)
			for range 4 {
				f.must(list(t, c, shop))
			}
			wantReason(t, list(t, c, shop), tooManyCalls)
		})
	}
}

// TestQuotaCallsWithoutKeys: where no key is required calls have a limit only if it was
// asked for.
func TestQuotaCallsWithoutKeys(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "calls=3": 3} {
		f := start(t, limitedTo(strings.Fields(text)...))
		res, err := ask[adminv1.GetStatsResponse](t, overConnect(f), statsPath+"GetStats", &adminv1.GetStatsRequest{})
		f.must(err)
		for _, q := range res.GetQuotas() {
			if q.GetName() == "calls" && q.GetLimit() != want {
				t.Errorf("%q: at most %d calls a second, want %d", text, q.GetLimit(), want)
			}
		}
	}
}

// lookups counts the keys that are looked up.
type lookups struct {
	server.Store
	n *atomic.Int64
}

func (s lookups) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	s.n.Add(1)
	return s.Store.APIKey(ctx, id)
}

// TestQuotaSignIns: guesses cost nothing after a while, and no honest caller beside them
// notices.
func TestQuotaSignIns(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			var looked atomic.Int64
			f := start(t, limitedTo("peer-sign-ins=6"), func(c *server.Config) {
				c.APIKey, c.Store = "the operator's own key", lookups{c.Store, &looked}
			})
			c := dial(f)
			known, late := f.issue("shop", server.Scopes()).Reveal(), f.issue("shop", server.Scopes()).Reveal()
			f.must(list(t, c, known))
			guess := func() error {
				key, err := apikey.New()
				f.must(err)
				return list(t, c, key.Reveal())
			}
			for range 6 {
				wantReason(t, guess(), credentialInvalid)
			}
			before := looked.Load()
			for range 50 {
				wantReason(t, guess(), tooManyCalls)
			}
			if n := looked.Load() - before; n != 0 {
				t.Errorf("%d keys were looked up for an address that had tried too many", n)
			}
			f.must(list(t, c, known))
			f.must(list(t, c, "the operator's own key"))
			f.clock.advance(time.Hour) // what is known of the key is read again
			for range 7 {
				_ = guess()
			}
			f.must(list(t, c, known))
			// A right key that this server has not seen is slowed, and not locked out.
			e := wantReason(t, list(t, c, late), tooManyCalls)
			if got := e.detail.GetMetadata(); got["quota"] != "peer-sign-ins" || retryOf(e) != 10*time.Second {
				t.Errorf("metadata %v, to be repeated after %v", got, retryOf(e))
			}
			f.clock.advance(retryOf(e))
			f.must(list(t, c, late))
			wantReason(t, guess(), credentialInvalid) // the right one used nothing up
			f.must(list(t, c, late))
			// A call without a key is no guess.
			wantReason(t, list(t, c, ""), credentialInvalid)
		})
	}
}

func TestPeers(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64",
		"[2001:db8:1:2::9]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64", "@": "", "": "", "[::1]:80": "::1 here", "127.0.0.7:1": "127.0.0.7 here",
	} {
		name, here := server.PeerOf(addr)
		if here {
			name += " here"
		}
		if name != want {
			t.Errorf("%s: %q, want %q", addr, name, want)
		}
	}
}

// arrivals is a listener whose connections come from where a test says.
type arrivals chan net.Conn

func (a arrivals) Accept() (net.Conn, error) {
	if c, ok := <-a; ok {
		return c, nil
	}
	return nil, io.EOF
}
func (a arrivals) Close() error   { return nil }
func (a arrivals) Addr() net.Addr { return &net.TCPAddr{} }

type from struct {
	net.Conn
	addr string
}

func (c from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr)) }

// TestQuotaConnsOfPeers: a peer has so many connections open, on all listeners
// together; a loopback address as many as it likes.
func TestQuotaConnsOfPeers(t *testing.T) {
	f := prepare(t)
	first, second := make(arrivals, 10), make(arrivals, 10)
	limit := server.NewPeerLimit(quotas("peer-connections=2"), slog.New(slog.NewJSONHandler(f.logs, nil)), f.clock.Now)
	api, native := limit.Listener(first), limit.Listener(second)
	come := func(to arrivals, addr string) net.Conn {
		a, b := net.Pipe()
		to <- from{a, addr}
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		return b
	}
	accepted := func(l net.Listener) net.Conn {
		t.Helper()
		c, err := l.Accept()
		f.must(err)
		return c
	}
	refused := func(c net.Conn) {
		t.Helper()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a connection too many: %v", err)
		}
	}
	const peer, neighbour, other = "[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.1:1"
	come(first, peer)
	held := accepted(api)
	come(second, neighbour)
	accepted(native)
	tooMany := come(first, peer)
	come(first, other)
	if got := accepted(api).RemoteAddr().String(); got != other {
		t.Errorf("accepted %s, want %s", got, other)
	}
	refused(tooMany)
	for range 2 { // closed twice, it counts once
		_ = held.Close()
	}
	come(first, peer)
	accepted(api)
	tooMany = come(second, neighbour)
	for i := range 5 {
		come(second, fmt.Sprintf("127.0.0.1:%d", i+1))
		accepted(native)
	}
	refused(tooMany)
	if n := strings.Count(f.logs.String(), `"quota":"peer-connections","peer":"2001:db8::/64"`); n != 1 {
		t.Errorf("%d lines about the peer:\n%s", n, f.logs)
	}
}

// TestBucketsAreBounded: the buckets of projects and peers have a bound, and those in use are
// kept before others.
func TestBucketsAreBounded(t *testing.T) {
	now := &clock{now: time.Unix(0, 0)}
	kept := server.FillBuckets(now.Now, 3*server.MaxBucketsKept)
	if kept > server.MaxBucketsKept {
		t.Errorf("%d buckets are kept", kept)
	}
}
