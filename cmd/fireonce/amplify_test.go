//go:build !race

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	attack "github.com/fireonce/fireonce/internal/proof/hostile"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

const (
	// crowd is how many hostile requests are under way at a time.
	crowd = 1000
	// ceiling is the bound on resident memory that docs/operations.md promises for them, in MiB.
	ceiling = 1024
)

// TestThousandHostileRequests sends expensive requests, a thousand at a time, to a server in
// a process of its own. Its memory must stay below the documented ceiling, and each honest
// call meanwhile must be answered. The server is built without the race detector, which
// takes memory of its own and ten times as long. FIREONCE_BINARY measures another build;
// FIREONCE_HOSTILE=all sends every request, and FIREONCE_HOSTILE=TEXT those whose name has
// the text.
func TestThousandHostileRequests(t *testing.T) {
	long(t)
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	if other := os.Getenv("FIREONCE_BINARY"); other != "" {
		binary = other
	}
	const operator = "operator-0123456789abcdef"
	p, err := startProcess(binary, memdir.New(t), append(os.Environ(), "FIREONCE_API_KEY="+operator),
		"--dev", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	native := regexp.MustCompile(`, gRPC (127\.0\.0\.1:\d+),`).FindStringSubmatch(p.line)
	if native == nil {
		t.Fatalf("no address for gRPC: %s", p.line)
	}
	keys := hostileKeys(t, p.url, operator)
	send := attack.NewSender(map[attack.Listener]string{
		attack.API: strings.TrimPrefix(p.url, "http://"), attack.Native: native[1],
	}, keys)
	defer send.Close()
	before := memoryOf(t, p, "VmRSS")
	answered := honestly(t, p, operator, func() { sendAll(t, send, p) })
	if t.Failed() {
		return
	}
	most := memoryOf(t, p, "VmHWM")
	t.Logf("resident memory %d MiB before, %d MiB at most; %d honest calls were answered", before, most, answered)
	if most > ceiling {
		t.Errorf("%d MiB of resident memory, at most %d", most, ceiling)
	}
}

// hostileKeys makes the keys of the hostile callers, in a project of their own.
func hostileKeys(t *testing.T, url, operator string) map[attack.Key]string {
	t.Helper()
	api, err := client.Dial(url, operator)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[attack.Key]string{attack.WrongKey: "nobody-0123456789abcdef"}
	for key, scopes := range map[attack.Key][]string{
		attack.ReadKey:  {"jobs:read", "connections:read"},
		attack.WriteKey: {"jobs:read", "jobs:write", "jobs:resolve", "connections:read", "connections:write"},
	} {
		made, err := api.Access.CreateApiKey(waiting(t), &adminv1.CreateApiKeyRequest{
			ProjectId: "hostile", CreateProject: true, Scopes: scopes,
		})
		if err != nil {
			t.Fatal(err)
		}
		keys[key] = made.GetSecret()
	}
	return keys
}

// sendAll sends hostile requests, a crowd at a time: each is made before the first is sent.
func sendAll(t *testing.T, send *attack.Sender, p *process) {
	t.Helper()
	sizes := attack.Sizes{Request: 1 << 20, Batch: 16 << 20}
	stride, only := attack.Count(sizes)/crowd, os.Getenv("FIREONCE_HOSTILE")
	if only != "" {
		stride = 1
	}
	if only == "all" {
		only = ""
	}
	var ready []attack.Case
	n, sent := 0, 0
	for c := range attack.Cases(sizes) {
		if n++; n%stride != 0 || !strings.Contains(c.Name, only) {
			continue
		}
		if ready = append(ready, made(t, c)); len(ready) < crowd {
			continue
		}
		if sent += len(ready); !sendCrowd(t, send, p, ready) {
			t.Errorf("the server ended after %d requests: %v", sent, p.Err())
			return
		}
		ready = ready[:0]
	}
	if sent += len(ready); !sendCrowd(t, send, p, ready) {
		t.Errorf("the server ended after %d requests: %v", sent, p.Err())
	}
	t.Logf("%d hostile requests, %d at a time", sent, crowd)
}

// made makes the body of a case.
func made(t *testing.T, c attack.Case) attack.Case {
	t.Helper()
	r, err := c.Request(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	if r.Body == nil {
		return c
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return c.Made(body)
}

// sendCrowd sends all of the cases concurrently. It reports whether the server lives.
func sendCrowd(t *testing.T, send *attack.Sender, p *process, cases []attack.Case) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range cases {
		all.Go(func() { _, _ = send.Send(ctx, c) }) // the server may close the connection
	}
	all.Wait()
	select {
	case <-p.Done():
		return false
	default:
	}
	if len(cases) > 0 {
		t.Logf("%d MiB are resident, %d MiB were at most, after %q to %q",
			memoryOf(t, p, "VmRSS"), memoryOf(t, p, "VmHWM"), cases[0].Name, cases[len(cases)-1].Name)
	}
	return true
}

// honestly makes ordinary calls while beside runs. It returns how many calls were answered.
func honestly(t *testing.T, p *process, key string, beside func()) (answered int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		beside()
	}()
	api, err := client.Dial(p.url, key)
	if err != nil {
		t.Fatal(err)
	}
	to := connect(t, api, false)
	for {
		select {
		case <-done:
			if answered == 0 {
				t.Error("no honest call was made")
			}
			return answered
		default:
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if _, err := api.Jobs.ScheduleJob(ctx, hook(to, fmt.Sprint("honest-", answered), "http://127.0.0.1:9/", time.Minute)); err != nil {
			t.Errorf("honest call %d: %v", answered, err)
			cancel()
			<-done
			return answered
		}
		cancel()
		answered++
	}
}

// memoryOf reads a figure of a process's memory, in MiB.
func memoryOf(t *testing.T, p *process, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in %s", name, text)
	}
	kB, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kB / 1024
}
