package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// beginner is a user who follows a page: an empty home directory, and a server and a receiver
// that the page's commands start, on ports of their own.
type beginner struct {
	page     string
	home     string
	env      []string
	server   *process
	receiver *process
}

// begin starts the programs that a page asks to start, and `fireonce serve --dev` if the page
// assumes it.
func begin(t *testing.T, page string) *beginner {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	b := &beginner{page: page, home: memdir.New(t)}
	b.env = []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH")}
	serve := []string{"--dev"}
	var starts string
	if slices.Contains(consumed[page], readmeStarts) {
		starts = strings.Join(marked(t, page, readmeStarts), "")
	}
	for line := range strings.Lines(starts) {
		words := strings.Fields(line)
		switch {
		case words[0] == "fireonce" && words[1] == "serve":
			serve = words[2:]
		case words[0] == "fireonce" && words[1] == "listen":
			b.receiver = b.listen(t, binary, words[2:])
		default:
			t.Fatalf("%s starts %q, and this test does not", page, line)
		}
	}
	b.server, err = startProcess(binary, b.home, b.env, append(serve, "--listen", "127.0.0.1:0", "--ops-listen", "off")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.server.Kill)
	return b
}

func (b *beginner) listen(t *testing.T, binary string, args []string) *process {
	t.Helper()
	p, err := startListener(binary, b.home, b.env, append([]string{"listen", "--addr", "127.0.0.1:0"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// follow runs the page's blocks, one after the other in one shell, and returns their output.
// It checks that the output contains the outputs that the page shows.
func (b *beginner) follow(t *testing.T) string {
	t.Helper()
	places := []string{"http://127.0.0.1:8080", b.server.url}
	if b.receiver != nil {
		places = append(places, "http://127.0.0.1:9000", b.receiver.url)
	}
	script := strings.NewReplacer(places...).Replace("set -e\n" + strings.Join(marked(t, b.page, readmeRuns), "\n"))
	cmd := exec.CommandContext(waiting(t), "sh", "-c", script)
	cmd.Dir, cmd.Env = b.home, append(b.env, "FIREONCE_SERVER="+b.server.url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	if slices.Contains(consumed[b.page], readmeCompares) {
		for _, printed := range marked(t, b.page, readmeCompares) {
			comparePrinted(t, b.page, printed, string(out))
		}
	}
	return string(out)
}

// TestReadme follows the README from the start of the service to an attempt with a lost answer.
// The outputs in the README must be the real ones.
func TestReadme(t *testing.T) {
	t.Parallel()
	b := begin(t, readmePage)
	out := b.follow(t)
	if !regexp.MustCompile(`(?s)SENDING → AMBIGUOUS .*AMBIGUOUS → SENDING .*SENDING → SUCCEEDED`).MatchString(out) {
		t.Errorf("no lost answer was survived:\n%s", out)
	}
	for _, printed := range marked(t, readmePage, readmeReceives) {
		comparePrinted(t, readmePage, printed, b.receiver.logs())
	}
	for _, printed := range marked(t, readmePage, readmeServes) {
		comparePrinted(t, readmePage, printed, b.server.logs())
	}
	// The page that a browser sees.
	resp, err := http.Get(b.server.url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}

// TestPages follows the pages that need a server, and perhaps a receiver.
func TestPages(t *testing.T) {
	for page, wants := range map[string][]string{
		conceptsPage:   {"SENDING → AMBIGUOUS"},
		givingUpPage:   {"Retries +20 attempts; for 3d", "Unacted +503 X-Refused-By: edge"},
		comingFromPage: {"SENDING → SUCCEEDED", `Valid\.`, "Key +welcome:user-42(?s:.*)Key +welcome:user-42"},
	} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			out := begin(t, page).follow(t)
			for _, want := range wants {
				if !regexp.MustCompile(want).MatchString(out) {
					t.Errorf("no %s in\n%s", want, out)
				}
			}
		})
	}
}

// TestQuickstart follows docs/quickstart.md.
func TestQuickstart(t *testing.T) {
	long(t)
	t.Parallel()
	b := begin(t, quickstartPage)
	out := b.follow(t)
	for _, want := range []string{
		`"idempotencyKey": ?"order-43-paid"`, `"created": ?true`,
		"SENDING → SUCCEEDED", "State +SUCCEEDED, proof RESPONSE", "order-43-paid +SUCCEEDED",
		`2027-03-28T03:00:00\+02:00 .* SHIFTED`, "t:first .* FIRED", "So far +1 fired",
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s", want)
		}
	}
	if got := strings.Count(b.receiver.logs(), " 200  acted"); got != 3 {
		t.Errorf("%d effects:\n%s", got, b.receiver.logs())
	}
	if t.Failed() {
		t.Log(out)
	}
	if _, err := os.Stat(filepath.Join(b.home, "fireonce.db")); err != nil {
		t.Errorf("the data is not where the pages say: %v", err)
	}
}
