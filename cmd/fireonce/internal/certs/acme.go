package certs

import (
	"cmp"
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

	"github.com/fireonce/fireonce/internal/sleep"
)

// Rules of this file: certificates come from an authority that supports ACME (RFC 8555). The
// authority verifies the name on the port of the API itself (TLS-ALPN-01, RFC 8737).

const (
	// acmeRequest bounds one request to the authority.
	acmeRequest = 30 * time.Second
	// maxAnswer bounds the body of an answer of the authority: the library reads all of it.
	maxAnswer = 1 << 20
	// obtainAgain is the time between two tries to obtain a first certificate. Authorities
	// limit the failures per hour.
	obtainAgain = 15 * time.Minute
)

// ACME configures the authority from which certificates are obtained.
type ACME struct {
	// Domains are the only names for which certificates are requested.
	Domains []string
	// Cache is a directory for the account's key and the certificates. Servers with the same
	// names share it.
	Cache string
	// Directory is the authority's URL; empty: Let's Encrypt's.
	Directory string
	// CA is a file of authorities that sign the directory's own certificate. It replaces the
	// system's authorities.
	CA string
	// Email is the address to which the authority sends notices; empty: none.
	Email string
	// AcceptTerms: the operator agrees to the authority's terms.
	AcceptTerms bool
}

// IsZero reports whether no domain is named.
func (a ACME) IsZero() bool { return len(a.Domains) == 0 }

// Obtained returns the cached certificate for a name. It fails with fs.ErrNotExist if the cache
// has none.
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

// Authority obtains certificates. It renews one when a handshake finds that a third of its
// time, or 30 days, is left.
type Authority struct {
	manager *autocert.Manager
	domains []string
	log     *slog.Logger
}

// OpenACME returns an Authority. It sends no request.
func OpenACME(a ACME, log *slog.Logger) (*Authority, error) {
	files := Client{CA: a.CA}
	secure, err := files.Config(Options{Log: log})
	if err != nil {
		return nil, fmt.Errorf("ACME directory: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	bounded := boundedAnswers{transport}
	directory := cmp.Or(a.Directory, acme.LetsEncryptURL)
	return &Authority{
		manager: &autocert.Manager{
			Prompt: func(string) bool { return a.AcceptTerms }, Cache: autocert.DirCache(a.Cache), Email: a.Email,
			HostPolicy: autocert.HostWhitelist(a.Domains...),
			Client:     &acme.Client{DirectoryURL: directory, HTTPClient: &http.Client{Transport: bounded, Timeout: acmeRequest}, UserAgent: "Fireonce"},
		},
		domains: a.Domains, log: log,
	}, nil
}

// boundedAnswers fails the reading of a body after maxAnswer bytes.
type boundedAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, maxAnswer)
	}
	return res, err
}

// Certificate returns the certificate for a handshake. It obtains one if there is none.
func (a *Authority) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.manager.GetCertificate(hello)
}

// ChallengeProtocol is the protocol of the authority's challenge.
const ChallengeProtocol = acme.ALPNProto

// Challenge reports whether a handshake is the authority's challenge.
func Challenge(hello *tls.ClientHelloInfo) bool {
	return slices.Equal(hello.SupportedProtos, []string{ChallengeProtocol})
}

// Obtain obtains the missing certificates, so that the first caller need not wait for one. It
// repeats failed tries until ctx ends.
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
			if !sleep.For(ctx, obtainAgain) {
				return
			}
		}
	}
}
