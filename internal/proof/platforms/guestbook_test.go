package platforms_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/remote/remotetest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// buildGuestbook builds the connector in Go. It is another module, and another program
// than this test: both have generated code of the same contract.
func buildGuestbook(t *testing.T) (binary string) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	// What the compiler reads is opened here too, so that `go test` takes no result from
	// its cache when one of these files has changed.
	for _, dir := range []string{"examples/connector-go", "examples/go.work", "clients/go"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	binary = filepath.Join(t.TempDir(), "connector-go")
	out, err := exec.Command("go", "-C", filepath.Join(root, "examples", "connector-go"), "build", "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func signature(t testing.TB, text string) *fireoncev1.Payload {
	t.Helper()
	data, err := json.Marshal(map[string]string{"name": "Ada", "text": text})
	if err != nil {
		t.Fatal(err)
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{Schema: "guestbook.entry/v1", Data: data}}}
}

// TestGuestbookConformance: the suite of all connectors, with the example's own answers to
// the questions before an attempt.
func TestGuestbookConformance(t *testing.T) {
	url := startExample(t, buildGuestbook(t), "--book", filepath.Join(t.TempDir(), "book"))
	remotetest.Run(t, remotetest.Service{
		Class: job.Observable, Payload: signature(t, "I was here"),
		Dial: func(tb testing.TB) *remote.Connector {
			tb.Helper()
			return dialGuests(tb, loopbackSender(tb), url)
		},
	}, false)
}

// The connector in Go, of class OBSERVABLE: an engine, a database, and a network that loses
// calls and answers between Fireonce and the program. The book has each entry once.
func TestGuestbook(t *testing.T) {
	t.Parallel()
	binary := buildGuestbook(t)
	method := func(name string) func(faultproxy.Request) bool {
		return func(r faultproxy.Request) bool {
			return r.Path == "/fireonce.connector.v1.ConnectorService/"+name
		}
	}
	platforms.Run(t, func(t *testing.T) platforms.Platform {
		t.Helper()
		book := filepath.Join(t.TempDir(), "guests.jsonl")
		return platforms.Platform{
			URL: startExample(t, binary, "--book", book), Class: job.Observable, Credential: bearer("first"), Renewed: bearer("second"),
			Connector: func(s *transport.Sender, baseURL string) connector.Connector { return dialGuests(t, s, baseURL) },
			Settings:  func(string) []byte { return nil },
			Payload:   func(text string) *fireoncev1.Payload { return signature(t, text) },
			Commits:   method("Publish"),
			Asks:      method("Watermark"),
			Effects:   func(text string) []string { return entries(t, book, text) },
			Unauthorized: says(t, &connectorv1.WatermarkResponse{Result: &connectorv1.WatermarkResponse_Refused{
				Refused: &connectorv1.Refusal{Kind: connectorv1.Refusal_KIND_AUTH, Message: "says the test"},
			}}),
			Refused: says(t, refuses(connectorv1.Refusal_KIND_PERMANENT, 0)),
			Limited: func(wait time.Duration) faultproxy.Fate {
				return says(t, refuses(connectorv1.Refusal_KIND_RATE_LIMITED, wait))
			},
		}
	})
}
