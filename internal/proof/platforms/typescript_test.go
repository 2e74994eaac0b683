package platforms_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/remote/remotetest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
	"github.com/fireonce/fireonce/internal/proof/proc"
)

// compiled is the connector in TypeScript, compiled once.
var compiled = sync.OnceValues(func() (main string, err error) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return "", err
	}
	example := filepath.Join(root, "examples", "connector-typescript")
	// What tsc reads is opened here too, so that `go test` takes no result from its
	// cache when one of these files has changed.
	for _, pattern := range []string{"package.json", "tsconfig.json", "src/*.ts", "../../gen/ts/fireonce/*/*.ts", "../../gen/ts/fireonce/*/*/*.ts"} {
		files, err := filepath.Glob(filepath.Join(example, pattern))
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				return "", err
			}
		}
	}
	// Below the example, because that is where Node looks for node_modules.
	dist := filepath.Join(example, "dist", "test")
	out, err := exec.Command(filepath.Join(root, "node_modules", ".bin", "tsc"), "-p", example, "--outDir", dist).CombinedOutput()
	if err != nil {
		return "", &exec.Error{Name: string(out), Err: err}
	}
	return filepath.Join(dist, "examples", "connector-typescript", "src", "main.js"), nil
})

// startTypeScript runs the example on a book, and returns its URL.
func startTypeScript(t testing.TB, args ...string) string {
	t.Helper()
	main, err := compiled()
	if err != nil {
		t.Fatalf("%v\nThis test needs Node, and node_modules as package-lock.json has it: `make clients` installs it or says how; "+
			"FIREONCE_SKIP_CLIENTS=1 leaves it out.", err)
	}
	return startExample(t, append([]string{"node", main}, args...)...)
}

// startExample runs a connector in a process of its own, and returns its URL.
func startExample(t testing.TB, command ...string) string {
	t.Helper()
	cmd := exec.Command(command[0], append(command[1:], "--listen", "127.0.0.1:0", "--token", remotetest.Token)...)
	cmd.Stderr = os.Stderr
	p, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	line, err := p.Ready(t.Context(), proc.ReadyBy)
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ := strings.Cut(line, "listening on ")
	return url
}

func skipClients(t *testing.T) {
	t.Helper()
	if os.Getenv("FIREONCE_SKIP_CLIENTS") == "1" {
		t.Skip("FIREONCE_SKIP_CLIENTS=1: the connector in TypeScript is not tested")
	}
}

// TestTypeScriptConformance: the suite of all connectors, with the example's own
// answers to what comes before an attempt.
func TestTypeScriptConformance(t *testing.T) {
	skipClients(t)
	url := startTypeScript(t, "--book", filepath.Join(t.TempDir(), "guests.jsonl"))
	remotetest.Run(t, remotetest.Service{
		Class: job.Keyed, Payload: post("I was here"),
		Dial: func(tb testing.TB) *remote.Connector {
			tb.Helper()
			return dialGuests(tb, loopbackSender(tb), url)
		},
	}, false)
}

func loopbackSender(t testing.TB) *transport.Sender {
	t.Helper()
	s := transport.NewSender(transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	t.Cleanup(s.Close)
	return s
}

// The connector in TypeScript, of class KEYED.
func TestTypeScript(t *testing.T) {
	skipClients(t)
	t.Parallel()
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		book := filepath.Join(t.TempDir(), "guests.jsonl")
		publish := func(r faultproxy.Request) bool { return r.Path == "/fireonce.connector.v1.ConnectorService/Publish" }
		return platforms.Platform{
			URL: startTypeScript(t, "--book", book), Class: job.Keyed, Credential: bearer("first"), Renewed: bearer("second"),
			Connector: func(s *transport.Sender, baseURL string) connector.Connector {
				return dialGuests(t, s, baseURL)
			},
			Settings: func(string) []byte { return nil },
			Payload:  post,
			Commits:  publish, Asks: publish,
			Effects:      func(text string) []string { return entries(t, book, text) },
			Unauthorized: says(t, refuses(connectorv1.Refusal_KIND_AUTH, 0)),
			Refused:      says(t, refuses(connectorv1.Refusal_KIND_PERMANENT, 0)),
			Limited: func(wait time.Duration) faultproxy.Fate {
				return says(t, refuses(connectorv1.Refusal_KIND_RATE_LIMITED, wait))
			},
		}
	})
}

// entries reads a guest book as any visitor would: where the entries with this text
// begin.
func entries(t *testing.T, path, text string) (ids []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for line := range bytes.Lines(data) {
		var e struct{ Text string }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Text == text {
			ids = append(ids, strconv.Itoa(at))
		}
		at += len(line)
	}
	return ids
}
