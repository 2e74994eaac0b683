// Package pds runs a personal data server of the AT Protocol, the reference one, on
// loopback, and asks it what it has: the oracle of Bluesky's tests is the server
// itself. It is for tests.
package pds

import (
	"net/http"
	"os"
	"path/filepath"
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

// Account is a user on a server.
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
// fails and states what to do, unless Skip is set.
func Start(t testing.TB) *Server {
	t.Helper()
	if os.Getenv(Skip) == "1" {
		t.Skipf("%s=1: no personal data server", Skip)
	}
	// What the server is made of is opened here too, so that `go test` takes no result
	// from its cache when it has changed.
	for _, name := range []string{"start.mjs", "package-lock.json"} {
		if _, err := os.ReadFile(filepath.Join(source(), name)); err != nil {
			t.Fatal(err)
		}
	}
	s, end, err := Open(t.Context(), t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = end() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Account makes an account.
func (s *Server) Account(t testing.TB) *Account {
	t.Helper()
	a, err := s.Join(t.Context())
	must(t, err)
	return a
}

// AppPassword makes another app password of the account.
func (a *Account) AppPassword(t testing.TB, name string) string {
	t.Helper()
	password, err := a.AddPassword(t.Context(), name)
	must(t, err)
	return password
}

// RevokeAppPassword takes an app password back.
func (a *Account) RevokeAppPassword(t testing.TB, name string) {
	t.Helper()
	must(t, a.DropPassword(t.Context(), name))
}

// Rename returns the account another handle.
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
	all, err := a.All(t.Context())
	must(t, err)
	return all
}

func (s *Server) post(t testing.TB, method, token string, body any) {
	t.Helper()
	must(t, s.call(t.Context(), http.MethodPost, method, token, body, nil))
}
