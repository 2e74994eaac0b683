package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	connectorv1 "github.com/fireonce/fireonce/gen/fireonce/connector/v1"
	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/remote/remotetest"
	"github.com/fireonce/fireonce/internal/faultproxy"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/platformtest"
)

const (
	methods = "/fireonce.connector.v1.ConnectorService/"
	token   = remotetest.Token
)

// start runs the program on a book, and gives its URL.
func start(t testing.TB, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"--listen", "127.0.0.1:0", "--token", token}, args...), out)
		_ = out.CloseWithError(io.EOF)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatalf("it did not start: %v", err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), "listening on ")
	return url
}

func dial(t testing.TB, s *connector.Sender, url string) *remote.Connector {
	t.Helper()
	c, err := remote.New(remote.Config{Name: "guestbook", URL: url, Token: token, Sender: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func bearer(text string) *fireoncev1.Credential {
	return &fireoncev1.Credential{Kind: &fireoncev1.Credential_BearerToken{BearerToken: text}}
}

func content(text string) *fireoncev1.Payload {
	data, err := json.Marshal(entry{Name: "Ada", Text: text})
	if err != nil {
		panic(err)
	}
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{Schema: schema, Data: data}}}
}

// say is an answer in the connector's place.
func say(t *testing.T, m proto.Message) faultproxy.Fate {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return faultproxy.Fate{
		Fault: faultproxy.Refuse, Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/proto"}}, Body: string(body),
	}
}

func rejected(kind connectorv1.Refusal_Kind, after time.Duration) *connectorv1.PublishResponse {
	return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Rejected{Rejected: &connectorv1.Refusal{
		Kind: kind, Message: "says the test", RetryAfter: durationpb.New(after),
	}}}
}

// TestOnce: an engine, a database, and a network that loses calls and answers
// between Fireonce and this program. The file has each entry once.
func TestOnce(t *testing.T) {
	t.Parallel()
	platformtest.Run(t, func(t *testing.T) platformtest.Platform {
		t.Helper()
		path := filepath.Join(t.TempDir(), "guests.jsonl")
		return platformtest.Platform{
			URL: start(t, "--book", path), Class: job.Observable, Credential: bearer("first"), Renewed: bearer("second"),
			Connector: func(s *connector.Sender, baseURL string) connector.Connector { return dial(t, s, baseURL) },
			Settings:  func(string) []byte { return nil },
			Payload:   content,
			Commits:   func(r faultproxy.Request) bool { return r.Path == methods+"Publish" },
			Asks:      func(r faultproxy.Request) bool { return r.Path == methods+"Watermark" },
			Effects:   func(text string) []string { return written(t, path, text) },
			Unauthorized: say(t, &connectorv1.WatermarkResponse{Result: &connectorv1.WatermarkResponse_Refused{
				Refused: &connectorv1.Refusal{Kind: connectorv1.Refusal_KIND_AUTH, Message: "says the test"},
			}}),
			Refused: say(t, rejected(connectorv1.Refusal_KIND_PERMANENT, 0)),
			Limited: func(wait time.Duration) faultproxy.Fate {
				return say(t, rejected(connectorv1.Refusal_KIND_RATE_LIMITED, wait))
			},
		}
	})
}

// TestConformance: the suite of all connectors, with this program's own answers to
// what comes before an attempt.
func TestConformance(t *testing.T) {
	url := start(t, "--book", filepath.Join(t.TempDir(), "book"))
	remotetest.Run(t, remotetest.Service{
		Class: job.Observable, Payload: content("I was here"),
		Dial: func(tb testing.TB) *remote.Connector { return dial(tb, sender(tb), url) },
	}, false)
}

// written reads the book as anybody would.
func written(t *testing.T, path, text string) (ids []string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for line := range bytes.Lines(data) {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Text == text {
			ids = append(ids, strconv.Itoa(at))
		}
		at += len(line)
	}
	return ids
}

func sender(t testing.TB) *connector.Sender {
	s := connector.NewSender(connector.Config{Egress: connector.NewEgress(netip.MustParsePrefix("127.0.0.0/8"))})
	t.Cleanup(s.Close)
	return s
}

// TestGuests: who may not write is refused before anything is sent.
func TestGuests(t *testing.T) {
	dir := t.TempDir()
	guests := filepath.Join(dir, "guests")
	if err := os.WriteFile(guests, []byte("first\nsecond\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := dial(t, sender(t), start(t, "--book", filepath.Join(dir, "book"), "--guests", guests))
	for guest, ok := range map[string]bool{"first": true, "second": true, "third": false} {
		secret, err := proto.Marshal(bearer(guest))
		if err != nil {
			t.Fatal(err)
		}
		o := connector.Opening{Credential: connector.Credential{Version: 1, Data: secret}}
		if _, err := c.Test(t.Context(), o); (err == nil) != ok {
			t.Errorf("%s: %v", guest, err)
		}
	}
}

// TestStrangers: who does not know the token is not served.
func TestStrangers(t *testing.T) {
	url := start(t, "--book", filepath.Join(t.TempDir(), "book"))
	c, err := remote.New(remote.Config{Name: "guestbook", URL: url, Token: "another", Sender: sender(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context()); err == nil {
		t.Error("served a stranger")
	}
}

// TestPrepare: what has no room is refused when it is scheduled.
func TestPrepare(t *testing.T) {
	c := dial(t, sender(t), start(t, "--book", filepath.Join(t.TempDir(), "book")))
	for text, ok := range map[string]bool{"I was here": true, "": false, strings.Repeat("ä", maxText): true, strings.Repeat("ä", maxText+1): false} {
		encoded, err := proto.Marshal(content(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Prepare(connector.Request{EffectKey: "k", PayloadKind: "custom", Payload: encoded}); (err == nil) != ok {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}

// TestTorn: half of a line is no entry, and the next one begins where it began.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book")
	if err := os.WriteFile(path, []byte("{\"key\":\"a\",\"name\":\"Ada\",\"text\":\"x\"}\n{\"key\":\"b"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := openBook(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.close() }()
	mark, err := b.mark()
	if err != nil {
		t.Fatal(err)
	}
	id, _, err := b.add(entry{Key: "b", Name: "Ada", Text: "y"}, func() bool { return true })
	if err != nil || id != mark {
		t.Errorf("id %q, %v, want %q", id, err, mark)
	}
	for key, want := range map[string]int{"a": 1, "b": 1, "c": 0} {
		if ids, err := b.find("0", key); err != nil || len(ids) != want {
			t.Errorf("%s: %q, %v", key, ids, err)
		}
	}
	if ids, err := b.find(mark, "a"); err != nil || len(ids) != 0 {
		t.Errorf("an entry from before the mark: %q, %v", ids, err)
	}
	for _, bad := range []string{"", "-1", "9999", "x"} {
		if _, err := b.find(bad, "a"); err == nil {
			t.Errorf("mark %q was taken", bad)
		}
	}
}

// TestLate: whether an entry is still wanted is asked when its turn to be written has
// come, and not before a wait for others.
func TestLate(t *testing.T) {
	b, err := openBook(filepath.Join(t.TempDir(), "book"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.close() }()
	_, written, err := b.add(entry{Key: "a", Name: "Ada", Text: "x"}, func() bool {
		if b.mu.TryLock() {
			b.mu.Unlock()
			t.Error("asked before its turn")
		}
		return false
	})
	if written || !errors.Is(err, errLate) || b.end != 0 {
		t.Errorf("written %v, %v, the book has %d bytes", written, err, b.end)
	}
	out, err := (&guestbook{book: b}).Publish(t.Context(), &connectorv1.PublishRequest{Content: &connectorv1.Content{Payload: content("x")}})
	if err != nil || out.GetNotSent() == nil || b.end != 0 {
		t.Errorf("no time left: %v, %v", out, err)
	}
}
