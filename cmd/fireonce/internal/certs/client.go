package certs

import (
	"crypto/tls"
	"fmt"
)

// Client names the files with which a client verifies a server and authenticates itself.
type Client struct {
	// CA is a file of trusted authorities, which replace the system's. Empty: the system's.
	// It is read once.
	CA string
	// Pair is sent to a server that asks for a certificate, and read again when it
	// changes.
	Pair
}

// IsZero reports whether no file is named.
func (c Client) IsZero() bool { return c == Client{} }

// Config returns a configuration for TLS 1.2 or newer.
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
