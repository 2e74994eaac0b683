package kit

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const keptSecret = "bearer-secret/42"

func keptHide() transport.Secrets { return transport.Secrets(nil).With(keptSecret) }

func keepOf(t testing.TB, body int32, headers ...string) *Keep {
	t.Helper()
	k, err := ParseKeep("settings.http", &connectionsv1.KeepAnswer{Headers: headers, MaxBodyBytes: body})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func said(body string) transport.Response {
	return transport.Response{Written: 1, Sent: true, Status: 201, Header: http.Header{}, Complete: true, Excerpt: []byte(body)}
}

func TestKeepBody(t *testing.T) {
	const limit = 40
	long := strings.Repeat("x", limit)
	for name, tt := range map[string]struct {
		body     string
		want     string
		cut      bool
		omission job.BodyOmission
	}{
		"as it is":                      {"{\n\t\"id\": \"ch_1\"\r\n}", "{\n\t\"id\": \"ch_1\"\r\n}", false, 0},
		"as long as it may be":          {long, long, false, 0},
		"longer":                        {long + "y", long, true, 0},
		"none":                          {"", "", false, 0},
		"a secret":                      {"key=" + keptSecret + "!", "key=[redacted]!", false, 0},
		"a secret in base64":            {base64.StdEncoding.EncodeToString([]byte("a" + keptSecret + "b")), "", false, 0},
		"a secret in hexadecimal":       {hex.EncodeToString([]byte(keptSecret)), "[redacted]", false, 0},
		"a secret with unseen letters":  {"k " + strings.Join(strings.Split(keptSecret, ""), "\u200b"), "k [redacted]", false, 0},
		"unseen letters, and no secret": {"family \U0001F468\u200d\U0001F469", "family \U0001F468\u200d\U0001F469", false, 0},
		"a letter across the cap":       {strings.Repeat("x", limit-1) + "é!", strings.Repeat("x", limit-1), true, 0},
		"no UTF-8":                      {"caf\xe9", "", false, job.BodyBinary},
		"a zero":                        {"a\x00b", "", false, job.BodyBinary},
		"an escape":                     {"\x1b[31mred", "", false, job.BodyBinary},
	} {
		got := keepOf(t, limit).Of(said(tt.body), keptHide)
		if name == "a secret in base64" {
			if strings.Contains(got.Body, base64.StdEncoding.EncodeToString([]byte(keptSecret))[4:12]) || !strings.Contains(got.Body, "[redacted]") {
				t.Errorf("%s: %q", name, got.Body)
			}
			continue
		}
		if got.Status != 201 || got.Body != tt.want || got.Cut != tt.cut || got.Omission != tt.omission {
			t.Errorf("%s: %+v, want %q, cut %t, omission %d", name, got, tt.want, tt.cut, tt.omission)
		}
	}
}

// TestKeepAcrossCaps: wherever a secret lies across what is kept and what is read, no
// part of it is kept that is long enough to be one.
func TestKeepAcrossCaps(t *testing.T) {
	const limit = 64
	for _, form := range []string{keptSecret, hex.EncodeToString([]byte(keptSecret)), strings.ReplaceAll(keptSecret, "/", `\/`)} {
		for _, encoded := range []bool{false, true} {
			for at := range 3 * limit {
				body := strings.Repeat("x", at) + form + strings.Repeat("y", 3*limit)
				a := said(body)
				k := keepOf(t, limit)
				if encoded { // the connection broke off, anywhere
					a.Excerpt, a.Cut = a.Excerpt[:at+len(form)/2], true
				} else if limit := int(k.BodyLimit(1, keptHide)); len(a.Excerpt) > limit {
					a.Excerpt, a.Cut = a.Excerpt[:limit], true
				}
				got := k.Of(a, keptHide)
				if strings.Contains(got.Body, form[:transport.MinSecret]) || len(got.Body) > limit || !utf8.ValidString(got.Body) {
					t.Fatalf("at %d, broken off %t: %q", at, encoded, got.Body)
				}
			}
		}
	}
}

func TestKeepHeaders(t *testing.T) {
	a := said("")
	a.Header = http.Header{
		"Request-Id": {"req_1"}, "X-Echo": {"Bearer " + keptSecret}, "X-Long": {strings.Repeat("x", 2*maxKeptValue)},
		"X-Many": make([]string, 2*maxKeptHeaders), "X-Other": {"not asked for"},
	}
	got := keepOf(t, 0, "request-ID", "x-echo", "X-Long", "X-Absent", "x-many").Of(a, keptHide)
	if len(got.Headers) != maxKeptHeaders {
		t.Errorf("%d headers", len(got.Headers))
	}
	want := []job.AnswerHeader{{Name: "Request-Id", Value: "req_1"}, {Name: "X-Echo", Value: "Bearer [redacted]"}}
	for i, h := range want {
		if got.Headers[i] != h {
			t.Errorf("%+v, want %+v", got.Headers[i], h)
		}
	}
	if n := len(got.Headers[2].Value); n > maxKeptValue {
		t.Errorf("%d bytes of a value", n)
	}
	for _, h := range got.Headers {
		if h.Name == "X-Other" {
			t.Error("a header was kept that nobody asked for")
		}
	}
}

// TestKeepOfBadAnswers: the part of a broken answer that arrived is kept. If no answer
// came, or the request did not ask to keep it, nothing is kept.
func TestKeepOfBadAnswers(t *testing.T) {
	broken := said("{\"id\":\"ch_1\", \"key\":\"bearer-sec")
	broken.Complete, broken.Err = false, errors.New("reset")
	got := keepOf(t, 1000).Of(broken, keptHide)
	if got == nil || !got.Cut || strings.Contains(got.Body, "bearer") {
		t.Errorf("an answer that broke off: %+v", got)
	}
	silent := broken
	silent.Status = 0
	unsent := broken
	unsent.Written = 0
	for name, a := range map[string]transport.Response{"no head": silent, "nothing sent": unsent} {
		if got := keepOf(t, 1000).Of(a, keptHide); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	packed := said("\x1f\x8b")
	packed.Header.Set("Content-Encoding", "gzip")
	if got := keepOf(t, 1000).Of(packed, keptHide); got.Omission != job.BodyEncoded || got.Body != "" {
		t.Errorf("a compressed body: %+v", got)
	}
	none, err := ParseKeep("settings.http", nil)
	if got := none.Of(said("x"), keptHide); err != nil || got != nil {
		t.Errorf("without keep_answer: %+v, %v", got, err)
	}
	if got := keepOf(t, 0).Of(said("x"), keptHide); got.Status != 201 || got.Body != "" || got.Omission != 0 {
		t.Errorf("only the status: %+v", got)
	}
}

func TestParseKeep(t *testing.T) {
	many := make([]string, maxKeptHeaders+1)
	for i := range many {
		many[i] = "X-" + string(rune('A'+i))
	}
	for name, k := range map[string]*connectionsv1.KeepAnswer{
		"headers[0]":     {Headers: []string{"not a name"}},
		"headers[1]":     {Headers: []string{"X-Good", "set-cookie"}},
		"headers":        {Headers: many},
		"max_body_bytes": {MaxBodyBytes: MaxKeptBody + 1},
	} {
		_, err := ParseKeep("settings.http", k)
		var bad *connector.InputError
		if !errors.As(err, &bad) || bad.Field != "settings.http.keep_answer."+name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
