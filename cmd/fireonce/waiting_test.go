package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	rpc "connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
)

var notReadyAt = regexp.MustCompile(`not_ready_at=(http://\S+)`)

// waitingServer returns a server whose PostgreSQL is stopped, once it has logged that.
func waitingServer(t *testing.T, args ...string) (*pgtest.Cluster, *process) {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	c := pgtest.Start(t, pgtest.Options{})
	url := c.URL(c.NewDatabase(t))
	c.Stop(t, pgtest.Fast)
	dir := memdir.New(t)
	p, err := spawn(binary, dir, os.Environ(), append([]string{
		"--dev", "--listen", "127.0.0.1:0", "--database", url, "--key-file", filepath.Join(dir, "key"),
	}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	p.says(t, "waiting for the database")
	return c, p
}

// TestServeWaitsForItsDatabase checks that a server that starts before its PostgreSQL listens,
// reports everywhere that it is not ready, and becomes ready by itself.
func TestServeWaitsForItsDatabase(t *testing.T) {
	long(t)
	t.Parallel()
	c, p := waitingServer(t)
	found := notReadyAt.FindStringSubmatch(p.logs())
	if found == nil {
		t.Fatalf("the log names no address:\n%s", p.logs())
	}
	url := found[1]
	landing := func() (int, string) {
		resp, err := http.Get(url + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	conn, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	health := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		res, err := grpc_health_v1.NewHealthClient(conn).Check(waiting(t), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return res.GetStatus()
	}

	if code, body := landing(); code != http.StatusServiceUnavailable || !strings.Contains(body, "the database is not open yet") {
		t.Errorf("GET / answers %d: %s", code, body)
	}
	if got := health(); got != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health is %v", got)
	}
	_, err = dial(t, url).Stats.GetStats(waiting(t), &adminv1.GetStatsRequest{})
	if rpc.CodeOf(err) != rpc.CodeUnavailable || reasonOf(err) != fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE {
		t.Errorf("a call over Connect: %v", err)
	}
	err = conn.Invoke(waiting(t), "/fireonce.admin.v1.StatsService/GetStats", &adminv1.GetStatsRequest{}, &adminv1.GetStatsResponse{})
	if status.Code(err).String() != "Unavailable" || len(status.Convert(err).Details()) == 0 {
		t.Errorf("a call over gRPC: %v", err)
	}

	c.Start(t)
	if err := p.ready(); err != nil {
		t.Fatal(err)
	}
	p.says(t, "the database is there")
	if code, _ := landing(); code != http.StatusOK {
		t.Errorf("GET / answers %d when ready", code)
	}
	if got := health(); got != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("health is %v when ready", got)
	}
	if _, err := dial(t, p.url).Stats.GetStats(waiting(t), &adminv1.GetStatsRequest{}); err != nil {
		t.Errorf("a call when ready: %v", err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

// TestASignalEndsTheWait checks that a signal shuts a waiting server down.
func TestASignalEndsTheWait(t *testing.T) {
	long(t)
	t.Parallel()
	_, p := waitingServer(t, "--database-wait", "24h")
	if err := p.stop(); err != nil {
		t.Errorf("%v\n%s", err, p.logs())
	}
	p.says(t, "shut down before the server was ready")
}

// TestTheWaitEnds checks that the wait ends after the stated time, and that the error names what
// was missing.
func TestTheWaitEnds(t *testing.T) {
	long(t)
	t.Parallel()
	_, p := waitingServer(t, "--database-wait", "1s")
	select {
	case <-p.Done():
	case <-time.After(patience):
		t.Fatal("it waits on")
	}
	if p.ExitCode() != 1 || !strings.Contains(p.logs(), "waited 1s for the database (--database-wait)") {
		t.Errorf("it ended with %v:\n%s", p.Err(), p.logs())
	}
}

// TestNoWaitForWhatDoesNotPass checks that a fault that only an operator can fix ends the start
// immediately.
func TestNoWaitForWhatDoesNotPass(t *testing.T) {
	long(t)
	t.Parallel()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	c := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"fsync": "off"}})
	unsafe := c.URL(c.NewDatabase(t))
	for words, args := range map[string][]string{
		"does not exist":       {"--database", c.URL("nowhere")},
		"no_such_role":         {"--database", strings.Replace(unsafe, pgtest.Role+"@", "no_such_role@", 1)},
		"fsync is off":         {"--database", unsafe},
		"must not be negative": {"--database", unsafe, "--database-wait", "-1s"},
		"connect":              {"--database", "postgres://ann@127.0.0.1:1/db", "--database-wait", "0"},
	} {
		out, code := command(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--key-file", filepath.Join(t.TempDir(), "key")}, args...)...)
		if code == 0 || !strings.Contains(out, words) || strings.Contains(out, "waiting for the database") {
			t.Errorf("%v: exit %d\n%s", args, code, out)
		}
	}
}
