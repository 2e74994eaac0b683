package node

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: TLS holds for every port that serves the API, or for none. The
// operations listener has it, too, beyond loopback.

// TLS has the certificates of a node. The zero value means no TLS.
type TLS struct {
	// Pair are the files of the certificate and its key.
	Pair certs.Pair
	// ClientCA is a file of authorities: every caller needs a certificate that one of them has
	// signed, beside its API key. Empty: callers need none.
	ClientCA string
	// ACME obtains the certificate instead of Pair.
	ACME certs.ACME
}

// on reports whether the node serves TLS.
func (t *TLS) on() bool { return !t.Pair.IsZero() || !t.ACME.IsZero() }

func (t *TLS) check() error {
	switch {
	case t.Pair.Check() != nil:
		return exit.Usagef("--tls-cert and --tls-key go together")
	case t.ClientCA != "" && !t.on():
		return exit.Usagef("--tls-client-ca goes with --tls-cert or --acme-domain")
	}
	return t.checkACME()
}

func (t *TLS) checkACME() error {
	a := t.ACME
	switch {
	case a.IsZero() && (a.Cache != "" || a.Directory != "" || a.CA != "" || a.Email != "" || a.AcceptTerms):
		return exit.Usagef("--acme-domain is missing: the names to obtain certificates for")
	case a.IsZero():
		return nil
	case !t.Pair.IsZero():
		return exit.Usagef("--acme-domain does not go with --tls-cert")
	case a.Cache == "":
		return exit.Usagef("--acme-domain needs --acme-cache: a folder that outlives the server, or each start asks for a new certificate")
	case !a.AcceptTerms:
		return exit.Usagef("--acme-domain needs --acme-accept-terms: you agree to the terms of the authority")
	}
	for _, name := range a.Domains {
		if !strings.Contains(strings.Trim(name, "."), ".") || strings.ContainsAny(name, "*:/") {
			return exit.Usagef("--acme-domain %q: must be a name such as fireonce.example.org", name)
		}
	}
	if u, err := url.Parse(a.Directory); a.Directory != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
		return exit.Usagef("--acme-directory %q: must be an https:// URL", a.Directory)
	}
	return nil
}

// openTLS reads the certificates.
func (n *Node) openTLS() error {
	t := n.cfg.TLS
	if !t.on() {
		n.watchCertificates(nil)
		return nil
	}
	o := certs.Options{Log: n.cfg.Log}
	var err error
	if t.ACME.IsZero() {
		err = n.followPair(o)
	} else {
		n.watchCertificates(nil)
		err = n.openACME()
	}
	if err != nil {
		return err
	}
	if t.ClientCA != "" {
		if n.tls.Clients, err = certs.FollowAuthorities(t.ClientCA, o); err != nil {
			return err
		}
		n.reloads = append(n.reloads, n.tls.Clients.Reload)
	}
	return nil
}

func (n *Node) followPair(o certs.Options) error {
	own, err := certs.FollowPair(n.cfg.TLS.Pair, o)
	if err != nil {
		return err
	}
	if err := certs.Validity(own.Current().Leaf, time.Now()); err != nil {
		// Callers refuse it. Jobs that are scheduled are sent all the same.
		n.cfg.Log.Error("callers will refuse this server", "why", err, "then", "renew it; the files are read again by themselves")
	}
	n.tls = &certs.Server{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.Current(), nil }}
	n.reloads = append(n.reloads, own.Reload)
	n.watchCertificates(own)
	return nil
}

func (n *Node) openACME() (err error) {
	if n.authority, err = certs.OpenACME(n.cfg.TLS.ACME, n.cfg.Log); err != nil {
		return err
	}
	n.tls = &certs.Server{
		Certificate: n.authority.Certificate, Challenge: certs.Challenge, ChallengeProtocols: []string{certs.ChallengeProtocol},
	}
	return nil
}

// Reload reads the files of certificates again. A file that cannot be used is logged, and the
// earlier certificate stays in use.
func (n *Node) Reload() {
	var errs []error
	for _, reload := range n.reloads {
		errs = append(errs, reload())
	}
	if errors.Join(errs...) == nil {
		n.cfg.Log.Info("the files of certificates were looked at", "files_of", len(n.reloads))
	}
}

// scheme is that of the API's URL.
func (n *Node) scheme() string {
	if n.tls != nil {
		return "https"
	}
	return "http"
}

// remoteInTheClear names the connectors that receive secrets over a network in the clear, which
// --allow-http allows.
func (c *Config) remoteInTheClear() (out []string) {
	for _, r := range c.remotes {
		if client.InTheClear(r.URL) {
			out = append(out, fmt.Sprintf("connector %s: credentials and payloads go to %s in the clear; use https", r.Name, r.URL))
		}
	}
	slices.Sort(out)
	return out
}
