package transport_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func TestClassifyTable(t *testing.T) {
	whole := func(status int) transport.Response {
		return transport.Response{Written: 10, Sent: true, Complete: true, Status: status, Header: http.Header{}}
	}
	for status := range 1000 {
		want, kind := job.ResultUnknown, job.FailAmbiguous
		switch {
		case status >= 200 && status <= 299:
			want, kind = job.ResultSucceeded, 0
		case status == 429:
			want, kind = job.ResultRejected, job.FailRateLimited
		case status == 401:
			want, kind = job.ResultRejected, job.FailAuth
		case status == 425:
			want, kind = job.ResultRejected, job.FailTransient
		case status >= 400 && status <= 499 && status != 408:
			want, kind = job.ResultRejected, job.FailPermanent
		}
		if o := judge(whole(status)); o.Result != want || o.Kind != kind || o.Message == "" || o.BytesWritten != 10 {
			t.Errorf("%d: %s %s", status, o.Result, o.Kind)
		}
		cut := whole(status)
		cut.Complete, cut.Err = false, io.ErrUnexpectedEOF
		if o := judge(cut); o.Result != job.ResultUnknown || o.Kind != job.FailAmbiguous {
			t.Errorf("%d, cut short: %s", status, o.Result)
		}
		unsent := whole(status)
		unsent.Written = 0
		if o := judge(unsent); o.Result != job.ResultNotSent || o.Kind != job.FailTransient {
			t.Errorf("%d, nothing written: %s", status, o.Result)
		}
	}
}

func TestMessagesNameTheKind(t *testing.T) {
	for want, err := range map[string]error{
		"out of time":            os.ErrDeadlineExceeded,
		"reset":                  &os.SyscallError{Syscall: "read", Err: syscall.ECONNRESET},
		"closed":                 io.EOF,
		"network went silent":    syscall.ETIMEDOUT,
		"not a readable":         errors.New("malformed HTTP response \"\x00\x1b[31m\""),
		"before the request":     transport.ErrConnDead,
		"body is too large":      transport.ErrBodyTooLarge,
		"connection was not use": nil,
	} {
		o := judge(transport.Response{Written: 5, Err: err})
		if !strings.Contains(o.Message, want) || o.Message != transport.Clean(o.Message, transport.MaxMessage) {
			t.Errorf("%v: %q lacks %q", err, o.Message, want)
		}
	}
}

func TestMessageQuotesTheAnswer(t *testing.T) {
	a := transport.Response{
		Written: 1, Sent: true, Complete: true, Status: 422, Header: http.Header{},
		Excerpt: []byte("{\"error\":\r\n\t\"\x1b[31mno\u202e such token-123456 thing\x00\"}" + strings.Repeat("x", 3000) + " token-12"),
		Cut:     true,
	}
	o := transport.Classify(a, "the peer", transport.Secrets{}.With("token-123456"))
	if want := `the peer answered 422 Unprocessable Entity: {"error": "[31mno such [redacted] thing"}`; !strings.HasPrefix(o.Message, want) {
		t.Errorf("%q", o.Message)
	}
	if len(o.Message) > 700 || strings.Contains(o.Message, "token") {
		t.Errorf("%d bytes: %q", len(o.Message), o.Message)
	}
}

func TestSecrets(t *testing.T) {
	s := transport.Secrets{}.With("pass/word+\"1", "tiny", "longer-pass/word+\"1")
	for _, text := range []string{`pass/word+"1`, "pass%2Fword%2B%221", `pass/word+\"1`, `longer-pass/word+"1`} {
		if got := s.Redact("<" + text + ">"); got != "<[redacted]>" {
			t.Errorf("%q gives %q", text, got)
		}
	}
	for _, text := range []string{`pass\/word+"1`, `pass/word+&#34;1`} { // as PHP writes JSON, as HTML
		if got := s.Redact("<" + text + ">"); got != "<[redacted]>" {
			t.Errorf("%q gives %q", text, got)
		}
	}
	// In another alphabet, behind anything and before anything, two letters stay.
	for before := range 4 {
		whole := []byte(strings.Repeat("u", before) + `pass/word+"1` + strings.Repeat("v", before))
		for _, text := range []string{
			hex.EncodeToString(whole), strings.ToUpper(hex.EncodeToString(whole)), base64.StdEncoding.EncodeToString(whole), base64.URLEncoding.EncodeToString(whole),
		} {
			if got := s.Redact(text); !strings.Contains(got, "[redacted]") || len(strings.ReplaceAll(got, "[redacted]", "")) > 8+8*before/2 {
				t.Errorf("%q gives %q", text, got)
			}
		}
	}
	if got := s.Redact("tiny"); got != "tiny" {
		t.Errorf("an ordinary word became %q", got)
	}
	if got := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); strings.Contains(got, "word") {
		t.Errorf("the secrets print: %s", got)
	}
}

// TestQuote: a secret is hidden that comes with letters in it which cleaning takes out,
// and none is cut in two before it is looked for.
func TestQuote(t *testing.T) {
	s := transport.Secrets{}.With("token-123456", "pass  word 1")
	for text, want := range map[string]string{
		"no token-123456 here":           "no [redacted] here",
		"no tok\x00en-1234\u200b56 here": "no [redacted] here",
		"no pass  word 1 here":           "no [redacted] here",
		"a\r\nb":                         "a b",
	} {
		if got := s.Quote(text, 100); got != want {
			t.Errorf("%q is quoted as %q, want %q", text, got, want)
		}
	}
	for before := range 100 {
		if got := s.Quote(strings.Repeat("x", before)+"token-123456", 50); strings.Contains(got, "token") {
			t.Errorf("behind %d letters: %q", before, got)
		}
		if got := s.Quote(strings.Repeat("x ", transport.MaxExcerpt/2-before)+"token-123456", 2*transport.MaxExcerpt); strings.Contains(got, "token") {
			t.Errorf("near the end: %q", got)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\r\nb\x00\xff\u202e", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		if limit < 4 || limit > 4096 {
			return
		}
		got := transport.Clean(text, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n\x00\x1b") {
			t.Fatalf("%q", got)
		}
		if again := transport.Clean(got, limit); again != got {
			t.Fatalf("%q becomes %q", got, again)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Fri, 31 Dec 1999 23:59:59 GMT")
	f.Add("-1")
	f.Fuzz(func(t *testing.T, value string) {
		wait, said := transport.RetryAfter(http.Header{"Retry-After": {value}}, time.Unix(946684799, 0))
		if said != (wait != 0) || (said && (wait < transport.MinRetryAfter || wait > transport.MaxRetryAfter)) {
			t.Fatalf("%q: %v, %v", value, wait, said)
		}
	})
}

var statusLine = regexp.MustCompile(`^HTTP/\d\.\d +(\d{3})(?: [^\n]*)?\r?\n`)

// definite parses raw by itself and returns the final status whose head is complete; 0:
// none.
func definite(raw []byte) int {
	for {
		m := statusLine.FindSubmatch(raw)
		if m == nil {
			return 0
		}
		status, _ := strconv.Atoi(string(m[1]))
		end := -1
		for _, blank := range []string{"\n\r\n", "\n\n"} {
			if i := bytes.Index(raw, []byte(blank)); i >= 0 && (end < 0 || i+len(blank) < end) {
				end = i + len(blank)
			}
		}
		if end < 0 {
			return 0
		}
		if status < 100 || status > 199 || status == 101 {
			return status
		}
		raw = raw[end:]
	}
}

// FuzzAnswer holds that whatever a peer answers, an outcome is definite only
// with a complete head whose status says so, and NOT_SENT never after a byte.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 404 Not Found\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 201 Created\n\nx", "HTTP/1.1 429 \r\nRetry-After: 5\r\n\r\n", "HTTP/1.1 500 x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "", "\r\n\r\n", "HTTP/1.1 2",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 101 x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := connectortest.NewPlatform(t, false, connectortest.SayAndClose(string(raw)))
		a := open(t, p.Sender(), p.URL(), true).Exchange(post(t, p.URL(), []byte("{}")), bounds(10*time.Second))
		o := judge(a)
		status := definite(raw)
		switch o.Result {
		case job.ResultSucceeded:
			if status < 200 || status > 299 {
				t.Fatalf("SUCCEEDED on %q", raw)
			}
		case job.ResultRejected:
			if status < 400 || status > 499 || status == 408 {
				t.Fatalf("REJECTED on %q", raw)
			}
		case job.ResultNotSent:
			if a.Written != 0 || p.Bytes() != 0 {
				t.Fatalf("NOT_SENT after %d bytes", p.Bytes())
			}
		case job.ResultUnknown:
		default:
			t.Fatalf("%v", o.Result)
		}
		p.Close()
		if p.Started() > 1 {
			t.Fatalf("%d requests", p.Started())
		}
	})
}
