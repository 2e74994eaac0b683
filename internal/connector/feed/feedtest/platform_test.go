package feedtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/feed/feedtest"
)

func start(t *testing.T, opts feedtest.Options) *feedtest.Platform {
	t.Helper()
	p, err := feedtest.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// post posts a text with a client of its own, so that nothing is sent twice.
func post(t *testing.T, p *feedtest.Platform, text string) (status int, body string, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL()+"/posts", strings.NewReader(fmt.Sprintf(`{"text":%q}`, text)))
	if err != nil {
		t.Fatal(err)
	}
	return do(r)
}

func do(r *http.Request) (status int, body string, err error) {
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

type listing struct {
	Account string          `json:"account"`
	Now     time.Time       `json:"now"`
	Posts   []feedtest.Post `json:"posts"`
	Next    json.RawMessage `json:"next"`
}

func list(t *testing.T, p *feedtest.Platform, query string) (out listing) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+"/posts?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, body, err := do(r)
	if err != nil || status != http.StatusOK {
		t.Fatalf("%d %q %v", status, body, err)
	}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (l listing) texts() string {
	var out []string
	for _, p := range l.Posts {
		out = append(out, p.Text)
	}
	return strings.Join(out, " ")
}

// TestAnswers: what commits is there, what does not is not, whatever the client
// sees of it.
func TestAnswers(t *testing.T) {
	for answer, want := range map[feedtest.Answer]int{
		feedtest.Reply: 201, feedtest.Drop: 0, feedtest.Fail: 503, feedtest.RateLimit: 429, feedtest.Unauthorized: 401,
		feedtest.Forbid: 403, feedtest.Refuse: 422, feedtest.Reset: 0, feedtest.CommitFail: 500, feedtest.Truncate: -1, feedtest.Nameless: 201,
	} {
		p := start(t, feedtest.Options{Plan: func(feedtest.Request) feedtest.Answer { return answer }})
		status, body, err := post(t, p, "hello")
		if want > 0 && (err != nil || status != want) || want <= 0 && err == nil {
			t.Errorf("%d: %d %q %v", answer, status, body, err)
		}
		effects := 0
		if answer.Commits() {
			effects = 1
		}
		if p.Effects("hello") != effects || p.Requests("hello") != 1 || len(p.Posts()) != effects {
			t.Errorf("%d: %d effects, %d requests", answer, p.Effects("hello"), p.Requests("hello"))
		}
	}
}

// TestSilence: a blocked client returns when it times out or the platform ends.
func TestSilence(t *testing.T) {
	asked := make(chan struct{}, 2)
	p := start(t, feedtest.Options{Plan: func(r feedtest.Request) feedtest.Answer {
		asked <- struct{}{}
		if r.Text == "committed" {
			return feedtest.Silence
		}
		return feedtest.DropSilently
	}})
	done := make(chan error, 2)
	for _, text := range []string{"committed", "lost"} {
		go func() { _, _, err := post(t, p, text); done <- err }()
	}
	<-asked
	<-asked
	_ = p.Close()
	for range 2 {
		if err := <-done; err == nil {
			t.Error("an answer")
		}
	}
	if p.Effects("lost") != 0 {
		t.Error("a lost post took effect")
	}
}

// TestLateCommit: a plan that blocks until the client has given up, and then
// commits.
func TestLateCommit(t *testing.T) {
	committed := make(chan struct{})
	p := start(t, feedtest.Options{
		Plan:      func(r feedtest.Request) feedtest.Answer { <-r.Gone; return feedtest.Reset },
		Committed: func(feedtest.Request, feedtest.Post) { close(committed) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL()+"/posts", strings.NewReader(`{"text":"late"}`))
	if err != nil {
		t.Fatal(err)
	}
	gaveUp := make(chan error, 1)
	go func() { _, _, err := do(r); gaveUp <- err }()
	for p.Requests("late") == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-gaveUp; err == nil {
		t.Error("an answer")
	}
	<-committed
	if p.Effects("late") != 1 {
		t.Error("not committed")
	}
}

func TestReadLag(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	p := start(t, feedtest.Options{ReadLag: time.Minute, ClockOffset: time.Hour, Now: func() time.Time { return now }})
	made := p.Post("hidden", "")
	if got := list(t, p, ""); len(got.Posts) != 0 || !got.Now.Equal(now.Add(time.Hour)) || p.Effects("hidden") != 1 {
		t.Errorf("%+v", got)
	}
	now = now.Add(time.Minute)
	if got := list(t, p, ""); got.texts() != "hidden" || !got.Posts[0].Created.Equal(made.Created) {
		t.Errorf("%+v", got)
	}
}

// TestPaging: a cursor keeps its place when posts come and go; an offset does
// not.
func TestPaging(t *testing.T) {
	p := start(t, feedtest.Options{})
	for _, text := range []string{"a", "b", "c", "d"} {
		p.Post(text, "")
	}
	first := list(t, p, "limit=2")
	var next string
	if err := json.Unmarshal(first.Next, &next); err != nil || first.texts() != "d c" {
		t.Fatalf("%+v, %v", first, err)
	}
	p.Post("e", "")
	if err := p.Delete(first.Posts[1].ID); err != nil {
		t.Fatal(err)
	}
	if got := list(t, p, "limit=2&before="+next); got.texts() != "b a" || string(got.Next) != "null" {
		t.Errorf("%+v", got)
	}
	p.SetPaging(feedtest.ByOffset)
	if got := list(t, p, "limit=2"); got.texts() != "e d" || got.Next != nil {
		t.Errorf("%+v", got)
	}
	p.Post("f", "")
	if got := list(t, p, "limit=2&offset=2"); got.texts() != "d b" {
		t.Errorf("%+v: the page did not shift", got)
	}
	if p.Delete("nonesuch") == nil {
		t.Error("a post that is not there was deleted")
	}
}

func TestTokenAndAccount(t *testing.T) {
	p := start(t, feedtest.Options{Token: "right"})
	if status, _, err := post(t, p, "x"); err != nil || status != 401 || p.Effects("x") != 0 {
		t.Errorf("%d %v", status, err)
	}
	p.SetToken("")
	p.SetAccount("other")
	if got := list(t, p, ""); got.Account != "other" {
		t.Errorf("%+v", got)
	}
}

func TestTotalsAndJournal(t *testing.T) {
	var journal bytes.Buffer
	p := start(t, feedtest.Options{Journal: &journal})
	for _, text := range []string{"a", "a", "b"} {
		if _, _, err := post(t, p, text); err != nil {
			t.Fatal(err)
		}
	}
	list(t, p, "")
	if got := p.Totals(); got != (feedtest.Totals{Posts: 3, Listings: 1, Effects: 3, Texts: 2, Duplicates: 1}) {
		t.Errorf("%+v", got)
	}
	_ = p.Close()
	if got := strings.Count(journal.String(), `"event":"effect"`); got != 3 || strings.Count(journal.String(), "\n") != 7 {
		t.Errorf("%s", journal.String())
	}
}
