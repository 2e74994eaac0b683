package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	fireonce "github.com/fireonce/fireonce/clients/go"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

const token = "a-token-for-the-tests-0123456789"

// start runs the program and returns its URL.
func start(t *testing.T, args ...string) string {
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

// as returns a client that calls with a token.
func as(url, token string) connectorv1connect.ConnectorServiceClient {
	return connectorv1connect.NewConnectorServiceClient(http.DefaultClient, url, connect.WithInterceptors(
		connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
				r.Header().Set("Authorization", "Bearer "+token)
				return next(ctx, r)
			}
		})))
}

func content(t *testing.T, text string) *connectorv1.Content {
	t.Helper()
	data, err := json.Marshal(entry{Name: "Ada", Text: text})
	if err != nil {
		t.Fatal(err)
	}
	return &connectorv1.Content{Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{
		Custom: &fireoncev1.CustomPayload{Schema: schema, Data: data},
	}}}
}

// TestGuests checks that a guest who may not write is refused before anything is sent.
func TestGuests(t *testing.T) {
	dir := t.TempDir()
	guests := filepath.Join(dir, "guests")
	if err := os.WriteFile(guests, []byte("first\nsecond\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := as(start(t, "--book", filepath.Join(dir, "book"), "--guests", guests), token)
	for guest, ok := range map[string]bool{"first": true, "second": true, "third": false} {
		got, err := c.Test(t.Context(), &connectorv1.TestRequest{Account: &connectorv1.Account{Credential: &connectionsv1.Credential{
			Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: guest}},
		}}})
		if err != nil || (got.GetTested() != nil) != ok || (got.GetRefused().GetKind() == connectorv1.Refusal_KIND_AUTH) == ok {
			t.Errorf("%s: %v, %v", guest, got, err)
		}
	}
}

// TestStrangers checks that a caller without the token is not served.
func TestStrangers(t *testing.T) {
	url := start(t, "--book", filepath.Join(t.TempDir(), "book"))
	for caller, want := range map[string]connect.Code{token: 0, "another": connect.CodeUnauthenticated} {
		_, err := as(url, caller).Describe(t.Context(), &connectorv1.DescribeRequest{})
		if (want == 0) != (err == nil) || err != nil && connect.CodeOf(err) != want {
			t.Errorf("%s: %v", caller, err)
		}
	}
}

// TestPrepare checks that an entry that is too long is refused when it is scheduled.
func TestPrepare(t *testing.T) {
	c := as(start(t, "--book", filepath.Join(t.TempDir(), "book")), token)
	for text, ok := range map[string]bool{"I was here": true, "": false, strings.Repeat("ä", maxText): true, strings.Repeat("ä", maxText+1): false} {
		got, err := c.Prepare(t.Context(), &connectorv1.PrepareRequest{EffectKey: "k", Content: content(t, text)})
		if err != nil || (got.GetPrepared() != nil) != ok || (got.GetInvalid() == nil) != ok {
			t.Errorf("%d bytes: %v, %v", len(text), got, err)
		}
	}
}

// TestClientToo checks that a connector may be a client of Fireonce in the same program.
func TestClientToo(t *testing.T) {
	if _, err := fireonce.New("http://127.0.0.1:8080", fireonce.Options{}); err != nil {
		t.Error(err)
	}
}

// TestTorn checks that a partial line is not an entry, and that the next entry replaces it.
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
			t.Errorf("mark %q was accepted", bad)
		}
	}
}

// TestLate checks that the book asks whether an entry is still wanted directly before it writes
// the entry, and not before it waits for other writes.
func TestLate(t *testing.T) {
	b, err := openBook(filepath.Join(t.TempDir(), "book"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.close() }()
	_, written, err := b.add(entry{Key: "a", Name: "Ada", Text: "x"}, func() bool {
		if b.mu.TryLock() {
			b.mu.Unlock()
			t.Error("asked before the entry could be written")
		}
		return false
	})
	if written || !errors.Is(err, errLate) || b.end != 0 {
		t.Errorf("written %v, %v, the book has %d bytes", written, err, b.end)
	}
	out, err := (&guestbook{book: b}).Publish(t.Context(), &connectorv1.PublishRequest{Content: content(t, "x")})
	if err != nil || out.GetNotSent() == nil || b.end != 0 {
		t.Errorf("no time left: %v, %v", out, err)
	}
}
