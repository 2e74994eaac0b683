// Package transport is the audited sender: it opens connections and makes one exchange on
// each, over HTTP or another protocol, under the egress policy. It counts the bytes that the
// socket takes, so that "nothing was sent" is proven, and never sends a request again.
package transport

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"
)

// Limits and times of the sender.
const (
	// ConnectTimeout bounds name resolution, dial and TLS handshake together.
	ConnectTimeout = 10 * time.Second
	// IdleLimit is how long an unused connection is kept for reuse.
	IdleLimit = 30 * time.Second
	// MaxIdle and MaxIdlePerTarget bound the connections kept for reuse. One target has
	// as many as an engine sends to it concurrently, or every other job would dial.
	MaxIdle          = 512
	MaxIdlePerTarget = 128
	// MaxHead bounds an answer's status lines and headers together, 1xx included,
	// in bytes (more or less a read buffer of 4 KiB).
	MaxHead = 64 << 10
	// MaxBody bounds how much of an answer's body is read, in bytes. A longer body
	// makes the answer incomplete, unless its status decides.
	MaxBody = 1 << 20
	// MaxExcerpt is how much of a body messages quote from, in bytes.
	MaxExcerpt = 4 << 10

	// userTimeout is TCP_USER_TIMEOUT; it must be below the fence's grace of 30 s.
	userTimeout = 20 * time.Second
)

// Config makes a Sender. The zero value works: public addresses only, the
// system's roots and resolver.
type Config struct {
	// Egress decides what may be dialled; nil allows public addresses only.
	Egress *Egress
	// RootCAs replaces the system's roots; for tests and private authorities.
	RootCAs *x509.CertPool
	// ClientCertificate returns the certificate that is shown to a target that asks for one;
	// nil: none is shown. Such a sender is for one target.
	ClientCertificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// Version is what the user agent has after "Fireonce/"; empty means "dev".
	Version string
	// Resolver replaces the system's; nil means net.DefaultResolver.
	Resolver *net.Resolver
	// ConnectTimeout and IdleLimit replace the constants of that name; zero keeps them,
	// a negative IdleLimit keeps no connection.
	ConnectTimeout time.Duration
	IdleLimit      time.Duration
}

// Sender opens connections that are good for one exchange each. It never
// retries, follows no redirect, uses no proxy and ignores the environment. It is
// safe for concurrent use. It replaces net/http's client, whose transport
// re-sends a POST by itself when it carries an Idempotency-Key and the reused
// connection breaks (net/http, Request.isReplayable).
type Sender struct {
	egress    *Egress
	resolver  *net.Resolver
	tls       *tls.Config
	agent     string
	connectBy time.Duration
	pool      *pool
}

// NewSender makes a sender.
func NewSender(c Config) *Sender {
	s := &Sender{
		egress:    c.Egress,
		resolver:  c.Resolver,
		agent:     "Fireonce/" + cmp.Or(c.Version, "dev"),
		connectBy: cmp.Or(c.ConnectTimeout, ConnectTimeout),
		pool:      newPool(cmp.Or(c.IdleLimit, IdleLimit)),
		tls: &tls.Config{
			RootCAs:              c.RootCAs,
			GetClientCertificate: c.ClientCertificate,
			MinVersion:           tls.VersionTLS12,
			NextProtos:           []string{"http/1.1"},
			// A usual request is one record of up to 16 KiB, and so one write.
			DynamicRecordSizingDisabled: true,
		},
	}
	if c.Egress == nil {
		s.egress = NewEgress()
	}
	return s
}

// Close drops the idle connections and keeps no more. Open connections are not touched.
func (s *Sender) Close() { s.pool.close() }
