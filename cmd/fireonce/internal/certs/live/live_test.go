// Package live obtains certificates from a real ACME server, pebble, which is Let's Encrypt's
// server for tests. It is a module of its own, so that the service does not depend on pebble's
// modules.
package live

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs/certstest"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
)

// patience bounds every wait.
const patience = 2 * time.Minute

const name = "fireonce.test"

// authority is an ACME server with a DNS of its own, in which every name is this machine.
type authority struct {
	front *httptest.Server
	ca    *ca.CAImpl
	// trust is the file of the authority that signed its own certificate.
	trust string
}

// newAuthority returns an authority that answers once serve is called.
func newAuthority(t *testing.T) *authority {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	a := &authority{front: httptest.NewUnstartedServer(nil)}
	own := certstest.NewCA(t, t.TempDir(), "front")
	a.trust = own.File
	a.front.TLS = &tls.Config{Certificates: []tls.Certificate{own.Pair(t, certstest.Leaf{})}, MinVersion: tls.VersionTLS12}
	t.Cleanup(a.front.Close)
	return a
}

func (a *authority) directory() string {
	return "https://" + a.front.Listener.Addr().String() + wfe.DirectoryPath
}

// serve begins to answer, and makes its challenges at the port.
func (a *authority) serve(t *testing.T, port int) {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	store := db.NewMemoryStore()
	a.ca = ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: 0}})
	judge := va.New(quiet, 1, port, true, nameServer(t), store)
	front := wfe.New(quiet, store, judge, a.ca, []string{"pebble.test"}, true, false, 1, 1)
	a.front.Config.Handler = front.Handler()
	a.front.StartTLS()
}

// nameServer starts a DNS server that answers each name with this machine.
func nameServer(t *testing.T) string {
	t.Helper()
	answer := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(m)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: l, Handler: answer}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return l.Addr().String()
}

// roots returns the authority's root certificates.
func (a *authority) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(a.ca.GetRootCert(0).PEM()) {
		t.Fatal("no root")
	}
	return p
}

// logs holds the log of a node.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
	said chan struct{}
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.said <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

func (l *logs) await(t *testing.T, words string) {
	t.Helper()
	late := time.After(patience)
	for {
		l.mu.Lock()
		text := l.text.String()
		l.mu.Unlock()
		if strings.Contains(text, words) {
			return
		}
		select {
		case <-l.said:
		case <-late:
			t.Fatalf("it never said %q:\n%s", words, text)
		}
	}
}

// serve starts a node that obtains its certificate.
func serve(t *testing.T, a *authority, cache, clientCA string) (port int, said *logs) {
	t.Helper()
	said = &logs{said: make(chan struct{}, 1)}
	n, err := node.Start(t.Context(), node.Config{
		Listen: "127.0.0.1:0", Database: "sqlite:" + filepath.Join(t.TempDir(), "db"), Log: slog.New(slog.NewTextHandler(said, nil)), Version: "test",
		TLS: node.TLS{ClientCA: clientCA, ACME: certs.ACME{Domains: []string{name}, Cache: cache, Directory: a.directory(), CA: a.trust, AcceptTerms: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	_, text, err := net.SplitHostPort(strings.TrimPrefix(n.URL(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return port, said
}

func shake(t *testing.T, port int, c *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	c.MinVersion = tls.VersionTLS12
	d := tls.Dialer{Config: c}
	conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// TestACME checks that a server obtains a certificate by a challenge on its own port, even if
// callers need certificates, and that the next start reads the certificate from the directory
// without a request to the authority.
func TestACME(t *testing.T) {
	a, cache := newAuthority(t), t.TempDir()
	callers := certstest.NewCA(t, t.TempDir(), "callers")
	port, said := serve(t, a, cache, callers.File)
	a.serve(t, port)
	said.await(t, "there is a certificate")
	ours := []tls.Certificate{callers.Pair(t, certstest.Leaf{})}
	leaf, err := shake(t, port, &tls.Config{RootCAs: a.roots(t), ServerName: name, Certificates: ours})
	if err != nil || leaf.DNSNames[0] != name {
		t.Fatalf("%v", err)
	}
	if _, err := shake(t, port, &tls.Config{RootCAs: a.roots(t), ServerName: "other.test", Certificates: ours}); err == nil {
		t.Error("it has a certificate for a name that is not its own")
	}
	files, err := os.ReadDir(cache)
	if err != nil || len(files) == 0 {
		t.Fatalf("%v in the folder, %v", files, err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", f.Name(), info.Mode(), err)
		}
	}
	a.front.Close()
	again, said := serve(t, a, cache, "")
	said.await(t, "there is a certificate")
	second, err := shake(t, again, &tls.Config{RootCAs: a.roots(t), ServerName: name})
	if err != nil || second.SerialNumber.Cmp(leaf.SerialNumber) != 0 {
		t.Errorf("another certificate: %v", err)
	}
}

// TestACMERefuses checks that a server that cannot prove its name gets no certificate, logs
// that, and answers no call.
func TestACMERefuses(t *testing.T) {
	a := newAuthority(t)
	port, said := serve(t, a, t.TempDir(), "")
	a.serve(t, 1) // on a port that the authority does not reach
	said.await(t, "no certificate could be obtained")
	if _, err := shake(t, port, &tls.Config{InsecureSkipVerify: true, ServerName: name}); err == nil {
		t.Error("it shows a certificate")
	}
}
