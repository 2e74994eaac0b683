// Package pds runs a personal data server of the AT Protocol, the reference one, on
// loopback, and asks it what it has: the oracle of Bluesky's tests is the server
// itself. It is for tests.
package pds

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// Skip is the environment variable that leaves out tests with programs in other
// languages than Go.
const Skip = "FIREONCE_SKIP_CLIENTS"

// maxAnswer bounds an answer that is read, in bytes.
const maxAnswer = 4 << 20

// Server is one running server.
type Server struct {
	// URL is its base URL, without a slash at its end.
	URL      string
	accounts atomic.Int64
}

// Account is somebody on a server.
type Account struct {
	server *Server
	DID    string
	Handle string
	// Password is an app password, OwnPassword the account's own.
	Password, OwnPassword string
	access                string
}

// Post is a post as the server has it.
type Post struct {
	URI    string
	CID    string
	Record map[string]any
}

// Text is what the post says.
func (p Post) Text() string {
	text, _ := p.Record["text"].(string)
	return text
}

// Start runs a server until the test ends. Without Node, or its modules, the test
// fails and says what to do, unless Skip is set.
func Start(t testing.TB) *Server {
	t.Helper()
	if os.Getenv(Skip) == "1" {
		t.Skipf("%s=1: no personal data server", Skip)
	}
	_, self, _, _ := runtime.Caller(0)
	dir := filepath.Dir(self)
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	}
	if err != nil {
		t.Fatalf("the personal data server needs Node and its modules: %v\nRun .ci/need-pds, or set %s=1 to leave these tests out", err, Skip)
	}
	// What the server is made of is opened here too, so that `go test` takes no result
	// from its cache when it has changed.
	for _, name := range []string{"start.mjs", "package-lock.json"} {
		if _, err := os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, filepath.Join(dir, "start.mjs"), t.TempDir()) //nolint:gosec // our own script
	var words bytes.Buffer
	cmd.Stderr = &words
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the personal data server did not start: %v\n%s", err, words.String())
	}
	return &Server{URL: strings.TrimSpace(line)}
}

// Account makes an account.
func (s *Server) Account(t testing.TB) *Account {
	t.Helper()
	a := &Account{server: s, OwnPassword: fmt.Sprintf("own-password-%d", s.accounts.Add(1))}
	a.Handle = fmt.Sprintf("ada%d.test", s.accounts.Load())
	made := s.post(t, "com.atproto.server.createAccount", "", map[string]string{
		"handle": a.Handle, "email": a.Handle + "@example.org", "password": a.OwnPassword,
	})
	a.DID, a.access = made["did"].(string), made["accessJwt"].(string)
	a.Password = a.AppPassword(t, "first")
	return a
}

// AppPassword makes another app password of the account.
func (a *Account) AppPassword(t testing.TB, name string) string {
	t.Helper()
	return a.server.post(t, "com.atproto.server.createAppPassword", a.access, map[string]string{"name": name})["password"].(string)
}

// RevokeAppPassword takes an app password back.
func (a *Account) RevokeAppPassword(t testing.TB, name string) {
	t.Helper()
	a.server.post(t, "com.atproto.server.revokeAppPassword", a.access, map[string]string{"name": name})
}

// Rename gives the account another handle.
func (a *Account) Rename(t testing.TB, handle string) {
	t.Helper()
	a.server.post(t, "com.atproto.identity.updateHandle", a.access, map[string]string{"handle": handle})
	a.Handle = handle
}

// Delete deletes a post.
func (a *Account) Delete(t testing.TB, key string) {
	t.Helper()
	a.server.post(t, "com.atproto.repo.deleteRecord", a.access, map[string]string{
		"repo": a.DID, "collection": "app.bsky.feed.post", "rkey": key,
	})
}

// Put writes a post, whatever was there before.
func (a *Account) Put(t testing.TB, key string, record map[string]any) {
	t.Helper()
	a.server.post(t, "com.atproto.repo.putRecord", a.access, map[string]any{
		"repo": a.DID, "collection": "app.bsky.feed.post", "rkey": key, "record": record,
	})
}

// Posts lists all posts of the account, the newest key first.
func (a *Account) Posts(t testing.TB) []Post {
	t.Helper()
	var all []Post
	cursor := ""
	for {
		q := url.Values{"repo": {a.DID}, "collection": {"app.bsky.feed.post"}, "limit": {"100"}}
		if cursor != "" {
			q.Set("cursor", cursor)
		}
		var page struct {
			Records []struct {
				URI   string         `json:"uri"`
				CID   string         `json:"cid"`
				Value map[string]any `json:"value"`
			} `json:"records"`
			Cursor string `json:"cursor"`
		}
		a.server.do(t, http.MethodGet, "com.atproto.repo.listRecords?"+q.Encode(), "", nil, &page)
		for _, r := range page.Records {
			all = append(all, Post{URI: r.URI, CID: r.CID, Record: r.Value})
		}
		if cursor = page.Cursor; cursor == "" || len(page.Records) == 0 {
			return all
		}
	}
}

func (s *Server) post(t testing.TB, method, token string, body any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]any)
	s.do(t, http.MethodPost, method, token, raw, &got)
	return got
}

func (s *Server) do(t testing.TB, verb, method, token string, body []byte, into any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), verb, s.URL+"/xrpc/"+method, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", method, err, raw)
	}
}
