package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/heldport"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// clientsKey is the API key of these tests.
const clientsKey = "a-key-for-the-clients-tests-0123456789"

// skipClients is the one way to run these tests without their tools.
const skipClients = "FIREONCE_SKIP_CLIENTS"

// clientPrograms maps languages to functions that build the language's example program
// and return the command that runs it.
var clientPrograms = map[string]func(t *testing.T, root string) program{
	"go":         goProgram,
	"python":     pythonProgram,
	"typescript": typescriptProgram,
}

// program is the start of a command line.
type program struct{ args, env []string }

// TestClients runs the example of each language against a real server, and checks the
// results at the server and the receiver.
func TestClients(t *testing.T) {
	long(t)
	for name, prepare := range clientPrograms {
		t.Run(name, func(t *testing.T) {
			p := prepared(t, prepare)
			t.Run("lost answers", func(t *testing.T) { t.Parallel(); testLostAnswers(t, p) })
			t.Run("typed errors", func(t *testing.T) { t.Parallel(); testTypedErrors(t, p) })
		})
	}
}

// testLostAnswers loses the first answers and kills the server under the stream. Each
// order must be stored once and announced once, and the program must see all events.
func testLostAnswers(t *testing.T, p program) {
	c := startClientRun(t)
	orders := []string{"41", "42", "43"}
	out := c.start(t, p, "--at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339), orders)

	// The stream is open: the server is killed and restarted under it.
	out.says(t, `^changed `)
	c.server.Kill()
	c.serve(t)
	if err := c.way.awaits(waiting(t), fireoncev1connect.JobServiceStreamJobEventsProcedure, 2); err != nil {
		t.Fatal(err)
	}
	jobs := c.stored(t, len(orders))
	for _, j := range jobs {
		if _, err := c.api.Jobs.RunJobNow(waiting(t), &fireoncev1.RunJobNowRequest{Job: &fireoncev1.RunJobNowRequest_JobId{JobId: j.GetJobId()}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.checkRepeats(t)
	c.checkStream(t, out, jobs)
	for _, order := range orders {
		if n := c.receiver.Effects("orders/" + order); n != 1 {
			t.Errorf("order %s: %d effects", order, n)
		}
		out.has(t, `^stored order-`+order+`-paid \S+ (JOB_STATE_)?SUCCEEDED$`)
	}
	c.stored(t, len(orders)) // still one job for each
}

// testTypedErrors checks that an error's detail reaches the client, and that a refused
// call stores nothing.
func testTypedErrors(t *testing.T, p program) {
	c := startClientRun(t)
	out := c.start(t, p, "--amount", "1", []string{"42"})
	if err := out.wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	job := c.stored(t, 1)[0]

	out = c.start(t, p, "--amount", "1", []string{"42"})
	if err := out.wait(); err != nil {
		t.Errorf("the same again: %v\n%s", err, out)
	}
	out.has(t, `^scheduled order-42-paid known$`)

	out = c.start(t, p, "--amount", "2", []string{"42"})
	var exited *exec.ExitError
	if err := out.wait(); !errors.As(err, &exited) || exited.ExitCode() != 3 {
		t.Errorf("another amount: %v\n%s", err, out)
	}
	out.has(t, `IDEMPOTENCY_KEY_REUSED: job `+job.GetJobId()+` differs in payload$`)

	c.key = "not-" + clientsKey
	out = c.start(t, p, "--amount", "1", []string{"43"})
	if err := out.wait(); !errors.As(err, &exited) || exited.ExitCode() != 1 {
		t.Errorf("another key: %v\n%s", err, out)
	}
	out.has(t, `CREDENTIAL_INVALID: `)

	if again := c.stored(t, 1)[0]; again.GetJobId() != job.GetJobId() {
		t.Errorf("job %s became %s", job.GetJobId(), again.GetJobId())
	}
	if n := c.receiver.Effects("orders/42"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// prepared builds an example, or fails the test and names the missing tool. A test never
// passes for lack of a tool.
func prepared(t *testing.T, prepare func(*testing.T, string) program) program {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	if os.Getenv(skipClients) == "1" {
		t.Skipf("%s=1: the clients in other languages are not tested", skipClients)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	// The files that other programs read are opened here too, so that `go test` does not
	// reuse a cached result after one of them has changed.
	for _, dir := range []string{"clients/go", "examples/go", "examples/go.work", "examples/java", "examples/php", "examples/python", "examples/ruby", "examples/typescript", "gen/ts", "gen/proto", "proto"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"dist", "node_modules", "__pycache__"}, d.Name()):
				return fs.SkipDir
			case d.Type().IsRegular():
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return prepare(t, root)
}

// missing fails a test because a tool is missing.
func missing(t *testing.T, what string, err error) {
	t.Helper()
	t.Fatalf("%v\nThis test needs %s. `make clients` installs it or says how; %s=1 leaves these tests out.", err, what, skipClients)
}

// goProgram builds the example. Its module imports the client's module and no other of this
// repository.
func goProgram(t *testing.T, root string) program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "orders")
	cmd := exec.CommandContext(waiting(t), "go", "-C", filepath.Join(root, "examples", "go"), "build", "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program{args: []string{binary}}
}

// findPython returns a Python with gRPC.
func findPython(t *testing.T) string {
	t.Helper()
	var err error
	for _, candidate := range []string{"python3", "/usr/bin/python3"} { // as in .ci/need-clients
		out, failed := exec.CommandContext(waiting(t), candidate, "-c", "import grpc").CombinedOutput()
		if failed == nil {
			return candidate
		}
		err = errors.Join(err, fmt.Errorf("%s: %w\n%s", candidate, failed, out))
	}
	missing(t, "Python 3 with grpcio", err)
	return ""
}

// pythonProgram generates the code as docs/clients.md says.
func pythonProgram(t *testing.T, root string) program {
	t.Helper()
	python := findPython(t)
	return program{
		args: []string{python, filepath.Join(root, "examples", "python", "orders.py")},
		env:  []string{"PYTHONPATH=" + filepath.Join(generateAlone(t, root, "gen/proto", "Python"), "client"), "PYTHONDONTWRITEBYTECODE=1"},
	}
}

// findTypescript returns the compiler and Node.
func findTypescript(t *testing.T, root string) (tsc, node string) {
	t.Helper()
	tsc = filepath.Join(root, "node_modules", ".bin", "tsc")
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(tsc)
	}
	if err != nil {
		missing(t, "Node, and node_modules as package-lock.json has it", err)
	}
	return tsc, node
}

// typescriptProgram compiles the example, strictly, along with gen/ts.
func typescriptProgram(t *testing.T, root string) program {
	t.Helper()
	tsc, node := findTypescript(t, root)
	// Below the example, because that is where Node looks for node_modules.
	dist := filepath.Join(root, "examples", "typescript", "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(dist, "test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.CommandContext(waiting(t), tsc, "-p", filepath.Join(root, "examples", "typescript"), "--outDir", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tsc: %v\n%s", err, out)
	}
	return program{args: []string{node, filepath.Join(dir, "examples", "typescript", "src", "orders.js")}}
}

// clientRun is a server with a proxy, a receiver and a client.
type clientRun struct {
	key, dir string
	address  string // of the server
	server   *process
	api      *client.API // not through the lossy proxy
	way      *lossy
	receiver *receiver.Receiver
}

// startClientRun starts a server with an API key behind a proxy that loses the first
// answers to each call that stores something.
func startClientRun(t *testing.T) *clientRun {
	t.Helper()
	r, err := receiver.Start(receiver.Options{Dedupes: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	c := &clientRun{key: clientsKey, dir: memdir.New(t), address: heldport.For(t), receiver: r}
	c.serve(t)
	if c.api, err = client.Dial(c.server.url, clientsKey); err != nil {
		t.Fatal(err)
	}
	c.way = startLossy(t, c.server.url, func(procedure string, number int) fate {
		switch procedure {
		case fireoncev1connect.JobServiceScheduleJobProcedure:
			return [...]fate{cut, withhold, deliver}[min(number, 3)-1]
		case fireoncev1connect.JobServiceBatchScheduleJobsProcedure, connectionsv1connect.ConnectionServiceCreateConnectionProcedure:
			return [...]fate{cut, deliver}[min(number, 2)-1]
		default:
			return deliver
		}
	})
	return c
}

// serve starts the server, or starts it again at the same address.
func (c *clientRun) serve(t *testing.T) {
	t.Helper()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "FIREONCE_API_KEY="+clientsKey)
	if c.server, err = startProcess(binary, c.dir, env, "--dev", "--grace", "2s", "--listen", c.address, "--grpc-listen", "off"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.server.Kill)
}

// start runs a program on orders.
func (c *clientRun) start(t *testing.T, p program, option, value string, orders []string) *output {
	t.Helper()
	args := slices.Concat(p.args, []string{"--server", c.way.url, "--receiver", c.receiver.URL(""), "--timeout", "2", option, value}, orders)
	// Without this machine's settings, such as its proxies.
	env := append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"),
		"FIREONCE_API_KEY=" + c.key, "WEBHOOK_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	}, p.env...)
	return startOutput(t, args, env)
}

// stored returns the jobs in the store, and fails the test unless there are n.
func (c *clientRun) stored(t *testing.T, n int) []*fireoncev1.Job {
	t.Helper()
	resp, err := c.api.Jobs.ListJobs(waiting(t), &fireoncev1.ListJobsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetJobs()) != n {
		t.Fatalf("%d jobs are stored, not %d", len(resp.GetJobs()), n)
	}
	return resp.GetJobs()
}

// checkRepeats checks that calls whose answer was lost were repeated unchanged.
func (c *clientRun) checkRepeats(t *testing.T) {
	t.Helper()
	same(t, requests(t, c.way, fireoncev1connect.JobServiceScheduleJobProcedure,
		func() *fireoncev1.ScheduleJobRequest { return new(fireoncev1.ScheduleJobRequest) }), 3)
	same(t, requests(t, c.way, fireoncev1connect.JobServiceBatchScheduleJobsProcedure,
		func() *fireoncev1.BatchScheduleJobsRequest { return new(fireoncev1.BatchScheduleJobsRequest) }), 2)
	same(t, requests(t, c.way, connectionsv1connect.ConnectionServiceCreateConnectionProcedure,
		func() *connectionsv1.CreateConnectionRequest { return new(connectionsv1.CreateConnectionRequest) }), 2)
}

func same[M proto.Message](t *testing.T, got []M, least int) {
	t.Helper()
	if len(got) < least {
		t.Fatalf("%d calls, at least %d were due", len(got), least)
	}
	for i, m := range got {
		if !proto.Equal(m, got[0]) {
			t.Errorf("call %d is %v, the first was %v", i+1, m, got[0])
		}
	}
}

// checkStream compares the program's output with the server's log, and checks that every
// stream but the first continued behind an event.
func (c *clientRun) checkStream(t *testing.T, out *output, jobs []*fireoncev1.Job) {
	t.Helper()
	log, err := settle(waiting(t), t, c.api, len(jobs))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string][]string)
	for _, line := range out.matching(`^changed (\S+) (\d+) (?:JOB_STATE_)?(\S+)$`) {
		seen[line[1]] = append(seen[line[1]], line[2]+" "+line[3])
	}
	for _, j := range jobs {
		var want []string
		for _, e := range log.events[j.GetJobId()] {
			want = append(want, fmt.Sprint(e.GetSequence(), " ", strings.TrimPrefix(e.GetNewState().String(), "JOB_STATE_")))
		}
		if got := seen[j.GetJobId()]; !slices.Equal(got, want) {
			t.Errorf("job %s: the program saw %q of %q", j.GetIdempotencyKey(), got, want)
		}
	}
	for i, r := range requests(t, c.way, fireoncev1connect.JobServiceStreamJobEventsProcedure,
		func() *fireoncev1.StreamJobEventsRequest { return new(fireoncev1.StreamJobEventsRequest) }) {
		if first := i == 0; first != r.GetFromBeginning() || first == (r.GetAfterCursor() != "") {
			t.Errorf("stream %d started with %v", i+1, r)
		}
	}
}

// output collects what a running program prints, on both of its outputs.
type output struct {
	cmd   *exec.Cmd
	lines chan string
	seen  []string
}

func startOutput(t *testing.T, args, env []string) *output {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// A program that leaves its stream open does not end by itself: it is killed.
	o := &output{cmd: exec.CommandContext(waiting(t), args[0], args[1:]...), lines: make(chan string, 1000)}
	o.cmd.Env, o.cmd.Stdout, o.cmd.Stderr = env, write, write
	err = o.cmd.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(o.lines)
		defer read.Close()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			o.lines <- lines.Text()
		}
	}()
	return o
}

// says reads until a line matches.
func (o *output) says(t *testing.T, pattern string) {
	t.Helper()
	for line := range o.lines {
		o.seen = append(o.seen, line)
		if regexp.MustCompile(pattern).MatchString(line) {
			return
		}
	}
	t.Fatalf("it never said %s: %v\n%s", pattern, o.wait(), o)
}

// wait reads to the end.
func (o *output) wait() error {
	for line := range o.lines {
		o.seen = append(o.seen, line)
	}
	return o.cmd.Wait()
}

// matching returns the groups of each line that matches.
func (o *output) matching(pattern string) [][]string {
	var out [][]string
	for _, line := range o.seen {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(line); found != nil {
			out = append(out, found)
		}
	}
	return out
}

func (o *output) has(t *testing.T, pattern string) {
	t.Helper()
	if o.matching(pattern) == nil {
		t.Errorf("no %s in:\n%s", pattern, o)
	}
}

func (o *output) String() string { return strings.Join(o.seen, "\n") }
