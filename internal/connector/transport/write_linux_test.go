package transport

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// narrow starts a peer with a small receive buffer, and returns a connection to it with
// a small send buffer. serve has the peer's end.
func narrow(t *testing.T, serve func(net.Conn)) *Conn {
	t.Helper()
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
		return errors.Join(err, failed)
	}}
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := l.Accept(); err == nil {
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	u, err := ParseURL("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := NewSender(Config{Egress: NewEgress(netip.MustParsePrefix("127.0.0.0/8"))}).Open(t.Context(), TargetOf(u), true)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.raw.SetWriteBuffer(4096); err != nil {
		t.Fatal(err)
	}
	return conn
}

func postOf(t *testing.T, l *Conn, body []byte) Request {
	t.Helper()
	u, err := ParseURL(l.target.String() + "/x")
	if err != nil {
		t.Fatal(err)
	}
	return Request{Method: http.MethodPost, URL: u, Body: bytes.NewReader(body), Length: int64(len(body))}
}

// someOf waits until a part of the request was written, and fails if it was all.
func someOf(t *testing.T, l *Conn, all int) {
	t.Helper()
	for l.raw.written.Load() == 0 {
		runtime.Gosched()
	}
	if n := l.raw.written.Load(); n >= int64(all) {
		t.Errorf("%d bytes were taken at once, of %d", n, all)
	}
}

// TestRequestThatIsTakenInParts: the socket takes a part of a request immediately; the
// rest follows when it can, no byte twice, and permission is requested once.
func TestRequestThatIsTakenInParts(t *testing.T) {
	body := make([]byte, 60<<10)
	for i := range body {
		body[i] = byte(i * 7 / 5)
	}
	goOn, got := make(chan struct{}), make(chan []byte, 1)
	l := narrow(t, func(conn net.Conn) {
		<-goOn
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			t.Error(err)
			return
		}
		all, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- all
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	})
	asked := 0
	answered := make(chan Response, 1)
	by := time.Now().Add(time.Minute)
	go func() {
		answered <- l.Exchange(postOf(t, l, body), Bounds{SendBy: by, AnswerBy: by, MaySend: func() error { asked++; return nil }})
	}()
	someOf(t, l, len(body))
	close(goOn)
	a := <-answered
	if !a.Sent || !a.Complete || a.Status != 200 || asked != 1 || a.Written <= int64(len(body)) {
		t.Errorf("%+v, asked %d times", a, asked)
	}
	if !bytes.Equal(<-got, body) {
		t.Error("the body arrived as another one")
	}
}

// TestPartOfARequestIsSent: the part that the socket took immediately counts, when the
// rest comes too late for its time.
func TestPartOfARequestIsSent(t *testing.T) {
	end := make(chan struct{})
	l := narrow(t, func(net.Conn) { <-end })
	defer close(end)
	body := make([]byte, 60<<10)
	by := time.Now().Add(3 * time.Second) // it begins by then, also on a busy machine
	a := l.Exchange(postOf(t, l, body), Bounds{SendBy: by, AnswerBy: by})
	if a.Sent || a.Complete || a.Written == 0 || a.Written >= int64(len(body)) {
		t.Errorf("%+v", a)
	}
}

// TestBadHeadIsNotSent: what would break the framing is refused before the first
// byte, whatever let it get this far.
func TestBadHeadIsNotSent(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	for name, change := range map[string]func(*Request){
		"a field's value":  func(c *Request) { c.Headers = []Header{{Name: "X", Value: "a\r\nContent-Length: 0"}} },
		"a field's name":   func(c *Request) { c.Headers = []Header{{Name: "X: y\r\nZ", Value: "a"}} },
		"the method":       func(c *Request) { c.Method = "GET / HTTP/1.1\r\nX:" },
		"the query":        func(c *Request) { u := *c.URL; u.RawQuery = "a b"; c.URL = &u },
		"the host":         func(c *Request) { u := *c.URL; u.Host = "a b"; c.URL = &u },
		"a body too short": func(c *Request) { c.Length += 10 },
	} {
		l := narrow(t, func(net.Conn) { <-end })
		c := postOf(t, l, []byte("body"))
		change(&c)
		by := time.Now().Add(time.Minute)
		if a := l.Exchange(c, Bounds{SendBy: by, AnswerBy: by}); !errors.Is(a.Err, ErrBadRequest) || a.Written != 0 || a.Sent {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
