package transport

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUserTimeout asks the kernel what a dialled socket has.
func TestUserTimeout(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	s := NewSender(Config{Egress: NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	u, err := ParseURL("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := s.Open(t.Context(), TargetOf(u), true)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.raw.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	var asked error
	if err := raw.Control(func(fd uintptr) { got, asked = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) }); err != nil || asked != nil {
		t.Fatal(err, asked)
	}
	if got != int(userTimeout.Milliseconds()) {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, want %d", got, userTimeout.Milliseconds())
	}
}
