package smtp

import (
	"bytes"
	"net/mail"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/connector/kit"
)

// headOf returns the lines of a message's header.
func headOf(t interface{ Fatalf(string, ...any) }, m message) []string {
	head, _, ok := bytes.Cut(m.data, []byte("\r\n\r\n"))
	if !ok {
		t.Fatalf("no header in %q", m.data)
	}
	return strings.Split(string(head), "\r\n")
}

// TestHeadersProperty: each header that is added is read back by other code as it was, no other
// header appears, and the lines are as long as RFC 5322, section 2.1.1, and RFC 2047, section 2,
// allow.
func TestHeadersProperty(t *testing.T) {
	t.Parallel()
	signs := []rune("abc  ,;:=?_\"\\<>@()[]%.äß漢🙂\u200d{}")
	rapid.Check(t, func(t *rapid.T) {
		e := kit.Email{From: box("ada"), To: []kit.Mailbox{box("bob")}, Text: "x", Subject: one().Draw(t, "subject")}
		e.From.Name = strings.TrimSpace(one().Draw(t, "name"))
		want := make(map[string]string)
		for n := range rapid.IntRange(0, 5).Draw(t, "count") {
			h := kit.MailHeader{
				Name:  "X-" + rapid.StringOfN(rapid.SampledFrom([]rune("abcXYZ-")), 1, 60, -1).Draw(t, "name") + string(rune('0'+n)),
				Value: "a" + rapid.StringOfN(rapid.SampledFrom(signs), 0, 400, -1).Draw(t, "value") + "z",
			}
			if strings.Contains(h.Value, "=?") { // which is written as it is, and read as encoded
				h.Value = strings.ReplaceAll(h.Value, "=?", "")
			}
			e.Headers, want[h.Name] = append(e.Headers, h), h.Value
		}
		m, err := compose(e, key)
		if err != nil {
			t.Fatal(err)
		}
		if !validData(m.data, false) {
			t.Fatalf("not what a relay takes: %q", m.data)
		}
		for _, line := range headOf(t, m) {
			if strings.Contains(line, "=?utf-8?B?") && len(line) > 76 || strings.TrimSpace(line) == "" {
				t.Fatalf("the line %q", line)
			}
		}
		parsed, err := mail.ReadMessage(bytes.NewReader(m.data))
		if err != nil {
			t.Fatal(err)
		}
		added := 0
		for name, values := range parsed.Header {
			if strings.HasPrefix(name, "X-") {
				added += len(values)
			}
		}
		if added != len(e.Headers) || len(parsed.Header)-len(e.Headers) != 7 && len(parsed.Header)-len(e.Headers) != 6 {
			t.Fatalf("%d headers of %d: %v", added, len(e.Headers), parsed.Header)
		}
		for name, value := range want {
			// net/mail joins folded lines with one blank, whatever was there.
			got := words2047(t, parsed.Header.Get(name))
			if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(value), " ") {
				t.Fatalf("%s is read as %q, want %q", name, got, value)
			}
		}
	})
}

// TestHeaders: what is written, to the byte.
func TestHeaders(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30) + "end"
	for name, c := range map[string]struct {
		change func(*kit.Email)
		want   string
	}{
		"none": {func(*kit.Email) {}, "Subject: Hello\r\nMIME-Version: 1.0\r\n"},
		"an answer": {func(e *kit.Email) { e.InReplyTo, e.References = "<b@x>", []string{"<a@x>", "<b@x>"} },
			"In-Reply-To: <b@x>\r\nReferences: <a@x> <b@x>\r\nSubject: Hello\r\n"},
		"a long thread": {func(e *kit.Email) {
			e.References = []string{"<" + strings.Repeat("a", 60) + "@x>", "<" + strings.Repeat("b", 200) + "@x>", "<c@x>"}
		}, "References: <" + strings.Repeat("a", 60) + "@x>\r\n <" + strings.Repeat("b", 200) + "@x>\r\n <c@x>\r\n"},
		"unsubscribe": {func(e *kit.Email) {
			e.Unsubscribe = kit.Unsubscribe{URL: "https://example.org/u/1", Mailto: "mailto:leave@example.org?subject=x", OneClick: true}
		}, "List-Unsubscribe: <https://example.org/u/1>,\r\n <mailto:leave@example.org?subject=x>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"},
		"unsubscribe by a link": {func(e *kit.Email) { e.Unsubscribe.URL = "https://example.org/u/1,2" },
			"Subject: Hello\r\nList-Unsubscribe: <https://example.org/u/1,2>\r\nMIME-Version: 1.0\r\n"},
		"a relay's tag": {func(e *kit.Email) {
			e.Headers = []kit.MailHeader{{Name: "X-PM-Tag", Value: "welcome"}, {Name: "X-PM-Tag", Value: "two"}}
		},
			"X-PM-Tag: welcome\r\nX-PM-Tag: two\r\n"},
		"JSON for a relay": {func(e *kit.Email) {
			e.Headers = []kit.MailHeader{{Name: "X-SMTPAPI", Value: `{"category":  ["a", "b"]}`}}
		},
			`X-SMTPAPI: {"category":  ["a", "b"]}` + "\r\n"},
		"folded": {func(e *kit.Email) { e.Headers = []kit.MailHeader{{Name: "X-A", Value: long}} },
			"X-A: " + strings.TrimSpace(strings.Repeat("word ", 14)) + "\r\n " + strings.TrimSpace(strings.Repeat("word ", 15)) + "\r\n word end\r\n"},
		"one long word": {func(e *kit.Email) { e.Headers = []kit.MailHeader{{Name: "X-A", Value: strings.Repeat("x", 900)}} },
			"X-A: " + strings.Repeat("x", 900) + "\r\n"},
		"beyond ASCII": {func(e *kit.Email) { e.Headers = []kit.MailHeader{{Name: "X-A", Value: "Grüße"}} },
			"X-A: =?utf-8?B?R3LDvMOfZQ==?=\r\n"},
		"encoded already": {func(e *kit.Email) { e.Headers = []kit.MailHeader{{Name: "X-A", Value: "=?utf-8?B?R3LDvMOfZQ==?="}} },
			"X-A: =?utf-8?B?R3LDvMOfZQ==?=\r\n"},
		"beyond ASCII under a long name": {func(e *kit.Email) {
			e.Headers = []kit.MailHeader{{Name: "X-" + strings.Repeat("a", 62), Value: "Grüße"}}
		},
			"X-" + strings.Repeat("a", 62) + ":\r\n =?utf-8?B?R3LDvMOfZQ==?=\r\n"},
		"a name in parentheses": {func(e *kit.Email) { e.From.Name = `Support (Billing) "24/7"` },
			`From: "Support (Billing) \"24/7\"" <ada@example.org>` + "\r\n"},
	} {
		e := kit.Email{From: box("ada"), To: []kit.Mailbox{box("bob")}, Subject: "Hello", Text: "x"}
		c.change(&e)
		m, err := compose(e, key)
		if err != nil {
			t.Fatal(err)
		}
		if !validData(m.data, false) || !strings.Contains(string(m.data), c.want) {
			t.Errorf("%s:\n%s\nwant in it\n%s", name, m.data, c.want)
		}
		if back, err := thaw(m.freeze()); err != nil || !bytes.Equal(back.data, m.data) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
