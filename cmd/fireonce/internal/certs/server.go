package certs

import (
	"crypto/tls"
	"crypto/x509"
)

// Authorities are certificates of authorities, as their file is. They are safe for
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

// Reload looks at the file now. It fails when it has changed and cannot be used.
func (a *Authorities) Reload() error {
	_, err := a.file.reload()
	return err
}

// Server is what a server's handshakes are made with. It is safe for concurrent use.
type Server struct {
	// Certificate gives the certificate for a handshake. Required.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Clients are the authorities of callers' certificates; nil: callers need none.
	Clients *Authorities
	// Challenge, when it is set, reports whether a handshake is an authority's question
	// whether this server has the name that it asked a certificate for. Such a handshake
	// needs no certificate of the caller, and carries no request.
	Challenge func(*tls.ClientHelloInfo) bool
	// ChallengeProtocols are offered beside those of requests.
	ChallengeProtocols []string
}

// Config makes the configuration of a listener that speaks the protocols, in order of
// preference: TLS 1.2 or newer with the ciphers that Go's crypto/tls chooses.
func (s *Server) Config(protocols ...string) *tls.Config {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: append(protocols, s.ChallengeProtocols...), GetCertificate: s.Certificate,
	}
	if s.Clients == nil {
		return c
	}
	// A resumed session would not show its certificate to the authorities of today.
	c.SessionTicketsDisabled = true
	answering := c.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		one := answering.Clone()
		if s.Challenge != nil && s.Challenge(hello) {
			one.NextProtos = s.ChallengeProtocols // so it carries nothing else
			return one, nil
		}
		one.ClientAuth, one.ClientCAs, one.NextProtos = tls.RequireAndVerifyClientCert, s.Clients.file.current(), protocols
		return one, nil
	}
	return c
}
