package node

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
)

// Rules of this file: a scrape reads the certificates that this server shows, to its callers and
// to connectors of the operator's own. It makes no call.

// unreadableEnd is the end of a certificate that cannot be read: long past, as for callers.
const unreadableEnd = 1

// watchCertificates adds the gauge of the certificate that ends first. own is the certificate of
// the ports; nil: they have none in files.
func (n *Node) watchCertificates(own *certs.Certificate) {
	n.metrics.Gauge("certificate_end_timestamp_seconds",
		"When the first of the certificates that this server shows ends, in Unix time; 0: it shows none; 1: one cannot be read.",
		nil, func() float64 { return n.certificateEnd(own) })
}

func (n *Node) certificateEnd(own *certs.Certificate) float64 {
	var ends []time.Time
	unreadable := false
	add := func(leaf *x509.Certificate, err error) {
		if err != nil {
			unreadable = true
			return
		}
		ends = append(ends, leaf.NotAfter)
	}
	if own != nil {
		add(own.Current().Leaf, nil)
	}
	for _, name := range n.cfg.TLS.ACME.Domains {
		add(n.cfg.TLS.ACME.Obtained(name))
	}
	for _, r := range n.cfg.remotes {
		if r.ClientCertFile != "" {
			add(leafOf(r.ClientCertFile))
		}
	}
	first := 0.0
	for _, end := range ends {
		if at := float64(end.Unix()); first == 0 || at < first {
			first = at
		}
	}
	if unreadable {
		return unreadableEnd
	}
	return first
}

var errNoCertificate = errors.New("no certificate")

// leafOf returns the first certificate of a file.
func leafOf(file string) (*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errNoCertificate
}
