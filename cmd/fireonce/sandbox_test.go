package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/sandbox"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// startSandbox starts a sandbox on free ports. stop shuts it down, and so does the end of the
// test.
func startSandbox(t *testing.T, dir string) (s *sandbox.Sandbox, stop func()) {
	t.Helper()
	return startSandboxAt(t, dir, 0)
}

// startSandboxAt starts a sandbox at the ports from first on, the page's; 0: at free ones.
func startSandboxAt(t *testing.T, dir string, first int) (s *sandbox.Sandbox, stop func()) {
	t.Helper()
	if crashRun {
		t.Skip("needs no failpoints")
	}
	opts := sandbox.Options{Dir: dir, Version: "test", FirstPort: first}
	if first > 0 {
		opts.ServerPort = first + sandboxPorts - 1
	}
	s, err := sandbox.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		end()
		if err := <-ended; err != nil {
			t.Errorf("the sandbox ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

// sandboxPorts is at least how many ports a sandbox takes.
const sandboxPorts = 16

// quietPorts returns the first of some ports that are free now, and that no system hands out for
// port 0: so no other test takes one of them while a sandbox restarts.
func quietPorts(t *testing.T) int {
	t.Helper()
	const from, tries = 20_000, 500
	for i := range tries {
		first := from + (os.Getpid()+i)%tries*sandboxPorts
		free := true
		for port := first; port < first+sandboxPorts && free; port++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if free = err == nil; free {
				_ = l.Close()
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("no ports are free")
	return 0
}

// sandboxPayloads returns, for each platform, a payload with a text.
var sandboxPayloads = map[string]func(s *sandbox.Sandbox, text string) *fireoncev1.Payload{
	"x": socialPost, "mastodon": socialPost, "slack": socialPost,
	"tiktok": func(s *sandbox.Sandbox, text string) *fireoncev1.Payload {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{
			Text: text, Media: []*fireoncev1.MediaRef{{Url: s.Page() + "/files/bridge.mp4", MediaType: "video/mp4"}},
			PlatformOptions: &fireoncev1.SocialPost_Tiktok{Tiktok: &fireoncev1.TikTokOptions{Privacy: fireoncev1.TikTokOptions_PRIVACY_SELF_ONLY}},
		}}}
	},
	"resend": email, "mail": email,
	"payments": func(s *sandbox.Sandbox, text string) *fireoncev1.Payload {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_HttpRequest{HttpRequest: &fireoncev1.HttpRequest{
			Url: s.URL("payments") + "/v1/charges", ContentType: "application/x-www-form-urlencoded",
			Content: &fireoncev1.HttpRequest_BodyText{BodyText: "amount=4200&description=" + text},
		}}}
	},
	"orders": func(s *sandbox.Sandbox, text string) *fireoncev1.Payload {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: s.URL("orders") + "/", Content: &fireoncev1.Webhook_BodyText{BodyText: fmt.Sprintf("{%q: 1}", text)},
		}}}
	},
}

func socialPost(_ *sandbox.Sandbox, text string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: text}}}
}

func email(_ *sandbox.Sandbox, text string) *fireoncev1.Payload {
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
		Sender: "shop@example.org", To: []string{"ada@example.com"}, Subject: text, TextBody: "Good to have you here.",
	}}}
}

// things counts the objects of a platform that contain a text.
func things(s *sandbox.Sandbox, name, text string) (n int) {
	for _, thing := range s.Things(name) {
		if strings.Contains(thing.Text, text) {
			n++
		}
	}
	return n
}

// TestSandboxFaults causes each fault on each platform, by its words in the content. With each
// fault the platform must have the effect once, and the job must pass the states that the fault
// demonstrates.
func TestSandboxFaults(t *testing.T) {
	long(t)
	t.Parallel()
	s, _ := startSandbox(t, memdir.New(t))
	api := dial(t, s.Server())
	want := make(map[string]struckJob) // by job id
	for _, one := range sandbox.Platforms() {
		for _, fault := range append([]sandbox.Fault{sandbox.None}, one.Faults...) {
			// It holds all other jobs: see TestSandboxUnauthorized. TikTok's limit holds them for a minute.
			if fault == sandbox.Unauthorized || fault == sandbox.RateLimit && one.Name == "tiktok" {
				continue
			}
			text := fmt.Sprintf("%s no. %d", one.Name, len(want))
			if fault != sandbox.None {
				text += " [" + string(fault) + "]"
			}
			want[scheduleIn(t, api, s, one.Name, text)] = struckJob{one.Name, text, fault}
		}
	}
	if len(want) != 8+7*5+4-1 {
		t.Errorf("%d jobs", len(want))
	}
	h := settled(t, api, len(want))
	for id, w := range want {
		end, made := fireoncev1.JobState_JOB_STATE_SUCCEEDED, 1
		if w.platform == "mail" { // a relay cannot be asked
			switch w.fault {
			case sandbox.LoseRequest:
				end, made = fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION, 0
			case sandbox.LoseAnswer, sandbox.Slow:
				end = fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION
			default:
			}
		}
		if got := h.state(id); got != end {
			t.Errorf("%q: %v, not %v\n%s", w.text, got, end, h.undone())
		}
		if got := things(s, w.platform, w.text); got != made {
			t.Errorf("%q: %s has %d of it, not %d", w.text, w.platform, got, made)
		}
		passes := fireoncev1.JobState_JOB_STATE_UNSPECIFIED
		switch {
		case w.fault == sandbox.RateLimit:
			passes = fireoncev1.JobState_JOB_STATE_RETRYING
		case w.fault != sandbox.None:
			passes = fireoncev1.JobState_JOB_STATE_AMBIGUOUS
		}
		if w.platform != "mail" && passes != 0 && !h.passed(id, passes) {
			t.Errorf("%q was never %v: %v", w.text, passes, h.events[id])
		}
	}
}

// struckJob is a job of a test that meets a fault.
type struckJob struct {
	platform, text string
	fault          sandbox.Fault
}

// passed reports whether a job was in a state.
func (h *history) passed(id string, state fireoncev1.JobState) bool {
	for _, e := range h.events[id] {
		if e.GetNewState() == state {
			return true
		}
	}
	return false
}

func scheduleIn(t *testing.T, api *client.API, s *sandbox.Sandbox, connection, text string) (id string) {
	t.Helper()
	if sandboxPayloads[connection] == nil {
		t.Fatalf("add a payload of %s to sandboxPayloads", connection)
	}
	resp, err := api.Jobs.ScheduleJob(waiting(t), &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: strings.ReplaceAll(text, " ", "-"), Connection: &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: connection},
		Payload: sandboxPayloads[connection](s, text),
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return resp.GetJob().GetJobId()
}

func settled(t *testing.T, api *client.API, n int) *history {
	t.Helper()
	h, err := settle(waiting(t), t, api, n)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.undone())
	}
	return h
}

// TestSandboxUnauthorized checks that a job waits if the platform refuses the credential, and
// succeeds with a new one. A webhook is sent again by itself, and a plain HTTP receiver refuses the
// request.
func TestSandboxUnauthorized(t *testing.T) {
	long(t)
	t.Parallel()
	s, _ := startSandbox(t, memdir.New(t))
	api := dial(t, s.Server())
	want := make(map[string]struckJob)
	for _, one := range sandbox.Platforms() {
		if one.Name == "mail" {
			continue
		}
		text := one.Name + " [401]"
		want[scheduleIn(t, api, s, one.Name, text)] = struckJob{one.Name, text, sandbox.Unauthorized}
	}
	held := make(map[string]bool)
	for id := range want {
		err := follow.Events(waiting(t), api.Jobs, follow.Options{Beginning: true, IncludeJob: true, Filter: &fireoncev1.EventFilter{JobIds: []string{id}}},
			func(e *fireoncev1.JobEvent) error {
				if k := e.GetJobChanged().GetJob().GetBlockedReason().GetConnectionCause(); k == fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_REFUSED {
					held[id] = true
				}
				if held[id] || atRest(e.GetJobChanged().GetNewState()) {
					return follow.ErrStop
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	for id, w := range want {
		if w.platform == "payments" || w.platform == "orders" { // they have no account to hold
			continue
		}
		if !held[id] {
			t.Errorf("%q does not wait for a new credential", w.text)
		}
		credential := &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "another-token"}}}
		if _, err := api.Connections.RotateCredential(waiting(t), &connectionsv1.RotateCredentialRequest{
			Connection: &connectionsv1.RotateCredentialRequest_IdempotencyKey{IdempotencyKey: w.platform}, Credential: credential,
		}); err != nil {
			t.Fatalf("%s: %v", w.platform, err)
		}
	}
	h := settled(t, api, len(want))
	for id, w := range want {
		end, made := fireoncev1.JobState_JOB_STATE_SUCCEEDED, 1
		if w.platform == "payments" { // a call of an API is wrong for good; a webhook is sent again
			end, made = fireoncev1.JobState_JOB_STATE_FAILED, 0
		}
		if got := h.state(id); got != end || things(s, w.platform, w.text) != made {
			t.Errorf("%q: %v, %d made\n%s", w.text, got, things(s, w.platform, w.text), h.undone())
		}
	}
}

// TestSandboxGoesOn checks that a second start on a directory has the earlier objects, at the
// same ports, and finds the effect whose answer was lost before.
func TestSandboxGoesOn(t *testing.T) {
	long(t)
	t.Parallel()
	dir := filepath.Join(memdir.New(t), "sandbox")
	ports := quietPorts(t)
	s, stop := startSandboxAt(t, dir, ports)
	api := dial(t, s.Server())
	ids := make(map[string]string)
	for _, one := range sandbox.Platforms() {
		ids[one.Name] = scheduleIn(t, api, s, one.Name, "kept on "+one.Name)
	}
	settled(t, api, len(ids))
	before := fmt.Sprint(s.Things("x"), s.Ports)
	stop()

	s, stop = startSandboxAt(t, dir, ports)
	for name := range ids {
		if n := things(s, name, "kept on "+name); n != 1 {
			t.Errorf("%s has %d", name, n)
		}
	}
	if after := fmt.Sprint(s.Things("x"), s.Ports); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	// The answer is lost, and the sandbox ends before a look.
	api = dial(t, s.Server())
	lost := scheduleIn(t, api, s, "x", "there already [lose the answer]")
	err := follow.Events(waiting(t), api.Jobs, follow.Options{Beginning: true}, func(e *fireoncev1.JobEvent) error {
		if c := e.GetJobChanged(); c.GetJobId() == lost && c.GetNewState() == fireoncev1.JobState_JOB_STATE_AMBIGUOUS {
			return follow.ErrStop
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	s, _ = startSandboxAt(t, dir, ports)
	h := settled(t, dial(t, s.Server()), len(ids)+1)
	if got := h.state(lost); got != fireoncev1.JobState_JOB_STATE_SUCCEEDED || things(s, "x", "there already") != 1 {
		t.Errorf("%v, and X has %d", got, things(s, "x", "there already"))
	}
}

// TestSandboxSaysNo checks that the error names the obstacle if a sandbox cannot start, and what
// to do about it.
func TestSandboxSaysNo(t *testing.T) {
	t.Parallel()
	dir := memdir.New(t)
	s, _ := startSandbox(t, filepath.Join(dir, "first"))
	_, err := sandbox.Start(t.Context(), sandbox.Options{Dir: filepath.Join(dir, "second"), FirstPort: s.Ports["page"]})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d of this machine, where the page is to be, is taken", s.Ports["page"])) {
		t.Errorf("a port that is taken: %v", err)
	}
	_, err = sandbox.Start(t.Context(), sandbox.Options{Dir: filepath.Join(dir, "first"), FirstPort: s.Ports["page"] + 1})
	if err == nil || !strings.Contains(err.Error(), "its jobs and connections lead to") {
		t.Errorf("another port than the directory's: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fireonce.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = sandbox.Start(t.Context(), sandbox.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is no sandbox's") {
		t.Errorf("a directory with a server's database: %v", err)
	}
}

// TestFakesStayOut checks that a real server contains no fake, not even an unused one.
func TestFakesStayOut(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	fakes := regexp.MustCompile(`/internal/(sandbox|proof)(/|$)|/internal/connector/[a-z]+/[a-z]+test$`)
	list := func(pkg string) string {
		cmd := exec.CommandContext(waiting(t), "go", "list", "-deps", pkg)
		cmd.Dir = filepath.Join("..", "..")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for _, pkg := range []string{"./cmd/fireonce/internal/node", "./cmd/fireonce/internal/client"} {
		for _, dep := range strings.Fields(list(pkg)) {
			if fakes.MatchString(dep) {
				t.Errorf("%s needs %s", pkg, dep)
			}
		}
	}
	if !fakes.MatchString("github.com/fireonce/fireonce/internal/connector/x/xtest") || !strings.Contains(list("./cmd/fireonce/internal/sandbox"), "/xtest\n") {
		t.Error("the fakes are elsewhere than this test looks")
	}
}

// ported returns a text with the default ports replaced by the sandbox's own.
func ported(s *sandbox.Sandbox, text string) string {
	names := []string{"page"}
	for _, one := range sandbox.Platforms() {
		names = append(names, one.Name)
	}
	swap := []string{fmt.Sprintf("127.0.0.1:%d", sandbox.ServerPort), fmt.Sprintf("127.0.0.1:%d", s.Ports["fireonce"])}
	for i, name := range names {
		swap = append(swap, fmt.Sprintf("127.0.0.1:%d", sandbox.FirstPort+i), fmt.Sprintf("127.0.0.1:%d", s.Ports[name]))
	}
	return strings.NewReplacer(swap...).Replace(text)
}

// TestSandboxAccounts follows docs/accounts.md as a user without accounts does. Each answer is
// lost that the page says is lost, and each effect exists once.
func TestSandboxAccounts(t *testing.T) {
	long(t)
	t.Parallel()
	followSandbox(t, accountsPage, []expected{
		{"x", "The first of two."}, {"x", "The second of two."}, {"x", "Thank you for following."}, {"resend", "Welcome"}, {"mail", "Welcome"},
		{"payments", "cus_42"}, {"orders", `"order": 42`}, {"orders", `"heartbeat": 1,`}, {"tiktok", "The bridge again"}, {"mastodon", "From curl."},
	})
}

// TestSandboxReadme follows the README's four use cases.
func TestSandboxReadme(t *testing.T) {
	long(t)
	t.Parallel()
	followSandbox(t, readmePage, []expected{
		{"x", "Our bridge is open."}, {"x", "Come and see it!"}, {"x", "Thank you for following."}, {"resend", "Welcome"},
		{"payments", "cus_42"}, {"orders", `"order": 42`}, {"orders", `"heartbeat": 1,`}, {"tiktok", "The bridge #fog"},
	})
}

// expected is an object that a platform must have once, identified by a text in it.
type expected struct{ platform, text string }

// followSandbox runs a page's blocks in a sandbox. It checks that all jobs succeed, that the
// platforms have each effect once, and that each job that names a fault in its content met it.
func followSandbox(t *testing.T, page string, wants []expected) {
	t.Helper()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	s, _ := startSandbox(t, memdir.New(t))
	t.Run("blocks", func(t *testing.T) {
		for _, block := range marked(t, page, sandboxRuns) {
			t.Run("", func(t *testing.T) {
				t.Parallel() // each block is complete
				followBlock(t, s, block)
			})
		}
	})
	api := dial(t, s.Server())
	list, err := api.Jobs.ListJobs(waiting(t), &fireoncev1.ListJobsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	h := settled(t, api, len(list.GetJobs()))
	faults := regexp.MustCompile(`\[(lose the answer|lose the request|commit late|slow)\]`)
	for _, j := range list.GetJobs() {
		if got := h.state(j.GetJobId()); got != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("%s is %v", j.GetIdempotencyKey(), got)
		}
		full, err := api.Jobs.GetJob(waiting(t), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: j.GetJobId()}})
		if err != nil {
			t.Fatal(err)
		}
		struck := faults.MatchString(fmt.Sprint(full.GetJob().GetPayload()))
		if got := h.passed(j.GetJobId(), fireoncev1.JobState_JOB_STATE_AMBIGUOUS); got != struck && j.GetIdempotencyKey() != "welcome-by-relay:user-42" {
			t.Errorf("%s: its content names a fault: %t, and its outcome was unknown: %t", j.GetIdempotencyKey(), struck, got)
		}
	}
	for _, want := range wants {
		if n := things(s, want.platform, want.text); n != 1 {
			t.Errorf("%s has %q %d times", want.platform, want.text, n)
		}
	}
	var kinds []string
	for _, thing := range s.Things("x") {
		kinds = append(kinds, thing.Kind)
	}
	if got := fmt.Sprint(kinds); got != "[post reply direct message]" {
		t.Errorf("on X are %s", got)
	}
}

// followBlock runs a page's block in a shell. A schedule is triggered at the worst moment: when
// it has just made a job of its own, if it may.
func followBlock(t *testing.T, s *sandbox.Sandbox, block string) {
	t.Helper()
	dir, parts := t.TempDir(), []string{block}
	if at := strings.Index(block, "fireonce schedules trigger "); at >= 0 {
		parts = []string{block[:at], block[at:]}
	}
	for i, part := range parts {
		if i > 0 {
			awaitOwnJobs(t, s)
		}
		cmd := exec.CommandContext(waiting(t), "sh", "-ec", ported(s, part))
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "FIREONCE_SERVER="+s.Server())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, part, out)
		}
	}
}

// awaitOwnJobs waits until each schedule that fires at intervals has made a job. Others fire too
// seldom to be waited for.
func awaitOwnJobs(t *testing.T, s *sandbox.Sandbox) {
	t.Helper()
	api := dial(t, s.Server())
	list, err := api.Schedules.ListSchedules(waiting(t), &schedulesv1.ListSchedulesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list.GetSchedules() {
		if one.GetState() != schedulesv1.ScheduleState_SCHEDULE_STATE_ACTIVE || len(one.GetSpec().GetIntervals()) == 0 {
			continue
		}
		err := follow.Events(waiting(t), api.Jobs, follow.Options{Beginning: true, Filter: &fireoncev1.EventFilter{ScheduleId: one.GetScheduleId()}},
			func(*fireoncev1.JobEvent) error { return follow.ErrStop })
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSandboxCommand starts the command, runs the commands that it prints, and ends it as Ctrl-C
// does.
func TestSandboxCommand(t *testing.T) {
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip(err)
	}
	for _, page := range []string{readmePage, accountsPage} {
		if got := strings.Join(marked(t, page, sandboxStarts), ""); got != "fireonce sandbox\n" {
			t.Errorf("%s starts the sandbox with %q", page, got)
		}
	}
	cmd := exec.CommandContext(waiting(t), "fireonce", "sandbox", "--port", "0", "--server-port", "0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines, script := bufio.NewScanner(out), ""
	for lines.Scan() && !strings.HasSuffix(lines.Text(), "Ctrl-C ends it.") {
		if line, ok := strings.CutPrefix(lines.Text(), "  "); ok && !regexp.MustCompile(`^[A-Z][A-Za-z ]+  +\S`).MatchString(line) {
			script += line + "\n"
		}
	}
	run := exec.CommandContext(waiting(t), "sh", "-ec", script)
	got, err := run.CombinedOutput()
	if err != nil || strings.Count(script, "lose the answer") != 2 || !strings.Contains(string(got), "AMBIGUOUS → SUCCEEDED") || !strings.Contains(string(got), `"created": true`) {
		t.Errorf("%v\n%s\n%s\n%s", err, script, got, said.String())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(string(rest), "The sandbox has ended.") {
		t.Errorf("%v: %s%s", err, rest, said.String())
	}
}
