package certs

import (
	"crypto/tls"
	"crypto/x509"
)

// Authorities are certificates of authorities that follow their file. They are safe for
// concurrent use.
type Authorities struct{ file *followed[x509.CertPool] }

// FollowAuthorities reads a file of authorities and follows it.
func FollowAuthorities(file string, o Options) (*Authorities, error) {
	f, err := follow(o, "authorities "+file, []string{file}, func(c [][]byte, _ *x509.CertPool) (*x509.CertPool, error) { return pool(c[0]) })
	if err != nil {
		return nil, err
	}
	return &Authorities{f}, nil
}

// Reload checks the file now. It fails if the file has changed and cannot be used.
func (a *Authorities) Reload() error {
	_, err := a.file.reload()
	return err
}

// Server configures a server's handshakes. It is safe for concurrent use.
type Server struct {
	// Certificate returns the certificate for a handshake. Required.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients are the authorities of callers' certificates; nil: callers need none.
	Clients *Authorities
	// Challenge, if set, reports whether a handshake is an authority's challenge, by which it
	// verifies that this server has the name of a requested certificate. Such a handshake
	// needs no certificate of the caller, and carries no request.
	Challenge func(*tls.ClientHelloInfo) bool
	// ChallengeProtocols are offered in addition to those of requests.
	ChallengeProtocols []string
}

// Config returns the configuration of a listener that offers the protocols, in order of
// preference: TLS 1.2 or newer with the ciphers that Go's crypto/tls chooses.
func (s *Server) Config(protocols ...string) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: append(protocols, s.ChallengeProtocols...), GetCertificate: s.Certificate,
	}
	if s.Clients == nil {
		return c
	}
	// The certificate of a resumed session would not be verified against the present authorities.
	c.SessionTicketsDisabled = true
	answering := c.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		one := answering.Clone()
		if s.Challenge != nil && s.Challenge(hello) {
			one.NextProtos = s.ChallengeProtocols // so it can carry no request
			return one, nil
		}
		one.ClientAuth, one.ClientCAs, one.NextProtos = tls.RequireAndVerifyClientCert, s.Clients.file.current(), protocols
		return one, nil
	}
	return c
}
