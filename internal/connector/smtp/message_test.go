package smtp

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fireonce/fireonce/internal/connector/kit"
)

const key = "0199c0de-0000-7000-8000-000000000001"

func box(local string) kit.Mailbox {
	return kit.Mailbox{Local: local, Domain: "example.org"}
}

// read parses a message as a reader of mail does, by the standard library.
func read(t interface{ Fatal(...any) }, m message) (head mail.Header, parts map[string]string) {
	parsed, err := mail.ReadMessage(bytes.NewReader(m.data))
	if err != nil {
		t.Fatal(err)
	}
	parts = make(map[string]string)
	kind, params, err := mime.ParseMediaType(parsed.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "multipart/alternative" {
		parts[kind] = decode(t, parsed.Header.Get("Content-Transfer-Encoding"), parsed.Body)
		return parsed.Header, parts
	}
	for r := multipart.NewReader(parsed.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parsed.Header, parts
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, err := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if err != nil {
			t.Fatal(err)
		}
		parts[kind] = decode(t, p.Header.Get("Content-Transfer-Encoding"), p)
	}
}

func decode(t interface{ Fatal(...any) }, encoding string, r io.Reader) string {
	switch encoding {
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	default:
		t.Fatal("encoding", encoding)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lines is a text with the ends of its lines as mail has them.
func lines(text string) string {
	return strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(text)
}

func words2047(t interface{ Fatal(...any) }, text string) string {
	out, err := new(mime.WordDecoder).DecodeHeader(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// text is anything that a user may write into a body.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune("a.= \r\n\t-_äß漢🙂\x00"))),
		rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{".", "..", "a", "", "From x", "漢字漢字漢字", strings.Repeat("long ", 300)})), func(l []string) string {
			return strings.Join(l, "\n")
		}),
	)
}

// one is a line: a subject or a name.
func one() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune(`ab =?_"\,<>@:;äß漢🙂`)), 0, 998, -1)
}

// TestMessageProperty: whatever is written is read back as it was, in lines that
// every relay takes, and the frozen bytes hold all of it.
func TestMessageProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := kit.Email{
			From: box("ada"), To: []kit.Mailbox{box("bob")}, Subject: one().Draw(t, "subject"),
			Text: text().Draw(t, "text"), HTML: text().Draw(t, "html"),
		}
		e.From.Name = strings.TrimSpace(one().Draw(t, "name"))
		for range rapid.IntRange(0, 3).Draw(t, "cc") {
			e.CC = append(e.CC, box(rapid.StringOfN(rapid.SampledFrom([]rune("ab.\" @")), 1, 20, -1).Draw(t, "local")))
		}
		m, err := compose(e, key)
		if err != nil {
			t.Fatal(err)
		}
		if !validData(m.data, false) {
			t.Fatalf("not what a relay takes: %q", m.data)
		}
		back, err := thaw(m.freeze())
		if err != nil || !bytes.Equal(back.data, m.data) || back.id != m.id || back.from != m.from || !slices.Equal(back.to, m.to) || back.utf8 != m.utf8 {
			t.Fatalf("%+v, %v", back, err)
		}
		head, parts := read(t, m)
		if got := words2047(t, head.Get("Subject")); strings.TrimSpace(got) != strings.TrimSpace(e.Subject) {
			t.Fatalf("subject %q, want %q", got, e.Subject)
		}
		from, err := head.AddressList("From")
		if err != nil || len(from) != 1 || from[0].Name != e.From.Name || from[0].Address != "ada@example.org" {
			t.Fatalf("from %+v, %v, want %q", from, err, e.From.Name)
		}
		if cc, err := head.AddressList("Cc"); len(e.CC) > 0 && (err != nil || len(cc) != len(e.CC)) {
			t.Fatalf("cc %q: %v", head.Get("Cc"), err)
		}
		for kind, want := range map[string]string{"text/plain": e.Text, "text/html": e.HTML} {
			got, there := parts[kind]
			if !there && want == "" {
				continue
			}
			if strings.TrimSuffix(got, "\r\n") != strings.TrimSuffix(lines(want), "\r\n") {
				t.Fatalf("%s is read as %q, want %q", kind, got, lines(want))
			}
		}
		if len(head["Bcc"]) > 0 || head.Get("Message-Id") != "<"+key+"@example.org>" {
			t.Fatalf("header %v", head)
		}
	})
}

// Every end of a line is kept, whatever stands beside it.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"\r=\na", "a\r\n\nb", "a\n\r\nb", "a\r\rb", "ä\rä\n", "\n", "a \n", "a\t\r", "aaaaaaaa\r=\n"} {
		m, err := compose(kit.Email{From: box("ada"), To: []kit.Mailbox{box("bob")}, Text: in}, key)
		if err != nil {
			t.Fatal(err)
		}
		if _, parts := read(t, m); strings.TrimSuffix(parts["text/plain"], "\r\n") != strings.TrimSuffix(lines(in), "\r\n") {
			t.Errorf("%q is read as %q, want %q", in, parts["text/plain"], lines(in))
		}
	}
}

// TestStuff: a relay that takes the dots out again has the message, and its end
// is where it was said.
func TestStuff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{".", "..", ".a", "a", "", "a."}), 1, 20).Draw(t, "lines"), "\r\n") + "\r\n"
		sent := string(stuff([]byte(data))) + ".\r\n"
		var got []string
		for line := range strings.SplitSeq(sent, "\r\n") {
			if line == "." {
				break
			}
			got = append(got, strings.TrimPrefix(line, "."))
		}
		if strings.Join(got, "\r\n")+"\r\n" != data {
			t.Fatalf("%q is taken as %q", data, got)
		}
	})
}

func TestEnvelope(t *testing.T) {
	t.Parallel()
	m, err := compose(kit.Email{
		From: box("ada"), BCC: []kit.Mailbox{box("bob"), box("eve"), box("bob")}, Text: "x",
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.to, []string{"<bob@example.org>", "<eve@example.org>"}) {
		t.Errorf("recipients %q, want each once", m.to)
	}
	if text := string(m.data); strings.Contains(text, "bob") || !strings.Contains(text, "To: undisclosed-recipients:;\r\n") {
		t.Errorf("message %q", text)
	}
}

// TestThaw: frozen bytes that could break the conversation are refused.
func TestThaw(t *testing.T) {
	t.Parallel()
	good, err := compose(kit.Email{From: box("ada"), To: []kit.Mailbox{box("bob")}, Subject: "Hello", Text: "x"}, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := thaw(good.freeze()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*message){
		"no recipient":        func(m *message) { m.to = nil },
		"a command in a path": func(m *message) { m.to = []string{"<a@b>\r\nDATA"} },
		"no brackets":         func(m *message) { m.from = "a@b" },
		"beyond ASCII":        func(m *message) { m.to = []string{"<ä@b>"} },
		"no id":               func(m *message) { m.id = "" },
		"an id of two lines":  func(m *message) { m.id = "<a@b\r\n>" },
		"no end":              func(m *message) { m.data = []byte("a: b\r\n\r\nx") },
		"nothing":             func(m *message) { m.data = nil },
		"a bare LF":           func(m *message) { m.data = []byte("a: b\r\n\r\nx\n.\r\n") },
		"a bare CR":           func(m *message) { m.data = []byte("a: b\r\n\r\nx\r.\r\n") },
		"a NUL":               func(m *message) { m.data = []byte("a: b\r\n\r\n\x00\r\n") },
		"eight bits":          func(m *message) { m.data = []byte("a: ä\r\n\r\n") },
		"a long line":         func(m *message) { m.data = []byte(strings.Repeat("a", 999) + "\r\n") },
		"too many": func(m *message) {
			for range maxPaths {
				m.to = append(m.to, "<a@b>")
			}
		},
	} {
		m := good
		change(&m)
		if _, err := thaw(m.freeze()); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for n := range len(good.freeze()) {
		if m, err := thaw(good.freeze()[:n]); err == nil {
			t.Errorf("cut after %d bytes: %+v", n, m)
		}
	}
}

func FuzzReply(f *testing.F) {
	for _, seed := range []string{"250 ok", "250-a", "250", "25", "250ok", "999 x", "-50 x", "2 0 x", "+25 x", "250\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		code, text, last, ok := parseLine(line)
		if !ok {
			return
		}
		if code < 200 || code > 599 || !strings.HasSuffix(line, text) || last == strings.HasPrefix(line[3:], "-") {
			t.Fatalf("%q: %d %q %v", line, code, text, last)
		}
	})
}

// FuzzCompose: no text of a user makes a line that ends the message or is none.
func FuzzCompose(f *testing.F) {
	f.Add("Hello", "Name", "a\r\n.\r\nb", "<p>.\n.</p>")
	f.Fuzz(func(t *testing.T, subject, name, body, html string) {
		for _, s := range []string{subject, name, body, html} {
			if !utf8.ValidString(s) {
				return
			}
		}
		if strings.ContainsFunc(subject+name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return
		}
		from := box("ada")
		from.Name = name
		m, err := compose(kit.Email{From: from, To: []kit.Mailbox{box("bob")}, Subject: subject, Text: body, HTML: html}, key)
		if err != nil {
			t.Fatal(err)
		}
		if !validData(m.data, false) {
			if len([]rune(subject)) > 998 || len(name) > 320 {
				return
			}
			t.Fatalf("not what a relay takes: %q", m.data)
		}
	})
}
