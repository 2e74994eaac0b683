package transport

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: everything here happens before the arm and is provably
// without effect, so every failure is a *Refusal. A certificate that does not
// fit is transient, not permanent: it is the target's to repair.

// Open returns a connection to the target: dialled, TLS shaken hands, nothing sent. With
// fresh it is never a reused one, and its request has "Connection: close". The
// context bounds the opening only. It fails with *Refusal.
func (s *Sender) Open(ctx context.Context, t Target, fresh bool) (*Conn, error) {
	if !fresh {
		if l := s.Idle(t); l != nil {
			return l, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.connectBy)
	defer cancel()
	w, err := s.dial(ctx, t)
	if err != nil {
		return nil, err
	}
	if t.Scheme == "https" {
		if err := w.shake(ctx); err != nil {
			return nil, err
		}
	}
	in := &cappedReader{r: w.conn}
	return &Conn{wire: w, fresh: fresh, in: in, br: bufio.NewReaderSize(in, 4<<10)}, nil
}

// HasIdle reports whether any connection lies idle.
func (s *Sender) HasIdle() bool { return s.pool.any() }

// Idle returns a living connection to the target that was used before, nil: there is
// none. It does not wait. The caller has the connection alone; Close puts it back.
func (s *Sender) Idle(t Target) *Conn { return s.pool.take(t) }

func (s *Sender) dial(ctx context.Context, t Target) (*wire, error) {
	d := net.Dialer{
		Resolver:       s.resolver,
		ControlContext: s.egress.Control,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
		},
	}
	d.SetMultipathTCP(false)
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(t.Host, t.Port))
	if err != nil {
		s.egress.LogDenied(ctx, t.Host, err)
		return nil, RefuseDial(t, err)
	}
	raw, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, &connector.Refusal{Kind: job.FailTransient, Msg: "no TCP connection to " + t.String()}
	}
	counted, err := newMeter(raw)
	if err != nil {
		_ = raw.Close()
		return nil, RefuseDial(t, err)
	}
	return &wire{sender: s, target: t, raw: counted, conn: counted}, nil
}

// ErrNoAddress: a name does not resolve, or to denied addresses only.
var ErrNoAddress = errors.New("no address that may be reached")

// RefuseDial returns why there is no connection. A name whose addresses egress denies gets
// the same answer as a name that does not exist: the difference would disclose which
// names exist in the operator's network. An address discloses nothing that its user did
// not know.
func RefuseDial(t Target, err error) *connector.Refusal {
	var denied *EgressError
	var dns *net.DNSError
	var nerr net.Error
	where := t.String()
	switch {
	case errors.As(err, &denied) && isAddress(t.Host):
		return &connector.Refusal{Kind: job.FailEgressDenied, Msg: "not allowed to connect to " + where, Err: denied}
	case errors.As(err, &denied), errors.As(err, &dns) && dns.IsNotFound:
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the name " + t.Host + " has no address that may be reached", Err: ErrNoAddress, Down: true}
	case errors.As(err, &dns):
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the name " + t.Host + " could not be resolved", Down: true}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &nerr) && nerr.Timeout():
		return &connector.Refusal{Kind: job.FailTransient, Msg: "connecting to " + where + " took too long", Down: true}
	case errors.Is(err, context.Canceled):
		return &connector.Refusal{Kind: job.FailTransient, Msg: "connecting to " + where + " was stopped", Err: context.Canceled}
	default:
		return &connector.Refusal{Kind: job.FailTransient, Msg: "no connection to " + where + ": " + lastCause(err), Down: true}
	}
}

// isAddress reports whether a host is an address and no name.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

func refuseTLS(t Target, err error) *connector.Refusal {
	where := t.String()
	var cert *tls.CertificateVerificationError
	var nerr net.Error
	switch {
	case errors.As(err, &cert):
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the certificate of " + where + " is not trusted: " + Clean(cert.Err.Error(), 300), Down: true}
	case errors.Is(err, context.Canceled):
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the TLS handshake with " + where + " was stopped", Err: context.Canceled}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &nerr) && nerr.Timeout():
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the TLS handshake with " + where + " took too long", Down: true}
	default:
		return &connector.Refusal{Kind: job.FailTransient, Msg: "the TLS handshake with " + where + " failed: " + lastCause(err), Down: true}
	}
}

// lastCause returns the innermost error's words, which name no local address.
func lastCause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return Clean(err.Error(), 300)
		}
		err = inner
	}
}
