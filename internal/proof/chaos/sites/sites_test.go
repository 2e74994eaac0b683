package sites

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// TestSites: every site comes up, is where it says, and has made nothing yet; the
// credential that is revoked is not the one that is handed out then.
func TestSites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all, err := Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(All()) {
		t.Errorf("%d sites, want %q", len(all), All())
	}
	for _, s := range all {
		if (s.URL == "") == (s.Address == "") || (s.URL == "") != (s.Attach != nil) {
			t.Errorf("%s is at %q and %q", s.Name, s.URL, s.Address)
		}
		made, err := s.Made(t.Context())
		if err != nil || len(made) != 0 {
			t.Errorf("%s has made %v, %v", s.Name, made, err)
		}
		for range 2 {
			next, err := s.Revoke(t.Context())
			if err != nil || next == s.Credential || next == (platform.Credential{}) {
				t.Errorf("%s: after a revocation %+v, %v", s.Name, next, err)
			}
		}
		if s.Close != nil {
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("%s: %v", s.Name, err)
				}
			}()
		}
	}
	if pem, err := os.ReadFile(filepath.Join(dir, Certificate)); err != nil || !bytes.Contains(pem, []byte("CERTIFICATE")) {
		t.Errorf("the relay's certificate: %q, %v", pem, err)
	}
}

// TestPosts: what makes something is known by its subject before and after it was made.
func TestPosts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, body string
		start      func(context.Context, string) (platform.Site, error)
	}{
		X:          {"/2/tweets", `{"text":"subject-1 & more"}`, startX},
		"messages": {"/2/dm_conversations/with/2002/messages", `{"text":"subject-1"}`, startX},
		Slack:      {"/chat.postMessage", `{"channel":"C1","text":"subject-1 words"}`, startSlack},
		Resend:     {"/emails", `{"from":"ada@example.org","to":["bob@example.net"],"subject":"subject-1","text":"x"}`, startResend},
		Mastodon:   {"/api/v1/statuses", `{"status":"subject-1"}`, startMastodon},
		TikTok: {
			beginsVideo, `{"post_info":{"title":"subject-1","privacy_level":"SELF_ONLY"},` +
				`"source_info":{"source":"PULL_FROM_URL","video_url":"https://example.org/film.mp4"}}`, startTikTok,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := c.start(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if got := s.Sort(platform.Request{Method: http.MethodPost, Path: c.path, Body: []byte(c.body)}); got.Subject != "subject-1" {
				t.Errorf("it is for %+v", got)
			}
			if got := s.Sort(platform.Request{Method: http.MethodGet, Path: "/"}); got.Subject != "" || got.Prepares {
				t.Errorf("a look is for %+v", got)
			}
			status, answer := ask(t, s, http.MethodPost, s.URL+c.path, c.body, nil)
			made, err := s.Made(t.Context())
			if err != nil || len(made) != 1 || made[0].Subject != "subject-1" || !strings.Contains(answer, strings.TrimPrefix(made[0].ID, "dm:")) && name != Slack && name != TikTok {
				t.Errorf("%d %s; made %+v, %v", status, answer, made, err)
			}
		})
	}
}

// TestUploads: bytes are for the post whose beginning gave their address.
func TestUploads(t *testing.T) {
	t.Parallel()
	s, err := startTikTok(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.At("http://127.0.0.1:1")
	const body = `{"post_info":{"title":"subject-1","privacy_level":"SELF_ONLY"},` +
		`"source_info":{"source":"FILE_UPLOAD","video_size":4,"chunk_size":4,"total_chunk_count":1}}`
	begins := platform.Request{Method: http.MethodPost, Path: beginsVideo, Body: []byte(body)}
	if got := s.Sort(begins); got.Subject != "" || !got.Prepares {
		t.Errorf("an upload's beginning is for %+v", got)
	}
	_, answer := ask(t, s, http.MethodPost, s.URL+beginsVideo, body, nil)
	s.Heard(begins, []byte(answer))
	_, rest, _ := strings.Cut(answer, "/video/?upload_id=")
	id, query, _ := strings.Cut(rest, `\u0026`)
	token, _, _ := strings.Cut(query, `"`)
	if got := s.Sort(platform.Request{Method: http.MethodPut, Path: "/video/", Query: map[string][]string{"upload_id": {id}}}); got.Subject != "subject-1" {
		t.Errorf("bytes for %q are for %+v: %s", id, got, answer)
	}
	if made, _ := s.Made(t.Context()); len(made) != 0 {
		t.Errorf("made %+v before the video is there", made)
	}
	status, _ := ask(t, s, http.MethodPut, s.URL+"/video/?upload_id="+id+"&"+token, "film", map[string]string{
		"Content-Range": "bytes 0-3/4", "Content-Type": "video/mp4",
	})
	if made, _ := s.Made(t.Context()); status != http.StatusCreated || len(made) != 1 || made[0].Subject != "subject-1" {
		t.Errorf("%d, made %+v", status, made)
	}
}

// ask asks a site itself.
func ask(t *testing.T, s platform.Site, method, url, body string, header map[string]string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.Credential.Token)
	r.Header.Set("Idempotency-Key", "job-1")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
