package transport_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// listen returns a listener on loopback, and the target that leads to it.
func listen(t *testing.T) (net.Listener, transport.Target) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return l, transport.Target{Scheme: "smtp", Host: "127.0.0.1", Port: port}
}

func TestWire(t *testing.T) {
	t.Parallel()
	l, target := listen(t)
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	defer s.Close()
	w, err := s.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = peer.Close() }()
	if !w.Quiet() || w.Written() != 0 || w.Secure() || w.Local() != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("a new wire: quiet %v, %d written, secure %v, at %v", w.Quiet(), w.Written(), w.Secure(), w.Local())
	}
	if _, err := w.Write([]byte("hello")); err != nil || w.Written() != 5 {
		t.Errorf("%v, %d written", err, w.Written())
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(peer, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := peer.Write([]byte("unasked")); err != nil {
		t.Fatal(err)
	}
	for w.Quiet() {
		runtime.Gosched() // until it has arrived
	}
	w.Abort()
	w.Abort()
	w.Close()
	if _, err := w.Write([]byte("more")); err == nil || w.Written() != 5 {
		t.Errorf("%v, %d written after the end", err, w.Written())
	}
	if _, err := io.ReadAll(peer); err == nil {
		t.Error("the peer saw an end in good order")
	}
}

func TestWireRefusals(t *testing.T) {
	t.Parallel()
	l, target := listen(t)
	refused := func(err error, want job.FailureKind) {
		t.Helper()
		var r *connector.Refusal
		if !errors.As(err, &r) || r.Kind != want {
			t.Errorf("%v, want a refusal of kind %s", err, want)
		}
	}
	_, err := transport.NewSender(transport.Config{}).Dial(t.Context(), target)
	refused(err, job.FailEgressDenied)
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	defer s.Close()
	w, err := s.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := peer.Close(); err != nil {
		t.Fatal(err)
	}
	refused(w.Handshake(t.Context()), job.FailTransient)
	if w.Secure() {
		t.Error("secure without a handshake")
	}
	_ = l.Close()
	_, err = s.Dial(t.Context(), target)
	refused(err, job.FailTransient)
}
