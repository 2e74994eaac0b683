package transport

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestPoolExpires: connections that are too old are closed, younger ones stay and are
// checked again, and no timer runs when there is none.
func TestPoolExpires(t *testing.T) {
	if !canPeek {
		t.Skip("no connection is kept here")
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := NewSender(Config{Egress: NewEgress(netip.MustParsePrefix("127.0.0.0/8")), IdleLimit: time.Hour})
	defer s.Close()
	u, err := ParseURL("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	to := TargetOf(u)
	var conns []*Conn
	for range 5 {
		conn, err := s.Open(t.Context(), to, true)
		if err != nil {
			t.Fatal(err)
		}
		conn.fresh = false
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		conn.Close() // kept
	}
	for _, old := range conns[:3] {
		old.since = old.since.Add(-2 * time.Hour)
	}
	s.pool.expire()
	if left := s.pool.idle[to]; len(left) != 2 || left[0] != conns[3] || left[1] != conns[4] || s.pool.count != 2 || s.pool.sweep == nil {
		t.Errorf("%d connections are left of 5, 3 of them old; sweeps %v", len(left), s.pool.sweep != nil)
	}
	for _, old := range conns[3:] {
		old.since = old.since.Add(-2 * time.Hour)
	}
	s.pool.expire()
	if s.pool.count != 0 || len(s.pool.idle) != 0 || s.pool.sweep != nil {
		t.Errorf("%d connections are left, sweeps %v", s.pool.count, s.pool.sweep != nil)
	}
}
