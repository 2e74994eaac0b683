package builtin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
)

// patience bounds every wait of the test: far more than any needs.
const patience = 5 * time.Minute

// Blocks of docs/adding-a-platform.md: a file, and lines that are added to one.
var (
	fileBlock = regexp.MustCompile("(?s)<!-- guide_test.go: (\\S+) -->\n```go\n(.*?)```")
	lineBlock = regexp.MustCompile("(?s)<!-- guide_test.go adds to (\\S+) -->\n```diff\n(.*?)```")
)

// guide is the program with what the page adds to it.
type guide struct {
	dir string
	// overlay is the file for -overlay: the compiler sees the page's files, and the working tree
	// stays as it is.
	overlay string
	ctx     context.Context //nolint:containedctx // of the whole test
}

// TestGuide follows docs/adding-a-platform.md: it adds the page's files and lines, runs the sample's
// conformance suite, and has the sandbox lose an answer of the sample platform. The note is there
// once.
func TestGuide(t *testing.T) {
	if testing.Short() { // it compiles the whole program
		t.Skip("left out of the ordinary tests")
	}
	t.Parallel()
	if _, err := os.Stat(filepath.Join(root, "internal", "connector", "bulletin")); err == nil {
		t.Skip("the tree has the sample already")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience) // t's own ends before the sandbox does
	t.Cleanup(cancel)
	g := &guide{dir: t.TempDir(), ctx: ctx}
	g.follow(t)

	suite := g.build(t, "test", "-c", "-vet=off", "./internal/connector/bulletin")
	out, err := exec.CommandContext(ctx, suite, "-test.v").CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS: TestConformance/") < 10 {
		t.Fatalf("the sample's suite: %v\n%s", err, out)
	}

	page, api := g.sandbox(t, g.build(t, "build", "./cmd/fireonce"))
	resp, err := api.ScheduleJob(ctx, &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: "hello", Connection: &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: "bulletin"},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: "Hello. [lose the answer]"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	j := g.succeeded(t, api, resp.GetJob().GetJobId())
	if j.GetEffectClass() != fireoncev1.EffectClass_EFFECT_CLASS_KEYED || j.GetAttemptCount() != 2 || j.GetEffect().GetExternalId() != "note-1" {
		t.Errorf("the job is %v", j)
	}
	board := get(ctx, t, page+"/board")
	if got := regexp.MustCompile(`note .*<code>note-\d+</code>`).FindAllString(board, -1); len(got) != 1 || !strings.Contains(board, "On Bulletin: 1") {
		t.Errorf("the platform has %q:\n%s", got, board)
	}
}

// follow writes the page's files, and the lists with its lines, and the overlay that names them.
func (g *guide) follow(t *testing.T) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "adding-a-platform.md"))
	if err != nil {
		t.Fatal(err)
	}
	replace := make(map[string]string)
	add := func(path, text string) {
		at, err := filepath.Abs(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		replace[at] = filepath.Join(g.dir, strings.ReplaceAll(path, "/", "_"))
		if err := os.WriteFile(replace[at], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range fileBlock.FindAllStringSubmatch(string(page), -1) {
		add(b[1], b[2])
	}
	files := len(replace)
	for _, b := range lineBlock.FindAllStringSubmatch(string(page), -1) {
		before, err := os.ReadFile(filepath.Join(root, b[1]))
		if err != nil {
			t.Fatal(err)
		}
		add(b[1], withLines(t, string(before), b[2]))
	}
	if lists := len(replace) - files; files != 4 || lists != 2 {
		t.Fatalf("the page has %d files, and lines for %d lists", files, lists)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	g.overlay = filepath.Join(g.dir, "overlay.json")
	if err := os.WriteFile(g.overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// withLines puts each line of a block that begins with + after the line before it, which the text
// has once.
func withLines(t *testing.T, text, block string) string {
	t.Helper()
	after, added := "", 0
	for line := range strings.Lines(block) {
		switch {
		case strings.HasPrefix(line, "+"):
			if strings.Count(text, "\n"+after) != 1 {
				t.Fatalf("%q is not there once", after)
			}
			text = strings.Replace(text, "\n"+after, "\n"+after+line[1:], 1)
			added++
		case strings.HasPrefix(line, " "):
			after = line[1:]
		}
	}
	if added != 2 { // an import and an entry
		t.Fatalf("%d lines are added:\n%s", added, block)
	}
	return text
}

// build runs the go command with the overlay, and returns the binary that it makes.
func (g *guide) build(t *testing.T, command string, args ...string) string {
	t.Helper()
	binary := filepath.Join(g.dir, command+"-binary")
	cmd := exec.CommandContext(g.ctx, "go", append([]string{command, "-overlay", g.overlay, "-buildvcs=false", "-o", binary}, args...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", command, err, out)
	}
	return binary
}

// sandbox starts `fireonce sandbox`, and returns where its page is, and the API.
func (g *guide) sandbox(t *testing.T, binary string) (page string, api fireoncev1connect.JobServiceClient) {
	t.Helper()
	cmd := exec.CommandContext(g.ctx, binary, "sandbox", "--port", "0", "--server-port", "0")
	cmd.Env = append(os.Environ(), "TMPDIR="+g.dir, "HOME="+g.dir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the sandbox ended: %v", err)
		}
	})
	address := regexp.MustCompile(`^  (The page|Fireonce) +(http://\S+)$`)
	var server string
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if found := address.FindStringSubmatch(lines.Text()); found != nil && found[1] == "Fireonce" {
			server = found[2]
		} else if found != nil {
			page = found[2]
		}
		if strings.HasSuffix(lines.Text(), "Ctrl-C ends it.") {
			return page, fireoncev1connect.NewJobServiceClient(http.DefaultClient, server)
		}
	}
	t.Fatal("the sandbox did not start")
	return "", nil
}

// succeeded waits until a job has succeeded, and returns it.
func (g *guide) succeeded(t *testing.T, api fireoncev1connect.JobServiceClient, id string) *fireoncev1.Job {
	t.Helper()
	stream, err := api.StreamJobEvents(g.ctx, &fireoncev1.StreamJobEventsRequest{
		Start: &fireoncev1.StreamJobEventsRequest_FromBeginning{FromBeginning: true}, IncludeJob: true, Filter: &fireoncev1.EventFilter{JobIds: []string{id}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }() // the server may end first
	for stream.Receive() {
		c := stream.Msg().GetEvent().GetJobChanged()
		if c.GetNewState() == fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			return c.GetJob()
		}
	}
	t.Fatal(stream.Err())
	return nil
}

func get(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
