package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

type bundle struct {
	*httptest.Server
	events *events
	out    *syncBuffer
	drop   atomic.Bool // processes, and closes without an answer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func start(t *testing.T) *bundle {
	t.Helper()
	v, err := newVerifier(secret, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	e, err := openEvents(t.Context(), filepath.Join(t.TempDir(), "a b?.db"))
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{events: e, out: &syncBuffer{}}
	rc := &receiver{verify: v, events: e, out: b.out}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !b.drop.Load() {
			rc.ServeHTTP(w, r)
			return
		}
		rc.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(func() {
		b.Server.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// post sends one event, signed by the reference library.
func (b *bundle) post(t *testing.T, id string, at time.Time, body string, tamper func(http.Header)) (int, string, error) {
	t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := wh.Sign(id, at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
	if tamper != nil {
		tamper(r.Header)
	}
	resp, err := b.Client().Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func (b *bundle) effects(t *testing.T) (n int) {
	t.Helper()
	if err := b.events.db.QueryRowContext(t.Context(), `SELECT count(*) FROM deliveries`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDroppedAnswerThenAgain loses the first answer after the effect, and checks that
// the second request is answered and does nothing.
func TestDroppedAnswerThenAgain(t *testing.T) {
	b := start(t)
	b.drop.Store(true)
	if _, _, err := b.post(t, "evt_1", time.Now(), `{"n":1}`, nil); err == nil {
		t.Fatal("the answer was not dropped")
	}
	if n := b.effects(t); n != 1 {
		t.Fatalf("%d effects after the dropped answer", n)
	}
	b.drop.Store(false)
	for range 2 {
		status, text, err := b.post(t, "evt_1", time.Now().Add(time.Second), `{"n":1}`, nil)
		if err != nil || status != http.StatusOK || text != "processed before\n" {
			t.Errorf("%d %q %v", status, text, err)
		}
	}
	if status, _, err := b.post(t, "evt_2", time.Now(), `{"n":2}`, nil); err != nil || status != http.StatusOK {
		t.Errorf("another event: %d %v", status, err)
	}
	if n := b.effects(t); n != 2 {
		t.Errorf("%d effects of 2 events", n)
	}
	want := "processed  evt_1 (7 bytes)\nduplicate  evt_1, not done again\nduplicate  evt_1, not done again\nprocessed  evt_2 (7 bytes)\n"
	if got := b.out.String(); got != want {
		t.Errorf("printed %q", got)
	}
}

func TestManyAtOnceAreOneEffect(t *testing.T) {
	b := start(t)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if status, _, err := b.post(t, "evt_1", time.Now(), "{}", nil); err != nil || status != http.StatusOK {
				t.Errorf("%d %v", status, err)
			}
		})
	}
	wg.Wait()
	if n := b.effects(t); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestFailedHandlerLeavesNothing(t *testing.T) {
	b := start(t)
	if _, err := b.events.db.ExecContext(t.Context(), `ALTER TABLE deliveries RENAME TO away`); err != nil {
		t.Fatal(err)
	}
	if status, _, err := b.post(t, "evt_1", time.Now(), "{}", nil); err != nil || status != http.StatusInternalServerError {
		t.Errorf("%d %v", status, err)
	}
	if _, err := b.events.db.ExecContext(t.Context(), `ALTER TABLE away RENAME TO deliveries`); err != nil {
		t.Fatal(err)
	}
	if status, text, err := b.post(t, "evt_1", time.Now(), "{}", nil); err != nil || status != http.StatusOK || text != "processed\n" {
		t.Errorf("%d %q %v", status, text, err)
	}
}

func TestRefuses(t *testing.T) {
	b := start(t)
	for name, c := range map[string]struct {
		at     time.Time
		tamper func(http.Header)
	}{
		"old":          {time.Now().Add(-6 * time.Minute), nil},
		"new":          {time.Now().Add(6 * time.Minute), nil},
		"other id":     {time.Now(), func(h http.Header) { h.Set("webhook-id", "evt_9") }},
		"other time":   {time.Now(), func(h http.Header) { h.Set("webhook-timestamp", "1") }},
		"no signature": {time.Now(), func(h http.Header) { h.Del("webhook-signature") }},
		"not base64":   {time.Now(), func(h http.Header) { h.Set("webhook-signature", "v1,!!") }},
		"other version": {time.Now(), func(h http.Header) {
			h.Set("webhook-signature", strings.Replace(h.Get("webhook-signature"), "v1,", "v2,", 1))
		}},
		"no id": {time.Now(), func(h http.Header) { h.Del("webhook-id") }},
	} {
		if status, _, err := b.post(t, "evt_1", c.at, "{}", c.tamper); err != nil || status != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", name, status, err)
		}
	}
	rotated := func(h http.Header) { h.Set("webhook-signature", "v1,AAAA "+h.Get("webhook-signature")) }
	if status, _, err := b.post(t, "evt_1", time.Now(), "{}", rotated); err != nil || status != http.StatusOK {
		t.Errorf("among several signatures: %d %v", status, err)
	}
	if status, _, err := b.post(t, "evt_2", time.Now(), strings.Repeat("x", maxBody+1), nil); err == nil && status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", status)
	}
	if n := b.effects(t); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestRun starts the command, posts to it and stops it.
func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := net.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"--listen", "127.0.0.1:0", "--secret", secret, "--db", filepath.Join(t.TempDir(), "r.db")}, w)
		_ = w.Close()
		done <- err
	}()
	line := make([]byte, 100)
	n, err := r.Read(line)
	if err != nil || !strings.HasPrefix(string(line[:n]), "listening on http://127.0.0.1:") {
		t.Errorf("%q %v", line[:n], err)
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := run(t.Context(), []string{"--secret", "nonsense"}, io.Discard); !errors.Is(err, errSecret) {
		t.Errorf("a bad secret: %v", err)
	}
}
