// Package certstest makes authorities and certificates for tests.
package certstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is an authority.
type CA struct {
	// File has its certificate.
	File string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Leaf describes a certificate. The zero value is for localhost and 127.0.0.1, for servers and
// clients, and valid for an hour.
type Leaf struct {
	// Names replace localhost and 127.0.0.1.
	Names []string
	// From and Until replace its validity.
	From, Until time.Time
}

// NewCA makes an authority, with a file in dir.
func NewCA(tb testing.TB, dir, name string) *CA {
	tb.Helper()
	ca := &CA{File: filepath.Join(dir, name+"-ca.pem"), key: newKey(tb)}
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.key.Public(), ca.key)
	if err != nil {
		tb.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	write(tb, ca.File, "CERTIFICATE", der)
	return ca
}

// Pool returns a pool with this authority only.
func (ca *CA) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca.cert)
	return p
}

// Issue writes a certificate and its key to the two files.
func (ca *CA) Issue(tb testing.TB, cert, key string, l Leaf) {
	tb.Helper()
	own := newKey(tb)
	template := &x509.Certificate{
		SerialNumber: serial(tb), Subject: pkix.Name{CommonName: "test"}, NotBefore: l.From, NotAfter: l.Until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if l.From.IsZero() {
		template.NotBefore = time.Now().Add(-time.Minute)
	}
	if l.Until.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	names := l.Names
	if names == nil {
		names = []string{"localhost", "127.0.0.1"}
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, own.Public(), ca.key)
	if err != nil {
		tb.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		tb.Fatal(err)
	}
	write(tb, key, "PRIVATE KEY", secret)
	write(tb, cert, "CERTIFICATE", der)
}

// Pair returns a certificate with its key, as TLS uses them.
func (ca *CA) Pair(tb testing.TB, l Leaf) tls.Certificate {
	tb.Helper()
	dir := tb.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	ca.Issue(tb, cert, key, l)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		tb.Fatal(err)
	}
	return pair
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func serial(tb testing.TB) *big.Int {
	tb.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func write(tb testing.TB, file, kind string, der []byte) {
	tb.Helper()
	// In one step, as a renewal of a certificate should be.
	next := file + ".next"
	if err := os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		tb.Fatal(err)
	}
}
