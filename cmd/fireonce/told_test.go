package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// TestTold follows docs/told.md from the start of the server to the notice of recovery.
func TestTold(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	b := &beginner{page: toldPage, home: memdir.New(t)}
	b.env = []string{"HOME=" + b.home, "PATH=" + os.Getenv("PATH")}
	// The page's ids, and those of this run.
	ids := map[string]string{}
	printed := ""
	for _, s := range snippets(t, toldPage) {
		switch marker(s.marker) {
		case toldStarts, toldRestarts:
			for line := range strings.Lines(s.text) {
				words := strings.Fields(line)
				switch words[1] {
				case "serve":
					b.server, err = startProcess(binary, b.home, b.env, append(words[2:], "--listen", "127.0.0.1:0", "--ops-listen", "off")...)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(b.server.Kill)
				case "listen":
					if b.receiver != nil {
						b.receiver.Kill()
					}
					b.receiver = b.listen(t, binary, words[2:])
				default:
					t.Fatalf("%s starts %q, and this test does not", toldPage, line)
				}
			}
		case toldRuns:
			printed = b.run(t, s.text, ids)
		case toldCompares:
			comparePrinted(t, toldPage, s.text, printed)
		case toldFinds:
			for line := range strings.Lines(s.text) {
				b.server.says(t, strings.TrimSpace(line))
			}
		}
	}
	if !strings.Contains(b.receiver.logs(), "acted") {
		t.Errorf("the receiver did not act:\n%s", b.receiver.logs())
	}
}

// pageID matches the id of an incident and of a plan, in the page and in what commands print.
var pageID = regexp.MustCompile(`inc_[a-z2-7]{16}|--confirm [0-9a-f-]{36}`)

// run runs a block with the ids that the commands before it printed, line by line: an id is often
// printed by the line before.
func (b *beginner) run(t *testing.T, block string, ids map[string]string) string {
	t.Helper()
	place := strings.NewReplacer("http://127.0.0.1:8080", b.server.url, "http://127.0.0.1:9000", b.receiver.url)
	var all strings.Builder
	for line := range strings.Lines(block) {
		line = pageID.ReplaceAllStringFunc(line, func(id string) string {
			if now := ids[kindOfID(id)]; now != "" {
				return now
			}
			t.Fatalf("no command before has printed an id like %s", id)
			return ""
		})
		cmd := exec.CommandContext(waiting(t), "sh", "-ec", place.Replace(line))
		cmd.Dir, cmd.Env = b.home, append(b.env, "FIREONCE_SERVER="+b.server.url)
		out, err := cmd.CombinedOutput()
		if refused, ok := errors.AsType[*exec.ExitError](err); ok && refused.ExitCode() == 1 && strings.Contains(line, "# exits with 1") {
			err = nil
		}
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, line, out)
		}
		for _, id := range pageID.FindAllString(string(out), -1) {
			ids[kindOfID(id)] = id
		}
		all.Write(out)
	}
	return all.String()
}

// kindOfID returns what kind of id a match of pageID is.
func kindOfID(id string) string { return id[:4] }
