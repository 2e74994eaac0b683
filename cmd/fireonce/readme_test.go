package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// TestReadme runs the README's marked blocks, one after the other in one shell,
// against a server and a receiver on ports of their own.
func TestReadme(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	for _, tool := range []string{"sh", "curl", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)<!-- readme_test.go runs this block -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 5 {
		t.Fatalf("%d blocks", len(blocks))
	}
	r, err := receiver.Start(receiver.Options{Dedupes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := startNode(t, onSQLite, 0)
	script := "set -e\n"
	for _, b := range blocks {
		script += b[1] + "\n"
	}
	script = strings.NewReplacer(
		"http://127.0.0.1:8080", n.URL(), "http://127.0.0.1:9000/", r.URL("readme"), "go run ./cmd/fireonce", "fireonce",
	).Replace(script)
	cmd := exec.CommandContext(waiting(t), "sh", "-c", script)
	cmd.Env = append(os.Environ(), "FIREONCE_SERVER="+n.URL())
	out, err := cmd.CombinedOutput()
	for _, want := range []string{
		`"idempotencyKey": ?"order-42-paid"`, `"created": ?true`,
		"SENDING → SUCCEEDED", "State +SUCCEEDED, proof RESPONSE", "SUCCEEDED .* order-42-paid",
		`2027-03-28T03:00:00\+02:00 .* SHIFTED`, "t:first .* FIRED", "So far +1 fired",
	} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s", want)
		}
	}
	if effects := r.Effects("readme"); effects != 3 {
		t.Errorf("%d effects", effects)
	}
	if err != nil || t.Failed() {
		t.Errorf("%v\n%s", err, out)
	}
	// The page that a browser sees.
	resp, err := http.Get(n.URL())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}
