//go:build failpoints

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/x/xtest"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// TestAThreadForTomorrow runs the commands of docs/accounts.md. A day later both posts must
// exist, the second one as a reply to the first.
func TestAThreadForTomorrow(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "accounts.md"))
	if err != nil {
		t.Fatal(err)
	}
	thread := strings.Join(marked(t, accountsPage, threadRuns), "")
	connect := regexp.MustCompile(`(?m)^fireonce connections create --key x .*\n`).Find(text)
	if connect == nil {
		t.Fatal("docs/accounts.md has no connection for the thread")
	}
	p, err := xtest.Start(xtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	c := newClocked(t, "", receiver.Options{Dedupes: true}, "--platform-url", "x="+p.URL())
	c.start(nil)
	if err := os.WriteFile(filepath.Join(c.dir, "x.token"), []byte("x-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(waiting(t), "sh", "-c", "set -e\n"+string(connect)+thread)
	cmd.Dir, cmd.Env = c.dir, append(os.Environ(), "FIREONCE_SERVER="+c.process.url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "warning") {
		t.Errorf("the printed commands are warned of:\n%s", out)
	}
	list, err := c.api.Jobs.ListJobs(waiting(t), &fireoncev1.ListJobsRequest{})
	if err != nil || len(list.GetJobs()) != 2 {
		t.Fatalf("%d jobs, %v", len(list.GetJobs()), err)
	}
	for _, j := range list.GetJobs() {
		if j.GetState() != fireoncev1.JobState_JOB_STATE_SCHEDULED {
			t.Errorf("job %s is %v today: %v", j.GetIdempotencyKey(), j.GetState(), j.GetLastError())
		}
	}
	c.kill()
	c.start([]string{"FIREONCE_CLOCK_OFFSET=24h", "FIREONCE_BOOT_ID=tomorrow", "FIREONCE_CLOCK_SYNCHRONIZED=true"})
	c.ends(2)
	posts := make(map[string]*fireoncev1.Job)
	for _, j := range list.GetJobs() {
		j = c.job(j.GetJobId())
		if posts[j.GetIdempotencyKey()] = j; j.GetState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			t.Errorf("job %s is %v tomorrow: %v", j.GetIdempotencyKey(), j.GetState(), j.GetLastError())
		}
	}
	first, second := posts["thread-1"].GetEffect().GetExternalId(), posts["thread-2"].GetEffect().GetExternalId()
	answers := make(map[string]string)
	for _, o := range p.Objects() {
		answers[o.ID] = o.ReplyTo
	}
	if got, there := answers[second]; !there || first == "" || got != first || len(answers) != 2 {
		t.Errorf("post %q answers %q, not %q; there are %d", second, got, first, len(answers))
	}
}
