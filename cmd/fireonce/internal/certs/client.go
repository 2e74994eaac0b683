package certs

import (
	"crypto/tls"
	"fmt"
)

// Client names the files by which a client knows a server, and shows itself.
type Client struct {
	// CA is a file of authorities that are trusted in place of the system's. Empty: the
	// system's. It is read once.
	CA string
	// Pair is shown to a server that asks for a certificate, and read again when it
	// changes.
	Pair
}

// IsZero reports whether nothing is named.
func (c Client) IsZero() bool { return c == Client{} }

// Config makes a configuration, which speaks TLS 1.2 or newer.
func (c Client) Config(o Options) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.CA != "" {
		roots, err := ReadPool(c.CA)
		if err != nil {
			return nil, fmt.Errorf("authorities: %w", err)
		}
		config.RootCAs = roots
	}
	if !c.Pair.IsZero() {
		own, err := FollowPair(c.Pair, o)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.Current(), nil }
	}
	return config, nil
}
