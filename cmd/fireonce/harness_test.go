package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	rpc "connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/litetest"
	"github.com/fireonce/fireonce/internal/proof/pgtest"
	"github.com/fireonce/fireonce/internal/proof/proc"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
	"github.com/fireonce/fireonce/store/postgres"
)

// patience bounds every wait of a test. It is far longer than any wait needs: the longest one, for
// javac, takes more than two minutes on two processors that also lint.
const patience = 5 * time.Minute

// deployment is a kind of database, and the number of servers on it.
type deployment struct {
	name    string
	servers int
}

var (
	onSQLite    = deployment{"sqlite", 1}
	onPostgres  = deployment{"postgres", 3}
	deployments = []deployment{onSQLite, onPostgres}
)

// database makes an empty database and returns its URL.
func (d deployment) database(tb testing.TB) string {
	tb.Helper()
	if d == onPostgres {
		if testing.Short() {
			tb.Skip("left out of the ordinary tests: make test-crash runs it")
		}
		return pgtest.NewFrom(tb, postgres.Migrate)
	}
	return "sqlite:" + litetest.New(tb)
}

// onEach runs a test that needs no failpoints for each deployment.
func onEach(t *testing.T, test func(*testing.T, deployment)) {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	for _, d := range deployments {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

// process is a subcommand of the program that serves, as a process of its own.
type process struct {
	*proc.Process
	url  string
	line string // what `serve` printed when it was ready

	mu     sync.Mutex
	stderr bytes.Buffer
	said   chan struct{} // gets a token when stderr has grown
}

var readyURL = regexp.MustCompile(` ready: (https?://[^,]+),`)

// startProcess runs a binary's `serve` and waits until it is ready.
func startProcess(binary, dir string, env []string, args ...string) (*process, error) {
	p, err := spawn(binary, dir, env, args...)
	if err != nil {
		return nil, err
	}
	if err := p.ready(); err != nil {
		return nil, err
	}
	return p, nil
}

// spawn runs a binary's `serve`.
func spawn(binary, dir string, env []string, args ...string) (*process, error) {
	p := &process{said: make(chan struct{}, 1)}
	cmd := exec.Command(binary, append([]string{"serve"}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, env, p
	var err error
	p.Process, err = proc.Start(cmd)
	return p, err
}

// startListener runs a binary's `listen` and waits until it listens. All that it prints is in
// its logs.
func startListener(binary, dir string, env []string, args ...string) (*process, error) {
	p := &process{said: make(chan struct{}, 1)}
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, p, p
	var err error
	if p.Process, err = proc.Start(cmd); err != nil {
		return nil, err
	}
	if !p.comesToSay(listeningOn) {
		p.Kill()
		return nil, fmt.Errorf("it does not listen:\n%s", p.logs())
	}
	p.url = listeningOn.FindStringSubmatch(p.logs())[1]
	return p, nil
}

// ready waits for the ready line, and kills a process that has none.
func (p *process) ready() error {
	line, err := p.Ready(context.Background(), patience)
	found := readyURL.FindStringSubmatch(line)
	if found == nil {
		p.Kill()
		return fmt.Errorf("not ready: %q, %w\n%s", line, err, p.logs())
	}
	p.url, p.line = found[1], line
	return nil
}

// Write collects what the process says on standard error.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.said <- struct{}{}:
	default:
	}
	return p.stderr.Write(b)
}

// says waits until the process has written some words to standard error.
func (p *process) says(tb testing.TB, words string) {
	tb.Helper()
	for !strings.Contains(p.logs(), words) {
		select {
		case <-p.said:
		case <-waiting(tb).Done():
			tb.Fatalf("it never said %q:\n%s", words, p.logs())
		}
	}
}

// comesToSay waits until standard error has a match, or the process has ended. It reports
// whether there is a match.
func (p *process) comesToSay(words *regexp.Regexp) bool {
	late := time.After(patience)
	for !words.MatchString(p.logs()) {
		select {
		case <-p.said:
		case <-p.Done(): // and all that it said is there
			return words.MatchString(p.logs())
		case <-late:
			return false
		}
	}
	return true
}

func (p *process) logs() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// isWorker reports whether name is the name of the process in events.
func (p *process) isWorker(name string) bool {
	return strings.Contains(p.logs(), fmt.Sprintf("worker=%s host=%s pid=%d", name, hostname, p.PID()))
}

// hostname is the machine's name in logs.
var hostname, _ = os.Hostname()

// stop ends the process in order.
func (p *process) stop() error { return p.Stop(patience) }

func dial(tb testing.TB, url string) *client.API {
	tb.Helper()
	api, err := client.Dial(url, "")
	if err != nil {
		tb.Fatal(err)
	}
	return api
}

func waiting(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// connect makes a webhook connection.
func connect(tb testing.TB, api *client.API, dedupes bool) string {
	tb.Helper()
	settings := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}
	if dedupes {
		settings.ReceiverDedupes = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
		settings.KeyWindow = durationpb.New(time.Hour)
	}
	resp, err := api.Connections.CreateConnection(waiting(tb), &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "test",
		Connection: &connectionsv1.Connection{
			Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: settings},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return resp.GetConnection().GetConnectionId()
}

// hook returns a request for one webhook, due immediately.
func hook(connection, key, url string, timeout time.Duration) *fireoncev1.ScheduleJobRequest {
	return &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: key, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: connection},
		AttemptTimeout: durationpb.New(timeout),
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: url, Content: &fireoncev1.Webhook_BodyText{BodyText: `{"test":true}`},
		}}},
	}
}

func atRest(s fireoncev1.JobState) bool {
	switch s {
	case fireoncev1.JobState_JOB_STATE_SUCCEEDED, fireoncev1.JobState_JOB_STATE_FAILED,
		fireoncev1.JobState_JOB_STATE_CANCELED, fireoncev1.JobState_JOB_STATE_EXPIRED,
		fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION:
		return true
	default:
		return false
	}
}

// history is the part of the event log that a test has read.
type history struct {
	tb     testing.TB
	events map[string][]*fireoncev1.JobChanged // by job
}

// note records an event, and checks that a job's events have no gap and are consistent.
func (h *history) note(c *fireoncev1.JobChanged) {
	h.tb.Helper()
	before := h.events[c.GetJobId()]
	if want := int64(len(before) + 1); c.GetSequence() != want {
		h.tb.Errorf("job %s: event %d where %d was due", c.GetJobId(), c.GetSequence(), want)
	}
	if n := len(before); n > 0 && before[n-1].GetNewState() != c.GetOldState() {
		h.tb.Errorf("job %s: event %d goes from %v, but the job was %v", c.GetJobId(), c.GetSequence(), c.GetOldState(), before[n-1].GetNewState())
	}
	h.events[c.GetJobId()] = append(before, c)
}

func (h *history) state(id string) fireoncev1.JobState {
	events := h.events[id]
	if len(events) == 0 {
		return fireoncev1.JobState_JOB_STATE_UNSPECIFIED
	}
	return events[len(events)-1].GetNewState()
}

// resting counts the jobs that are at rest.
func (h *history) resting() int {
	n := 0
	for id := range h.events {
		if atRest(h.state(id)) {
			n++
		}
	}
	return n
}

// undone describes the jobs that are not at rest.
func (h *history) undone() string {
	var b strings.Builder
	for id, events := range h.events {
		if atRest(h.state(id)) {
			continue
		}
		fmt.Fprintf(&b, "job %s\n", id)
		for _, e := range events {
			fmt.Fprintf(&b, "  %s %v by %v, attempt %d, %s %s %s\n", e.GetJob().GetUpdateTime().AsTime().Format("15:04:05.000"),
				e.GetNewState(), e.GetCause(), e.GetAttempt().GetNumber(), e.GetActor(), e.GetReason(), e.GetDetail())
		}
	}
	return b.String()
}

// settle reads the log from its beginning until every one of n jobs is at rest.
func settle(ctx context.Context, tb testing.TB, api *client.API, n int) (*history, error) {
	tb.Helper()
	h := &history{tb: tb, events: make(map[string][]*fireoncev1.JobChanged)}
	err := follow.Events(ctx, api.Jobs, follow.Options{Beginning: true}, func(e *fireoncev1.JobEvent) error {
		h.note(e.GetJobChanged())
		if h.resting() == n {
			return follow.ErrStop
		}
		return nil
	})
	return h, err
}

func reasonOf(err error) fireoncev1.ErrorReason {
	var answer *rpc.Error
	if !errors.As(err, &answer) {
		return fireoncev1.ErrorReason_ERROR_REASON_UNSPECIFIED
	}
	for _, d := range answer.Details() {
		if v, err := d.Value(); err == nil {
			if detail, ok := v.(*fireoncev1.ErrorDetail); ok {
				return detail.GetReason()
			}
		}
	}
	return fireoncev1.ErrorReason_ERROR_REASON_UNSPECIFIED
}

// command runs one of the program's commands that needs no server.
func command(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	var said bytes.Buffer
	p := Program{Stdin: strings.NewReader(""), Stdout: &said, Stderr: &said, Version: "test"}
	code = p.Run(waiting(t), append([]string{"fireonce"}, args...))
	return said.String(), code
}
