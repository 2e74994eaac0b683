package certs

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs/certstest"
)

// bundle is a followed certificate with a clock that the test sets.
type bundle struct {
	ca        *certstest.CA
	pair      Pair
	log       bytes.Buffer
	now       time.Time
	following *Certificate
}

func newBundle(t *testing.T) *bundle {
	t.Helper()
	dir := t.TempDir()
	b := &bundle{
		ca: certstest.NewCA(t, dir, "one"), now: time.Now(),
		pair: Pair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")},
	}
	b.issue(t, certstest.Leaf{Names: []string{"first.example"}})
	var err error
	if b.following, err = FollowPair(b.pair, b.options()); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bundle) options() Options {
	return Options{Log: slog.New(slog.NewTextHandler(&b.log, nil)), Now: func() time.Time { return b.now }}
}

func (b *bundle) issue(t *testing.T, l certstest.Leaf) {
	t.Helper()
	b.ca.Issue(t, b.pair.Cert, b.pair.Key, l)
}

func (b *bundle) serves(t *testing.T, name string) {
	t.Helper()
	if got := Names(b.following.Current().Leaf); got != name {
		t.Errorf("it has the certificate of %s, not of %s", got, name)
	}
}

// TestPairIsFollowed checks that a new pair is used within a second, and that files are not read
// for every handshake.
func TestPairIsFollowed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.issue(t, certstest.Leaf{Names: []string{"second.example"}})
	b.serves(t, "first.example")
	b.now = b.now.Add(checkEvery)
	b.serves(t, "second.example")
	b.issue(t, certstest.Leaf{Names: []string{"third.example"}})
	b.serves(t, "second.example")
	if err := b.following.Reload(); err != nil {
		t.Error(err)
	}
	b.serves(t, "third.example")
}

// TestBadPairReplacesNothing checks that unusable files are logged once, and that the earlier pair
// stays in use until the files are right.
func TestBadPairReplacesNothing(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *bundle){
		"gone":        func(t *testing.T, b *bundle) { remove(t, b.pair.Cert) },
		"no PEM":      func(t *testing.T, b *bundle) { overwrite(t, b.pair.Cert, "hello") },
		"too large":   func(t *testing.T, b *bundle) { overwrite(t, b.pair.Key, strings.Repeat("-", maxFile+1)) },
		"another key": func(t *testing.T, b *bundle) { b.ca.Issue(t, b.pair.Cert+".other", b.pair.Key, certstest.Leaf{}) },
		"expired": func(t *testing.T, b *bundle) {
			b.issue(t, certstest.Leaf{From: b.now.Add(-time.Hour), Until: b.now.Add(-time.Minute)})
		},
		"not yet valid": func(t *testing.T, b *bundle) { b.issue(t, certstest.Leaf{From: b.now.Add(30 * time.Minute)}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t)
			spoil(t, b)
			for range 3 {
				b.now = b.now.Add(checkEvery)
				b.serves(t, "first.example")
			}
			if n := strings.Count(b.log.String(), "cannot be used"); n != 1 {
				t.Errorf("it was said %d times:\n%s", n, &b.log)
			}
			if err := b.following.Reload(); err == nil {
				t.Error("a look that finds nothing usable is no error")
			}
			b.issue(t, certstest.Leaf{Names: []string{"right.example"}})
			b.now = b.now.Add(checkEvery)
			b.serves(t, "right.example")
		})
	}
}

// TestExpiredIsReplaced checks that an expired certificate may be replaced with another expired
// one.
func TestExpiredIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.now = b.now.Add(2 * time.Hour)
	b.issue(t, certstest.Leaf{Names: []string{"second.example"}})
	b.serves(t, "second.example")
}

// TestStartNeedsUsableFiles checks that a start with unusable files fails, and names them.
func TestStartNeedsUsableFiles(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	overwrite(t, b.pair.Key, "hello")
	if _, err := FollowPair(b.pair, b.options()); err == nil || !strings.Contains(err.Error(), b.pair.Key) {
		t.Errorf("%v", err)
	}
	if _, err := FollowAuthorities(b.pair.Key, b.options()); err == nil || !strings.Contains(err.Error(), "no certificate in PEM form") {
		t.Errorf("%v", err)
	}
	for _, half := range []Pair{{Cert: "a"}, {Key: "a"}} {
		if half.Check() == nil {
			t.Errorf("%+v is half a pair", half)
		}
	}
}

// TestAuthoritiesAreFollowed checks that callers of an added authority are accepted, and that
// those of a removed one are refused, even if they had a session.
func TestAuthoritiesAreFollowed(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.issue(t, certstest.Leaf{})
	if err := b.following.Reload(); err != nil {
		t.Fatal(err)
	}
	other := certstest.NewCA(t, t.TempDir(), "two")
	trusted := filepath.Join(t.TempDir(), "trusted.pem")
	use := func(ca *certstest.CA) {
		data, err := os.ReadFile(ca.File)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, trusted, string(data))
	}
	use(b.ca)
	clients, err := FollowAuthorities(trusted, b.options())
	if err != nil {
		t.Fatal(err)
	}
	secure := (&Server{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return b.following.Current(), nil }, Clients: clients}).Config("h2")
	sessions := tls.NewLRUClientSessionCache(8)
	of := func(ca *certstest.CA) *tls.Config {
		return &tls.Config{RootCAs: b.ca.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{ca.Pair(t, certstest.Leaf{})}, ClientSessionCache: sessions, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	}
	mine, theirs := of(b.ca), of(other)
	shaken(t, secure, mine, true)
	shaken(t, secure, theirs, false)
	use(other)
	if err := clients.Reload(); err != nil {
		t.Fatal(err)
	}
	shaken(t, secure, theirs, true)
	shaken(t, secure, mine, false)
}

// TestChallengeNeedsNoCertificate checks that an authority's challenge is answered even if
// callers need certificates, and that such a handshake cannot carry a request.
func TestChallengeNeedsNoCertificate(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.issue(t, certstest.Leaf{})
	if err := b.following.Reload(); err != nil {
		t.Fatal(err)
	}
	clients, err := FollowAuthorities(b.ca.File, b.options())
	if err != nil {
		t.Fatal(err)
	}
	const question = "acme-tls/1"
	secure := (&Server{
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return b.following.Current(), nil }, Clients: clients,
		Challenge: func(h *tls.ClientHelloInfo) bool {
			return len(h.SupportedProtos) == 1 && h.SupportedProtos[0] == question
		},
		ChallengeProtocols: []string{question},
	}).Config("h2")
	asking := func(protocols ...string) *tls.Config {
		return &tls.Config{RootCAs: b.ca.Pool(), ServerName: "localhost", NextProtos: protocols, MinVersion: tls.VersionTLS12}
	}
	if got := shaken(t, secure, asking(question), true); got != question {
		t.Errorf("it speaks %q", got)
	}
	shaken(t, secure, asking("h2", question), false)
	shaken(t, secure, asking(), false)
}

// shaken makes a handshake, as the server sees it, and returns the protocol.
func shaken(t *testing.T, server, client *tls.Config, want bool) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := tls.Dial("tcp", l.Addr().String(), client)
		if err == nil {
			// In TLS 1.3 a client sees the refusal only after the handshake.
			_, _ = conn.Read(make([]byte, 1))
			conn.Close()
		}
		done <- err
	}()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	secured := conn.(*tls.Conn)
	err = secured.HandshakeContext(t.Context())
	protocol := secured.ConnectionState().NegotiatedProtocol
	conn.Close()
	<-done
	if (err == nil) != want {
		t.Errorf("the handshake ended with %v", err)
	}
	return protocol
}

// TestNoOldProtocol checks that versions below TLS 1.2 are refused.
func TestNoOldProtocol(t *testing.T) {
	t.Parallel()
	b := newBundle(t)
	b.issue(t, certstest.Leaf{})
	if err := b.following.Reload(); err != nil {
		t.Fatal(err)
	}
	secure := (&Server{Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return b.following.Current(), nil }}).Config("h2")
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		shaken(t, secure, &tls.Config{RootCAs: b.ca.Pool(), ServerName: "localhost", MinVersion: version, MaxVersion: version}, want)
	}
}

func overwrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}
