package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rpc "connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/certs/certstest"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// secured is a server with TLS on both ports.
type secured struct {
	*process
	dir  string
	ca   *certstest.CA
	pair certs.Pair
	// grpc is the address of the second port.
	grpc string
}

var grpcAddress = regexp.MustCompile(`, gRPC ([^,]+),`)

// startSecured starts a server with a certificate and further flags.
func startSecured(t *testing.T, l certstest.Leaf, flags ...string) *secured {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{dir: memdir.New(t)}
	s.ca = certstest.NewCA(t, s.dir, "test")
	s.pair = certs.Pair{Cert: filepath.Join(s.dir, "cert.pem"), Key: filepath.Join(s.dir, "key.pem")}
	s.ca.Issue(t, s.pair.Cert, s.pair.Key, l)
	flags = append([]string{"--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--tls-cert", s.pair.Cert, "--tls-key", s.pair.Key}, flags...)
	if s.process, err = startProcess(binary, s.dir, os.Environ(), flags...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	s.grpc = grpcAddress.FindStringSubmatch(s.line)[1]
	return s
}

// clientPair writes a certificate for a client.
func (s *secured) clientPair(t *testing.T, ca *certstest.CA, l certstest.Leaf) certs.Pair {
	t.Helper()
	dir := t.TempDir()
	p := certs.Pair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	ca.Issue(t, p.Cert, p.Key, l)
	return p
}

// calls makes one call on each port, with the client's files.
func (s *secured) calls(t *testing.T, files certs.Client) (web, native error) {
	t.Helper()
	api, err := client.DialTLS(s.url, "", files)
	if err != nil {
		t.Fatal(err)
	}
	_, web = api.Jobs.ListJobs(waiting(t), &fireoncev1.ListJobsRequest{})
	secure, err := files.Config(certs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(credentials.NewTLS(secure)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, native = fireoncev1grpc.NewJobServiceClient(conn).ListJobs(waiting(t), &fireoncev1.ListJobsRequest{})
	return web, native
}

// refuses checks that calls fail on both ports, and that the error names the cause.
func (s *secured) refuses(t *testing.T, files certs.Client, words string) {
	t.Helper()
	web, native := s.calls(t, files)
	for port, err := range map[string]error{"main": web, "gRPC": native} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the %s port: %v; want %q", port, err, words)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

func (s *secured) serves(t *testing.T, files certs.Client) {
	t.Helper()
	if web, native := s.calls(t, files); web != nil || native != nil {
		t.Errorf("main port: %v, gRPC port: %v", web, native)
	}
}

// TestTLS checks that both ports serve only with TLS, and that a client refuses a server whose
// authority it does not trust.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := startSecured(t, certstest.Leaf{})
	if !strings.HasPrefix(s.url, "https://") {
		t.Errorf("the ready line says %s", s.line)
	}
	s.serves(t, certs.Client{CA: s.ca.File})
	s.refuses(t, certs.Client{}, "certificate signed by unknown authority")
	s.refuses(t, certs.Client{CA: certstest.NewCA(t, t.TempDir(), "other").File}, "certificate signed by unknown authority")

	// Without TLS neither port answers, except for net/http's hint.
	if _, err := dial(t, strings.Replace(s.url, "https", "http", 1)).Jobs.ListJobs(waiting(t), &fireoncev1.ListJobsRequest{}); err == nil {
		t.Error("a call without TLS was answered")
	}
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fireoncev1grpc.NewJobServiceClient(conn).ListJobs(waiting(t), &fireoncev1.ListJobsRequest{}); err == nil {
		t.Error("a gRPC call without TLS was answered")
	}
	// The main port supports gRPC too.
	both, err := grpc.NewClient(strings.TrimPrefix(s.url, "https://"), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12})))
	if err != nil {
		t.Fatal(err)
	}
	defer both.Close()
	if _, err := fireoncev1grpc.NewJobServiceClient(both).ListJobs(waiting(t), &fireoncev1.ListJobsRequest{}); err != nil {
		t.Errorf("gRPC on the main port: %v", err)
	}
}

// TestTLSProtocols checks that the main port supports HTTP/2 and HTTP/1.1, as the client asks,
// and the second port only HTTP/2.
func TestTLSProtocols(t *testing.T) {
	long(t)
	t.Parallel()
	s := startSecured(t, certstest.Leaf{})
	web := strings.TrimPrefix(s.url, "https://")
	for _, c := range []struct {
		address string
		offered []string
		want    string
	}{
		{web, []string{"h2", "http/1.1"}, "h2"}, {web, []string{"http/1.1"}, "http/1.1"}, {web, nil, ""},
		{s.grpc, []string{"h2", "http/1.1"}, "h2"},
	} {
		conn, err := tls.Dial("tcp", c.address, &tls.Config{RootCAs: s.ca.Pool(), NextProtos: c.offered, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Errorf("%v at %s: %v", c.offered, c.address, err)
			continue
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != c.want {
			t.Errorf("%v at %s: it speaks %q, want %q", c.offered, c.address, got, c.want)
		}
		conn.Close()
	}
	conn, err := tls.Dial("tcp", s.grpc, &tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12})
	if err == nil { // closed after the handshake
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
	}
	if err == nil {
		t.Error("the gRPC port serves a client that does not speak HTTP/2")
	}
	s.says(t, "the client did not offer the protocol h2")
}

// TestTLSWrongCertificates checks that a client refuses a server whose certificate has expired,
// is not valid yet, or is for another name, and that the server starts with a warning.
func TestTLSWrongCertificates(t *testing.T) {
	long(t)
	t.Parallel()
	for name, c := range map[string]struct {
		leaf       certstest.Leaf
		said, logs string
	}{
		"expired":       {certstest.Leaf{From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)}, "certificate has expired", "callers will refuse this server"},
		"not yet valid": {certstest.Leaf{From: time.Now().Add(30 * time.Minute)}, "not yet valid", "callers will refuse this server"},
		"another name":  {certstest.Leaf{Names: []string{"other.example"}}, "127.0.0.1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSecured(t, c.leaf)
			s.refuses(t, certs.Client{CA: s.ca.File}, c.said)
			if !strings.Contains(s.logs(), c.logs) {
				t.Errorf("it did not say %q:\n%s", c.logs, s.logs())
			}
			// A valid one is used without a restart.
			s.ca.Issue(t, s.pair.Cert, s.pair.Key, certstest.Leaf{})
			if err := s.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			s.says(t, "files for TLS were read again")
			s.serves(t, certs.Client{CA: s.ca.File})
		})
	}
}

// TestClientCertificates checks that with authorities for callers, a call on either port needs a
// certificate of one of them, and its API key too.
func TestClientCertificates(t *testing.T) {
	long(t)
	t.Parallel()
	dir := t.TempDir()
	callers := certstest.NewCA(t, dir, "callers")
	s := startSecured(t, certstest.Leaf{}, "--tls-client-ca", callers.File)
	good := s.clientPair(t, callers, certstest.Leaf{Names: []string{"ada"}})
	s.serves(t, certs.Client{CA: s.ca.File, Pair: good})
	for name, c := range map[string]struct {
		pair certs.Pair
		said string
	}{
		"none":          {certs.Pair{}, "client didn't provide a certificate"},
		"of another":    {s.clientPair(t, s.ca, certstest.Leaf{}), "certificate signed by unknown authority"},
		"expired":       {s.clientPair(t, callers, certstest.Leaf{From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour)}), "is after"},
		"not yet valid": {s.clientPair(t, callers, certstest.Leaf{From: time.Now().Add(30 * time.Minute)}), "is before"},
	} {
		t.Run(name, func(t *testing.T) {
			// The client may see only a closed connection.
			s.refuses(t, certs.Client{CA: s.ca.File, Pair: c.pair}, "")
			s.says(t, c.said)
		})
	}
	if !strings.Contains(s.line, "client certificate") {
		t.Errorf("the ready line says %s", s.line)
	}

	keyed := startSecured(t, certstest.Leaf{}, "--tls-client-ca", callers.File, "--require-api-key")
	web, native := keyed.calls(t, certs.Client{CA: keyed.ca.File, Pair: good})
	if rpc.CodeOf(web) != rpc.CodeUnauthenticated || !strings.Contains(errorText(native), "Unauthenticated") {
		t.Errorf("a certificate stands for a key: %v, %v", web, native)
	}
}

// TestReloadLosesNoCall checks that no call fails while certificates are replaced repeatedly,
// with new connections, kept ones and an open stream.
func TestReloadLosesNoCall(t *testing.T) {
	long(t)
	t.Parallel()
	s := startSecured(t, certstest.Leaf{Names: []string{"127.0.0.1", "round-0"}})
	files := certs.Client{CA: s.ca.File}
	kept, err := client.DialTLS(s.url, "", files)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := kept.Jobs.StreamJobEvents(waiting(t), &fireoncev1.StreamJobEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Fatal(stream.Err())
	}
	fresh := fireoncev1connect.NewJobServiceClient(&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS12},
	}}, s.url)

	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	var made atomic.Int64
	for range 4 {
		for _, jobs := range []fireoncev1connect.JobServiceClient{kept.Jobs, fresh} {
			callers.Go(func() {
				for ctx.Err() == nil {
					if _, err := jobs.ListJobs(waiting(t), &fireoncev1.ListJobsRequest{}); err != nil {
						t.Errorf("a call failed: %v", err)
						return
					}
					made.Add(1)
				}
			})
		}
	}
	// Reloads by the signal and by the change of the files alone, with invalid files between.
	for round, hint := range []bool{true, false, true, false} {
		before := made.Load()
		name := "round-" + string(rune('1'+round))
		if err := os.WriteFile(s.pair.Cert, []byte("half of a fi"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.hangs(t, "cannot be used")
		s.ca.Issue(t, s.pair.Cert, s.pair.Key, certstest.Leaf{Names: []string{"127.0.0.1", name}})
		if hint {
			if err := s.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		s.shows(t, name)
		for made.Load() < before+50 && !t.Failed() {
			runtime.Gosched() // until the callers have seen the new one
		}
	}
	stop()
	callers.Wait()
	id, err := kept.Jobs.ScheduleJob(waiting(t), hook(connect(t, kept, false), "k", "https://example.invalid/", time.Minute))
	if err != nil || !stream.Receive() || stream.Msg().GetEvent().GetJobChanged().GetJobId() != id.GetJob().GetJobId() {
		t.Errorf("the stream that was open all the time: %v, %v", err, stream.Err())
	}
	t.Logf("%d calls", made.Load())
}

// hangs sends SIGHUP and waits until the server has logged words once more.
func (s *secured) hangs(t *testing.T, words string) {
	t.Helper()
	before := strings.Count(s.logs(), words)
	if err := s.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for strings.Count(s.logs(), words) == before {
		select {
		case <-s.said:
		case <-waiting(t).Done():
			t.Fatalf("it never said %q again", words)
		}
	}
}

// shows makes handshakes until the server's certificate has the name, on both ports.
func (s *secured) shows(t *testing.T, name string) {
	t.Helper()
	for _, address := range []string{strings.TrimPrefix(s.url, "https://"), s.grpc} {
		for seen := false; !seen; {
			d := &tls.Dialer{Config: &tls.Config{RootCAs: s.ca.Pool(), NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}}
			conn, err := d.DialContext(waiting(t), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			names := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames
			conn.Close()
			seen = names[0] == name
		}
	}
}

// TestTLSOfCommands checks that the commands accept the files as flags and as variables, and warn
// if a key is sent unencrypted.
func TestTLSOfCommands(t *testing.T) {
	long(t)
	t.Parallel()
	callers := certstest.NewCA(t, t.TempDir(), "callers")
	s := startSecured(t, certstest.Leaf{}, "--tls-client-ca", callers.File)
	pair := s.clientPair(t, callers, certstest.Leaf{})
	with := []string{"--server", s.url, "--ca-file", s.ca.File, "--client-cert", pair.Cert, "--client-key", pair.Key}
	for _, args := range [][]string{{"list"}, {"keys", "list"}, {"apikeys", "list"}, {"stats"}} {
		if out, code := command(t, append(args, with...)...); code != 0 {
			t.Errorf("%v: %d, %s", args, code, out)
		}
	}
	if out, code := command(t, "list", "--server", s.url, "--client-cert", pair.Cert, "--client-key", pair.Key); code != 5 || !strings.Contains(out, "unknown authority") {
		t.Errorf("without --ca-file: %d, %s", code, out)
	}
	if out, code := command(t, "list", "--server", s.url, "--ca-file", s.ca.File, "--client-cert", pair.Cert); code != 2 {
		t.Errorf("half a pair: %d, %s", code, out)
	}
	if out, code := command(t, "list", "--server", "http://127.0.0.1:1", "--ca-file", s.ca.File); code != 2 || !strings.Contains(out, "https://") {
		t.Errorf("files for a server without TLS: %d, %s", code, out)
	}
	if out, code := command(t, "list", "--server", s.url, "--ca-file", pair.Key); code != 2 || !strings.Contains(out, "no certificate in PEM form") {
		t.Errorf("a key as --ca-file: %d, %s", code, out)
	}
	for _, args := range [][]string{
		{"--tls-cert", pair.Cert}, {"--tls-key", pair.Key}, {"--tls-client-ca", callers.File},
		{"--acme-domain", "fireonce.example.org"}, {"--acme-domain", "fireonce.example.org", "--acme-cache", s.dir},
		{"--acme-cache", s.dir}, {"--acme-domain", "localhost", "--acme-cache", s.dir, "--acme-accept-terms"},
		{"--acme-domain", "fireonce.example.org", "--acme-cache", s.dir, "--acme-accept-terms", "--acme-directory", "http://127.0.0.1:1"},
		{"--acme-domain", "fireonce.example.org", "--acme-cache", s.dir, "--acme-accept-terms", "--tls-cert", pair.Cert, "--tls-key", pair.Key},
		{"--shutdown-delay", "-1s"}, {"--shutdown-delay", "11m"},
	} {
		if out, code := command(t, append([]string{"serve", "--database", "sqlite:" + filepath.Join(t.TempDir(), "db"), "--listen", "127.0.0.1:0"}, args...)...); code != 2 {
			t.Errorf("serve %v: %d, %s", args, code, out)
		}
	}
	for entry, words := range map[string]string{
		`{"name": "own", "url": "https://127.0.0.1:1", "client_cert_file": "` + pair.Cert + `"}`: "go together",
		`{"name": "own", "url": "http://127.0.0.1:1", "ca_file": "` + callers.File + `"}`:        "starts with https://",
	} {
		out, code := command(t, "serve", "--database", "sqlite:"+filepath.Join(t.TempDir(), "db"), "--listen", "127.0.0.1:0",
			"--connectors", connectorsFile(t, entry))
		if code != 1 || !strings.Contains(out, `connectors[0] "own": `) || !strings.Contains(out, words) {
			t.Errorf("serve with %s: %d, %s", entry, code, out)
		}
	}
}

// TestKeysInTheClear checks that a server warns about a port beyond loopback without TLS, and not
// with TLS, and that a command warns about a key that it sends unencrypted to another machine.
func TestKeysInTheClear(t *testing.T) {
	long(t)
	t.Parallel()
	with := startSecured(t, certstest.Leaf{}, "--listen", "0.0.0.0:0", "--require-api-key")
	if err := with.stop(); err != nil || strings.Contains(with.logs(), "in the clear") {
		t.Errorf("it warns although it has TLS:\n%s", with.logs())
	}
	without, err := startProcess(with.Program(), memdir.New(t), os.Environ(), "--listen", "0.0.0.0:0", "--require-api-key",
		"--allow-http", "--connectors", connectorsFile(t, `{"name": "own", "url": "http://connector.invalid:1"}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(without.Kill)
	if err := without.stop(); err != nil {
		t.Error(err)
	}
	for _, words := range []string{"--listen 0.0.0.0:0: this port has no TLS", "--tls-cert", "connector own: credentials and payloads go to http://connector.invalid:1 in the clear"} {
		if !strings.Contains(without.logs(), words) {
			t.Errorf("it does not say %q:\n%s", words, without.logs())
		}
	}
	for server, warns := range map[string]bool{"http://server.invalid:1": true, "https://server.invalid:1": false, "http://127.0.0.1:1": false} {
		list := exec.CommandContext(waiting(t), with.Program(), "list", "--server", server)
		list.Env = append(os.Environ(), "FIREONCE_API_KEY=operator-0123456789")
		out, err := list.CombinedOutput()
		if got := strings.Contains(string(out), "the API key goes to "+server+" in the clear"); err == nil || got != warns {
			t.Errorf("a key to %s: %v, %s", server, err, out)
		}
	}
}

// TestConnectorWithCertificates checks that a remote connector that demands a certificate can be
// called only with the right one, and also after its renewal.
func TestConnectorWithCertificates(t *testing.T) {
	long(t)
	t.Parallel()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	dir := t.TempDir()
	ca, callers := certstest.NewCA(t, dir, "connector"), certstest.NewCA(t, dir, "callers")
	_, handler := connectorv1connect.NewConnectorServiceHandler(&guests{tokens: make(map[string]bool)})
	own := httptest.NewUnstartedServer(handler)
	own.TLS = &tls.Config{
		Certificates: []tls.Certificate{ca.Pair(t, certstest.Leaf{})}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: callers.Pool(), MinVersion: tls.VersionTLS12,
	}
	own.StartTLS()
	t.Cleanup(own.Close)
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certstest.NewCA(t, dir, "others").Issue(t, cert, key, certstest.Leaf{})
	binary, err := exec.LookPath("fireonce")
	if err != nil {
		t.Fatal(err)
	}
	start := func(files string) *process {
		p, err := startProcess(binary, memdir.New(t), os.Environ(), "--listen", "127.0.0.1:0",
			"--connectors", connectorsFile(t, `{"name": "guests", "url": "`+own.URL+`"`+files+`}`))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	stranger := start("")
	stranger.says(t, "is not trusted")
	p := start(`, "ca_file": "` + ca.File + `", "client_cert_file": "` + cert + `", "client_key_file": "` + key + `"`)
	p.says(t, "a connector does not answer; its jobs wait")
	callers.Issue(t, cert, key, certstest.Leaf{})
	p.says(t, "a connector answers")
}

// TestHandshakeLogIsBounded checks that failing handshakes cannot fill the disk with log lines.
func TestHandshakeLogIsBounded(t *testing.T) {
	long(t)
	t.Parallel()
	s := startSecured(t, certstest.Leaf{})
	const tries = 300
	for _, address := range []string{strings.TrimPrefix(s.url, "https://"), s.grpc} {
		for range tries {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write([]byte("no TLS at all\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Read(make([]byte, 1)) // until it is answered or closed
			conn.Close()
		}
	}
	s.serves(t, certs.Client{CA: s.ca.File})
	if lines := strings.Count(s.logs(), "andshake"); lines == 0 || lines > tries {
		t.Errorf("%d lines of %d failures", lines, 2*tries)
	}
}

// operations calls the operations listener with a scheme, on 127.0.0.1.
func (s *secured) operations(t *testing.T, scheme string, files certs.Client) (status int, err error) {
	t.Helper()
	found := opsURL.FindStringSubmatch(s.line)
	if found == nil {
		t.Fatalf("no operations listener: %s", s.line)
	}
	_, port, err := net.SplitHostPort(found[1])
	if err != nil {
		t.Fatal(err)
	}
	secure, err := files.Config(certs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(waiting(t), http.MethodGet, scheme+"://127.0.0.1:"+port+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: secure}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return 0, err
	}
	res.Body.Close()
	return res.StatusCode, nil
}

// TestTLSOfOperations checks that beyond loopback the operations listener uses the server's TLS,
// with callers' certificates if they are required, and that on loopback it uses none.
func TestTLSOfOperations(t *testing.T) {
	long(t)
	t.Parallel()
	callers := certstest.NewCA(t, t.TempDir(), "callers")
	open := startSecured(t, certstest.Leaf{}, "--ops-listen", "0.0.0.0:0")
	if status, err := open.operations(t, "https", certs.Client{CA: open.ca.File}); err != nil || status != http.StatusOK {
		t.Errorf("by TLS: %d, %v", status, err)
	}
	if status, err := open.operations(t, "http", certs.Client{}); err == nil && status == http.StatusOK {
		t.Error("metrics are served in the clear")
	}
	if words := "whoever reaches this port reads metrics"; !strings.Contains(open.logs(), words) {
		t.Errorf("it does not say %q:\n%s", words, open.logs())
	}

	closed := startSecured(t, certstest.Leaf{}, "--ops-listen", "0.0.0.0:0", "--tls-client-ca", callers.File)
	if _, err := closed.operations(t, "https", certs.Client{CA: closed.ca.File}); err == nil {
		t.Error("metrics are served to a caller without a certificate")
	}
	own := closed.clientPair(t, callers, certstest.Leaf{Names: []string{"prometheus"}})
	if status, err := closed.operations(t, "https", certs.Client{CA: closed.ca.File, Pair: own}); err != nil || status != http.StatusOK {
		t.Errorf("with a certificate: %d, %v", status, err)
	}
	if strings.Contains(closed.logs(), "whoever reaches this port reads metrics") {
		t.Errorf("it warns although callers show certificates:\n%s", closed.logs())
	}

	here := startSecured(t, certstest.Leaf{}, "--ops-listen", "127.0.0.1:0", "--tls-client-ca", callers.File)
	if status, err := here.operations(t, "http", certs.Client{}); err != nil || status != http.StatusOK {
		t.Errorf("on loopback: %d, %v", status, err)
	}
}
