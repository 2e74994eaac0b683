package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// Rules of this file: certificates come from an authority that speaks ACME (RFC 8555). It
// asks for the proof on the port of the API itself (TLS-ALPN-01, RFC 8737).

const (
	// acmeRequest bounds one request to the authority.
	acmeRequest = 30 * time.Second
	// obtainAgain lies between two tries to obtain a first certificate. Authorities limit
	// the failures of an hour.
	obtainAgain = 15 * time.Minute
)

// ACME says from where certificates are obtained.
type ACME struct {
	// Domains are the names to ask certificates for, and the only ones.
	Domains []string
	// Cache is a folder for the account's key and the certificates. Servers that answer to
	// the same names share it.
	Cache string
	// Directory is the authority's URL; empty: Let's Encrypt's.
	Directory string
	// CA is a file of authorities that sign the directory's own certificate, in place of
	// the system's.
	CA string
	// Email is where the authority writes to; empty: nowhere.
	Email string
	// AcceptTerms says that the operator agrees to the authority's terms.
	AcceptTerms bool
}

// IsZero reports whether nothing is named.
func (a ACME) IsZero() bool { return len(a.Domains) == 0 }

// Obtained reads the certificate for a name that the cache has. It fails with
// fs.ErrNotExist when there is none.
func (a ACME) Obtained(name string) (*x509.Certificate, error) {
	both, err := readFile(filepath.Join(a.Cache, name)) // as autocert.DirCache names it
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(both, both)
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}

// Authority obtains certificates and renews them, when a handshake finds that a third of
// their time, or 30 days, is left.
type Authority struct {
	manager *autocert.Manager
	domains []string
	log     *slog.Logger
}

// OpenACME makes an Authority. It asks nothing.
func OpenACME(a ACME, log *slog.Logger) (*Authority, error) {
	files := Client{CA: a.CA}
	secure, err := files.Config(Options{Log: log})
	if err != nil {
		return nil, fmt.Errorf("ACME directory: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	directory := a.Directory
	if directory == "" {
		directory = acme.LetsEncryptURL
	}
	return &Authority{
		manager: &autocert.Manager{
			Prompt: func(string) bool { return a.AcceptTerms }, Cache: autocert.DirCache(a.Cache), Email: a.Email,
			HostPolicy: autocert.HostWhitelist(a.Domains...),
			Client:     &acme.Client{DirectoryURL: directory, HTTPClient: &http.Client{Transport: transport, Timeout: acmeRequest}, UserAgent: "Fireonce"},
		},
		domains: a.Domains, log: log,
	}, nil
}

// Certificate returns the certificate for a handshake, and obtains it if there is none.
func (a *Authority) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.manager.GetCertificate(hello)
}

// ChallengeProtocol is that of the authority's question.
const ChallengeProtocol = acme.ALPNProto

// Challenge reports whether a handshake is the authority's question.
func Challenge(hello *tls.ClientHelloInfo) bool {
	return slices.Equal(hello.SupportedProtos, []string{ChallengeProtocol})
}

// Obtain obtains the certificates that there are not yet, so that the first caller need
// not wait for one. It tries again until ctx ends.
func (a *Authority) Obtain(ctx context.Context) {
	for _, name := range a.domains {
		for {
			pair, err := a.manager.GetCertificate(&tls.ClientHelloInfo{
				ServerName: name, SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
				SupportedCurves: []tls.CurveID{tls.CurveP256}, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
			})
			if err == nil {
				a.log.Info("there is a certificate", "for", name, "until", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
				break
			}
			a.log.Error("no certificate could be obtained", "for", name, "err", err, "again_in", obtainAgain.String(),
				"then", "see that port 443 of the name leads to --listen, and that the authority can be reached")
			select {
			case <-time.After(obtainAgain):
			case <-ctx.Done():
				return
			}
		}
	}
}
