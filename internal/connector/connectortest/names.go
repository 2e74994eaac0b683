package connectortest

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Names is a name server that says of every name that it is at 127.0.0.1, and knows what it was
// asked for.
type Names struct {
	conn net.PacketConn

	mu    sync.Mutex
	asked []string
}

// NewNames starts a name server on 127.0.0.1. It ends with the test.
func NewNames(tb testing.TB) *Names {
	tb.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	n := &Names{conn: conn}
	tb.Cleanup(func() { _ = conn.Close() })
	go n.answer()
	return n
}

// Resolver asks the name server alone.
func (n *Names) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}

// Asked returns the names that were asked for, each once and without the dot at its end.
func (n *Names) Asked() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

func (n *Names) answer() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:size]) != nil || len(m.Questions) == 0 {
			continue
		}
		q := m.Questions[0]
		n.note(strings.TrimSuffix(q.Name.String(), "."))
		m.Response, m.Additionals = true, nil
		if q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		if packed, err := m.Pack(); err == nil {
			_, _ = n.conn.WriteTo(packed, from)
		}
	}
}

func (n *Names) note(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.asked, name) {
		n.asked = append(n.asked, name)
	}
}
