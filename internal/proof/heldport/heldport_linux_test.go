package heldport

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// option is one of a socket.
type option struct{ level, name, value int }

var (
	reuseAddr = option{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1}
	plain     = option{unix.SOL_SOCKET, unix.SO_REUSEADDR, 0} // Go sets it
	reusePort = option{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1}
	// programs are what programs set before they listen.
	programs = map[string][]option{
		"plain": {plain}, "SO_REUSEADDR": {reuseAddr}, "SO_REUSEPORT": {plain, reusePort}, "both, as Postfix": {reuseAddr, reusePort},
	}
)

// with sets a socket's options before it is bound.
func with(options ...option) func(string, string, syscall.RawConn) error {
	return func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			for _, o := range options {
				err = errors.Join(err, unix.SetsockoptInt(int(fd), o.level, o.name, o.value))
			}
		})
		return errors.Join(err, failed)
	}
}

// listen listens as another program does, until the test ends.
func listen(t *testing.T, addr string, options ...option) (net.Listener, error) {
	t.Helper()
	l, err := (&net.ListenConfig{Control: with(options...)}).Listen(t.Context(), "tcp", addr)
	if err == nil {
		t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

func held(t *testing.T) *Port {
	t.Helper()
	p, err := Hold(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// TestGivenToNobody has the kernel choose a port, where the only one is that which is held.
func TestGivenToNobody(t *testing.T) {
	t.Parallel()
	p := held(t)
	only := option{unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, p.number<<16 | p.number}
	other, err := listen(t, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if l, err := listen(t, "127.0.0.2:0", only); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("before Linux 6.3 a socket chooses from all ports")
	} else if err != nil {
		t.Fatal(err) // on another address it is free
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ask := func(when string) {
		t.Helper()
		for name, options := range programs {
			for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", ":0"} {
				if l, err := listen(t, addr, append([]option{only}, options...)...); !errors.Is(err, unix.EADDRINUSE) {
					t.Errorf("%s: at %s, %s: %v, %v", when, addr, name, l, err)
				}
			}
		}
		dialer := net.Dialer{Control: with(only)}
		if c, err := dialer.DialContext(t.Context(), "tcp", other.Addr().String()); !errors.Is(err, unix.EADDRNOTAVAIL) {
			t.Errorf("%s: a connection: %v, %v", when, c, err)
		}
	}
	ask("before the program listens")
	l, err := listen(t, p.Addr(), programs["both, as Postfix"]...)
	if err != nil {
		t.Fatal(err)
	}
	ask("while it listens")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ask("when it has ended, and may come again")
}

// TestOneHolds: a port that another socket has is not held.
func TestOneHolds(t *testing.T) {
	t.Parallel()
	p := held(t)
	if second, err := Hold(p.number); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("held twice: %v, %v", second, err)
	}
	l, err := listen(t, p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if second, err := Hold(p.number); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("held while a program listens: %v, %v", second, err)
	}
	if second, err := listen(t, p.Addr()); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("listened on twice: %v, %v", second, err)
	}
	if err := errors.Join(l.Close(), p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
}

// TestTakesNoConnection: every connection is the program's, whatever that has set, and without
// it there is none.
func TestTakesNoConnection(t *testing.T) {
	t.Parallel()
	p := held(t)
	for _, name := range []string{"SO_REUSEADDR", "both, as Postfix"} {
		if c, err := net.Dial("tcp", p.Addr()); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("nobody listens: %v, %v", c, err)
		}
		l, err := listen(t, p.Addr(), programs[name]...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 1000 { // a second listener would get half of them
			c, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			got, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if got.RemoteAddr().String() != c.LocalAddr().String() {
				t.Fatalf("%s connected, and %s came", c.LocalAddr(), got.RemoteAddr())
			}
			_ = c.(*net.TCPConn).SetLinger(0) // leaves no port behind
			_, _ = c.Close(), got.Close()
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := net.Dial("tcp", p.Addr()); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("it has ended: %v, %v", c, err)
	}
}
