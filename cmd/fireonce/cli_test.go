package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// cliSetup makes the connections that docs/cli.md and help texts name.
const cliSetup = `
export FIREONCE_BEARER_TOKEN=token
fireonce connections create --key mastodon --connector mastodon --base-url http://127.0.0.1:9000 --receiver-dedupes no
fireonce connections create --key x --connector x
unset FIREONCE_BEARER_TOKEN
fireonce connections create --key payments --connector http --receiver-dedupes no
fireonce connections create --key mail --connector smtp --host mail.example.org --security none
`

// cliPlace is a server, a receiver, and a directory with the files that examples name.
type cliPlace struct {
	dir    string
	env    []string
	change *strings.Replacer
}

func newCLIPlace(t *testing.T) cliPlace {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	r, err := receiver.Start(receiver.Options{Dedupes: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	n, dir := startNode(t, onSQLite, 0), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "staging.key"), []byte("a-key-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return cliPlace{
		dir: dir, env: append(os.Environ(), "FIREONCE_SERVER="+n.URL(), "STAGING="+n.URL(), "XDG_CONFIG_HOME="+dir),
		change: strings.NewReplacer(
			"http://127.0.0.1:9000", strings.TrimSuffix(r.URL(""), "/"), "http://127.0.0.1:8096", strings.TrimSuffix(r.URL(""), "/"),
			"http://127.0.0.1:8090", strings.TrimSuffix(r.URL(""), "/"), "127.0.0.1:9001", "127.0.0.1:0", "https://example.org/a.png", r.URL("a.png"),
			"https://fireonce.example.org", n.URL(), "https://staging.example.org", n.URL(),
		),
	}
}

// run runs a script, in bash.
func (p cliPlace) run(t *testing.T, script string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(waiting(t), "bash", "-c", "set -e\n"+p.change.Replace(script))
	cmd.Dir, cmd.Env, cmd.Stdin = p.dir, p.env, strings.NewReader("a-key-0123456789\n")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestCLIDocs runs the blocks of docs/cli.md, one after the other in one shell.
func TestCLIDocs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)<!-- cli_test.go runs this block -->\n```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 5 || strings.Count(string(text), "```sh\n") != len(blocks) {
		t.Fatalf("%d blocks", len(blocks))
	}
	script := cliSetup
	for _, b := range blocks {
		script += b[1]
	}
	script += "complete -p fireonce\n"
	out, err := newCLIPlace(t).run(t, script)
	for _, want := range []string{
		"SENDING → SUCCEEDED", `(?m)^staging  http://.* yes +yes$`, "Logged out of http", `(?m)^  "jobs": \[$`, `(?m)^{"idempotencyKey":`, `(?m)^  "attempts": \[$`,
		"complete .*fireonce",
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s", want)
		}
	}
	if got, want := strings.Count(out, "Valid."), strings.Count(script, "--validate-only"); got != want {
		t.Errorf("%d of %d payloads are valid", got, want)
	}
	if err != nil || t.Failed() {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHelpExamples runs each example of the commands' help: a line of a description that
// begins with three spaces and the program's name.
func TestHelpExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	started := false
	var examples []string
	var collect func(*cli.Command)
	collect = func(cmd *cli.Command) {
		for line := range strings.Lines(cmd.Description) {
			if strings.HasPrefix(line, "   fireonce ") {
				examples = append(examples, strings.TrimSpace(line))
			}
		}
		for _, sub := range cmd.Commands {
			collect(sub)
		}
	}
	collect(Program{}.command(&started))
	if len(examples) < 5 {
		t.Fatalf("%d examples", len(examples))
	}
	p := newCLIPlace(t)
	if out, err := p.run(t, cliSetup+"fireonce connections create --key orders --receiver-dedupes no\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	slices.Sort(examples)
	for _, example := range examples {
		t.Run(example, func(t *testing.T) {
			if strings.HasPrefix(example, "fireonce listen") {
				p.listens(t, example)
				return
			}
			if out, err := p.run(t, example); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// listens runs an example that does not end by itself.
func (p cliPlace) listens(t *testing.T, example string) {
	t.Helper()
	args := append(strings.Fields(p.change.Replace(example))[1:], "--addr", "127.0.0.1:0") // the last one counts
	l, err := startListener("fireonce", p.dir, p.env, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	if err := l.stop(); err != nil || !bytes.Contains([]byte(l.logs()), []byte("0 requests")) {
		t.Errorf("%v\n%s", err, l.logs())
	}
}
