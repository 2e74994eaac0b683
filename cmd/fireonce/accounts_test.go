package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// TestAccounts runs the blocks of docs/accounts.md against a server: every connector
// accepts the settings, the credential and the payload that the page shows.
func TestAccounts(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	t.Parallel()
	for _, tool := range []string{"sh", "sed"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	dir := memdir.New(t)
	for name, secret := range map[string]string{
		"mastodon.token": "m-token", "x.token": "x-token", "tiktok.token": "t-token", "slack.token": "xoxb-token",
		"relay.password": "a-password", "resend.key": "re_key", "payments.key": "sk_key", "new.token": "m-token-2",
		"bluesky.json": `{"basic": {"username": "ada.bsky.social", "password": "abcd-efgh-ijkl-mnop"}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The account of a user who has logged in, which the page assumes.
	script := "set -e\n" +
		"fireonce connections create --key user-42:mastodon --label user=42 --connector mastodon --base-url https://mastodon.example --token-file mastodon.token\n" +
		strings.Join(marked(t, accountsPage, accountsRuns), "\n")
	n := startNode(t, onSQLite, 0)
	cmd := exec.CommandContext(waiting(t), "sh", "-c", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "FIREONCE_SERVER="+n.URL())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := strings.Count(string(out), "user-42:mastodon"); got < 3 {
		t.Errorf("the connection is shown %d times by its key\n%s", got, out)
	}
	want := strings.Count(script, "--validate-only")
	if got := strings.Count(string(out), "Valid."); got != want {
		t.Errorf("%d of %d payloads are valid\n%s", got, want, out)
	}
}
