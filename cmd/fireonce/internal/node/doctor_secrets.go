package node

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
)

// renewSoon is when a certificate should have been renewed.
const renewSoon = 14 * 24 * time.Hour

func (d *doctor) keyFiles() {
	d.sealingKeys()
	if d.cfg.OAuthApps == "" {
		return
	}
	if _, err := d.cfg.loadApps(); err != nil {
		d.fail("oauth apps", "see docs/operations.md; the file is for its owner alone (chmod 600)", "%v", err)
		return
	}
	d.ok("oauth apps", "%s can be read", d.cfg.OAuthApps)
}

func (d *doctor) connectors() {
	if err := d.cfg.loadRemotes(); err != nil {
		d.fail("connectors", "see \"Running one\" in docs/connectors.md", "%v", err)
	} else if d.cfg.Connectors != "" {
		d.ok("connectors", "%s can be read", d.cfg.Connectors)
	}
}

func (d *doctor) sealingKeys() {
	source, err := d.database.keys(d.cfg.Keys, d.cfg.KeyFile)
	if err != nil {
		do := "name one with --key-file, or set " + keysVariable
		if d.database.url == "" {
			do = "it is beside the database by default: put that or its folder in place, or name one with --key-file"
		}
		d.fail("key file", do, "%v", err)
		return
	}
	switch keys, err := source.load(); {
	case errors.Is(err, fs.ErrNotExist):
		d.warn("key file", "if this database has credentials, put the file back; otherwise `serve` makes one: back it up", "there is no %s", source)
	case err != nil:
		d.fail("key file", "it must be readable by its owner alone (chmod 600), whole, and nothing but keys", "%v", err)
	default:
		d.ok("key file", "%s is readable; keys in it: %d", source, len(keys.KeyIDs()))
	}
}

// metadata are the addresses at which clouds serve a machine's own credentials.
var metadata = []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254")}

func (d *doctor) egress() {
	const narrow = "allow the single addresses of your gateways, and no more"
	bad := false
	for _, p := range d.cfg.AllowEgress {
		switch {
		case p.Contains(metadata[0]) || p.Contains(metadata[1]):
			bad = true
			d.fail("egress", narrow, "--allow-egress %v has the address of the cloud's metadata: a job could fetch this machine's credentials", p)
		case p.IsSingleIP():
		case p.Addr().Is4() && p.Bits() < 16, p.Addr().Is6() && p.Bits() < 48:
			bad = true
			d.warn("egress", narrow, "--allow-egress %v is a large part of a network", p)
		}
	}
	if d.cfg.Dev {
		bad = true
		d.warn("egress", "leave --dev out wherever others may schedule", "--dev: jobs may be sent to this machine's own ports, and over plain HTTP")
	} else if d.cfg.AllowHTTP {
		bad = true
		d.warn("egress", "leave --allow-http out", "--allow-http: credentials and content may cross networks in the clear")
	}
	if !bad {
		d.ok("egress", "public addresses, and %d more ranges by --allow-egress", len(d.cfg.AllowEgress))
	}
}

func (d *doctor) tls(now time.Time) {
	const pages = "see \"TLS\" and \"Hardening\" in docs/operations.md"
	open := d.cfg.portsInTheOpen()
	for _, words := range d.cfg.secretsInTheOpen() {
		if slices.Contains(open, words) {
			d.warn("tls", pages, "%s", words) // a proxy in front cannot be seen from here
		} else {
			d.fail("tls", pages, "%s", words)
		}
	}
	if d.cfg.opsOpen() {
		d.warn("operations", opsOpenThen, "--ops-listen %s: whoever reaches this port reads metrics and status without a key", d.cfg.OpsListen)
	}
	d.ownCertificate(now, len(open) > 0)
	for _, r := range d.cfg.remotes {
		d.connectorFiles(r, now)
	}
}

// ownCertificate looks at what the server shows, and asks of its callers.
func (d *doctor) ownCertificate(now time.Time, open bool) {
	t := d.cfg.TLS
	switch {
	case !t.on() && !open:
		d.ok("tls", "none; the ports are reached from this machine alone")
	case !t.on():
	case t.ACME.IsZero():
		d.certificate("tls", t.Pair, now)
	default:
		d.obtained(now)
	}
	if t.ClientCA == "" {
		return
	}
	if _, err := certs.ReadPool(t.ClientCA); err != nil {
		d.fail("tls", "--tls-client-ca is a PEM file of certificates", "%v", err)
		return
	}
	d.ok("tls", "callers show certificates of %s", t.ClientCA)
}

// obtained looks at the certificates that were obtained by ACME.
func (d *doctor) obtained(now time.Time) {
	const see = "see that port 443 of the name leads to --listen and that the authority can be reached; a server that runs logs why it gets none"
	a := d.cfg.TLS.ACME
	for _, name := range a.Domains {
		leaf, err := a.Obtained(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.ok("tls", "there is no certificate for %s in %s yet; the server obtains it", name, a.Cache)
		case err != nil:
			d.fail("tls", "remove it: the server obtains another one", "the certificate for %s in %s cannot be used: %v", name, a.Cache, err)
		case certs.Validity(leaf, now) != nil:
			d.fail("tls", see, "%v", certs.Validity(leaf, now))
		case leaf.NotAfter.Sub(now) < renewSoon && leaf.NotAfter.Sub(leaf.NotBefore) > 3*renewSoon:
			d.warn("tls", see, "the certificate for %s ends on %s, and should have been renewed", name, leaf.NotAfter.UTC().Format(time.RFC3339))
		default:
			d.ok("tls", "the certificate for %s is good until %s, and is renewed by ACME", name, leaf.NotAfter.UTC().Format(time.RFC3339))
		}
	}
}

// connectorFiles looks at the files by which a connector is reached.
func (d *doctor) connectorFiles(r Remote, now time.Time) {
	check := "connector " + r.Name
	if info, err := os.Stat(r.TokenFile); r.TokenFile != "" && err == nil && info.Mode().Perm()&0o077 != 0 {
		d.warn(check, "chmod 600 "+r.TokenFile, "others of this machine may read its token in %s (%v)", r.TokenFile, info.Mode().Perm())
	}
	if r.CAFile != "" {
		if _, err := certs.ReadPool(r.CAFile); err != nil {
			d.fail(check, "its ca_file is a PEM file of certificates", "%v", err)
		} else {
			d.ok(check, "it is known by %s", r.CAFile)
		}
	}
	if pair := r.tls().Pair; !pair.IsZero() {
		d.certificate(check, pair, now)
	}
}

// certificate looks at a certificate and its key.
func (d *doctor) certificate(check string, p certs.Pair, now time.Time) {
	c, err := certs.FollowPair(p, certs.Options{Log: d.cfg.Log})
	if err != nil {
		d.fail(check, "both files are PEM, and belong together", "%v", err)
		return
	}
	leaf := c.Current().Leaf
	info, err := os.Stat(p.Key)
	switch {
	case certs.Validity(leaf, now) != nil:
		d.fail(check, "renew it; a server that runs reads the files again", "%v", certs.Validity(leaf, now))
	case leaf.NotAfter.Sub(now) < renewSoon:
		d.warn(check, "renew it; a server that runs reads the files again", "the certificate for %s ends on %s", certs.Names(leaf), leaf.NotAfter.UTC().Format(time.RFC3339))
	case err == nil && info.Mode().Perm()&0o077 != 0:
		d.warn(check, "chmod 600 "+p.Key, "others of this machine may read the private key (%v)", info.Mode().Perm())
	default:
		d.ok(check, "the certificate for %s is good until %s", certs.Names(leaf), leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}
