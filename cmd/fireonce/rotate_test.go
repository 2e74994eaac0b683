package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
)

// TestRotateBesideServers replaces the sealing key while a server runs that was started
// with the old key only. The server must continue to send, with the same credential, and
// must accept a new client's key immediately.
func TestRotateBesideServers(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	dir := memdir.New(t)
	database, keyFile := pgtest.New(t), filepath.Join(dir, "sealing.key")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(waiting(t), binary, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("fireonce %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	serve := func() *process {
		t.Helper()
		p, err := startProcess(binary, dir, os.Environ(), "--dev", "--database", database, "--key-file", keyFile, "--listen", "127.0.0.1:0", "--require-api-key")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	s := &spill{t: t}
	target := s.target("ok", func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusOK) })
	before := serve()
	key := regexp.MustCompile(`fo_\S{66}`).FindString(run("apikeys", "create", "--database", database, "--scopes", "all"))
	api, err := client.Dial(before.url, key)
	if err != nil {
		t.Fatal(err)
	}
	made, err := api.Connections.CreateConnection(waiting(t), &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "c", Connection: &connectionsv1.Connection{Connector: "http", Settings: noDedupe(target.URL)},
		Credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: planted["bearer"]}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"--database", database, "--key-file", keyFile}
	old := regexp.MustCompile(`([0-9a-f]{16}) +1 +seals`).FindStringSubmatch(run(append([]string{"keys", "list"}, keys...)...))
	if old == nil {
		t.Fatal("no key seals the credential")
	}
	run("keys", "generate", "--key-file", keyFile)
	out := run(append([]string{"keys", "rotate"}, keys...)...)
	if !strings.Contains(out, "sealed 1 credentials") || !strings.Contains(out, old[1]+"  0 ") {
		t.Errorf("rotate: %s", out)
	}
	want := 0
	send := func(url, name string) {
		t.Helper()
		api, err := client.Dial(url, key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = api.Jobs.ScheduleJob(waiting(t), &fireoncev1.ScheduleJobRequest{
			IdempotencyKey: name, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: made.GetConnection().GetConnectionId()},
			Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: &fireoncev1.HttpRequest{Url: target.URL}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		want++
		if h, err := settle(waiting(t), t, api, want); err != nil {
			t.Fatal(err, h.events)
		}
	}
	// Only the earlier server runs: it finds the new key in the file.
	send(before.url, "first")
	after := serve()
	if err := before.stop(); err != nil {
		t.Error(err)
	}
	run(append([]string{"keys", "remove", old[1]}, keys...)...)
	send(after.url, "second")
	if n := strings.Count(target.sent(), "Bearer "+planted["bearer"]); n != want {
		t.Errorf("%d requests with the credential, want %d", n, want)
	}
	if bytes.Contains([]byte(before.logs()+after.logs()), []byte(key)) {
		t.Error("a log has the key of a client")
	}
}
