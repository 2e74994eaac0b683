package kit_test

import (
	"bytes"
	"errors"
	"net/mail"
	"strings"
	"testing"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

func emailRequest(tb testing.TB, e *fireoncev1.Email) connector.Request {
	tb.Helper()
	b, err := proto.Marshal(&fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: e}})
	if err != nil {
		tb.Fatal(err)
	}
	return connector.Request{PayloadKind: kit.EmailKind, Payload: b}
}

// longDomain has n bytes.
func longDomain(n int) string { return strings.Repeat("a.", n/2-2) + strings.Repeat("b", n-2*(n/2-2)) }

func TestReadEmailAddresses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]kit.Mailbox{
		"ada@example.org":                        {Local: "ada", Domain: "example.org"},
		"Ada <ada@Example.ORG>":                  {Name: "Ada", Local: "ada", Domain: "example.org"},
		`"Lovelace, Ada" <ada+x@example.org>`:    {Name: "Lovelace, Ada", Local: "ada+x", Domain: "example.org"},
		"Zoë Ångström <zoe@example.org>":         {Name: "Zoë Ångström", Local: "zoe", Domain: "example.org"},
		"=?utf-8?q?Zo=C3=AB?= <zoe@example.org>": {Name: "Zoë", Local: "zoe", Domain: "example.org"},
		`"a b"@example.org`:                      {Local: "a b", Domain: "example.org"},
		"jürgen@bücher.example":                  {Local: "jürgen", Domain: "xn--bcher-kva.example"},
		"a@localhost":                            {Local: "a", Domain: "localhost"},
		"ada@" + longDomain(250):                 {Local: "ada", Domain: longDomain(250)},
	} {
		got, err := kit.ReadEmail(emailRequest(t, &fireoncev1.Email{Sender: in, To: []string{in}}), "test")
		if err != nil || got.From != want || got.To[0] != want {
			t.Errorf("%q: %+v, %v", in, got.From, err)
		}
	}
	if got := (kit.Mailbox{Local: "a b", Domain: "x.org"}).Address(); got != `"a b"@x.org` {
		t.Errorf("address %q", got)
	}
	for _, in := range []string{
		"", "ada", "@example.org", "ada@", "ada@example..org", "ada@.example.org", "ada@example.org.", "ada@[127.0.0.1]",
		"ada@exa mple.org", "ada@example_x.org", "a@example.org, b@example.org", "a@example.org b@example.org",
		"Ada\r\nBcc: eve@example.org <ada@example.org>", "=?utf-8?q?Ada=0D=0ABcc:_eve@example.org?= <ada@example.org>",
		"=?utf-8?b?QWRhDQo=?= <ada@example.org>", "\"a\\\rb\"@example.org", strings.Repeat("a", 65) + "@example.org",
		"a@" + strings.Repeat("a", 64) + ".org", "friends: a@example.org;", "a@b@example.org", "Ada\u2028 <ada@example.org>",
		`"<\"><evil@evil.example>"@example.org`, `"a<b"@example.org`, `"a>b"@example.org`, "=?utf-8?q?Ada?= <\"x<y\"@example.org>",
		"ada@" + longDomain(251), // RFC 5321, section 4.5.3.1.3
	} {
		for field, e := range map[string]*fireoncev1.Email{
			"payload.email.sender":      {Sender: in, To: []string{"b@example.org"}},
			"payload.email.cc[1]":       {Sender: "b@example.org", Cc: []string{"c@example.org", in}},
			"payload.email.reply_to[0]": {Sender: "b@example.org", To: []string{"b@example.org"}, ReplyTo: []string{in}},
		} {
			_, err := kit.ReadEmail(emailRequest(t, e), "test")
			var input *connector.InputError
			if !errors.As(err, &input) || input.Reason != connector.BadPayload || input.Field != field {
				t.Errorf("%q: %v, want an error at %s", in, err, field)
			}
		}
	}
}

func TestReadEmailContent(t *testing.T) {
	t.Parallel()
	good := func(change func(*fireoncev1.Email)) *fireoncev1.Email {
		e := &fireoncev1.Email{Sender: "a@example.org", To: []string{"b@example.org"}, Subject: "Hello"}
		change(e)
		return e
	}
	if _, err := kit.ReadEmail(emailRequest(t, good(func(*fireoncev1.Email) {})), "test"); err != nil {
		t.Fatal(err)
	}
	many := make([]string, 51)
	for i := range many {
		many[i] = "a@example.org"
	}
	for field, change := range map[string]func(*fireoncev1.Email){
		"":             func(e *fireoncev1.Email) { e.To = nil },
		".to":          func(e *fireoncev1.Email) { e.To = many },
		".bcc":         func(e *fireoncev1.Email) { e.Bcc = many },
		".reply_to":    func(e *fireoncev1.Email) { e.ReplyTo = many },
		".subject":     func(e *fireoncev1.Email) { e.Subject = "a\r\nBcc: b@example.org" },
		".text_body":   func(e *fireoncev1.Email) { e.TextBody = strings.Repeat("a", 262145) },
		".html_body":   func(e *fireoncev1.Email) { e.HtmlBody = strings.Repeat("a", 262145) },
		".attachments": func(e *fireoncev1.Email) { e.Attachments = make([]*fireoncev1.MediaRef, 21) },
		".attachments[0].url": func(e *fireoncev1.Email) {
			e.Attachments = []*fireoncev1.MediaRef{{Url: "ftp://example.org/a"}}
		},
		".attachments[0].sha256": func(e *fireoncev1.Email) {
			e.Attachments = []*fireoncev1.MediaRef{{Url: "https://example.org/a", Sha256: []byte("short")}}
		},
		".attachments[0].media_type": func(e *fireoncev1.Email) {
			e.Attachments = []*fireoncev1.MediaRef{{Url: "https://example.org/a", MediaType: "a\r\nBcc: b@example.org"}}
		},
		".attachments[1].file_name": func(e *fireoncev1.Email) {
			e.Attachments = []*fireoncev1.MediaRef{{Url: "https://example.org/a"}, {Url: "https://example.org/a", FileName: "a\r\nb"}}
		},
	} {
		_, err := kit.ReadEmail(emailRequest(t, good(change)), "test")
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadPayload || input.Field != "payload.email"+field {
			t.Errorf("%s: %v", field, err)
		}
	}
	r := emailRequest(t, good(func(*fireoncev1.Email) {}))
	r.PayloadKind = "webhook"
	var input *connector.InputError
	if _, err := kit.ReadEmail(r, "test"); !errors.As(err, &input) || input.Reason != connector.PayloadMismatch {
		t.Errorf("another kind of payload: %v", err)
	}
}

// A reference to a file is read back as it was frozen.
func TestFiles(t *testing.T) {
	t.Parallel()
	e := &fireoncev1.Email{Sender: "a@example.org", To: []string{"b@example.org"}, Attachments: []*fireoncev1.MediaRef{
		{Url: "https://Files.example/in/voice%20one.pdf?sig=x", MediaType: "application/pdf; name=evil"},
		{Url: "https://files.example", Sha256: make([]byte, 32), FileName: "Rechnung für Zoë.pdf"},
		{Url: "https://files.example/a%5Cb"},
	}}
	got, err := kit.ReadEmail(emailRequest(t, e), "test")
	if err != nil {
		t.Fatal(err)
	}
	want := []kit.File{
		{URL: "https://files.example/in/voice%20one.pdf?sig=x", Type: "application/pdf", Name: "voice one.pdf"},
		{URL: "https://files.example/", SHA256: make([]byte, 32), Name: "Rechnung für Zoë.pdf"},
		{URL: "https://files.example/a%5Cb", Name: "attachment"},
	}
	c := job.NewCanon()
	for i, f := range got.Files {
		if f.URL != want[i].URL || f.Type != want[i].Type || f.Name != want[i].Name || !bytes.Equal(f.SHA256, want[i].SHA256) {
			t.Errorf("%+v, want %+v", f, want[i])
		}
		f.Encode(c)
	}
	fields, err := kit.DecodeCanon(c.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	back, err := kit.DecodeFiles(fields)
	if err != nil || len(back) != 3 || back[1].Name != want[1].Name {
		t.Errorf("%+v, %v", back, err)
	}
	for n := range len(fields) {
		if _, err := kit.DecodeFiles(fields[:n]); (err == nil) != (n%4 == 0) {
			t.Errorf("%d fields: %v", n, err)
		}
	}
	fields[3].Value = []byte("a\r\nb")
	if _, err := kit.DecodeFiles(fields); err == nil {
		t.Error("a name of two lines was taken")
	}
}

// FuzzMailbox: whatever is let through is one line and can be read back as it is.
func FuzzMailbox(f *testing.F) {
	for _, seed := range []string{"a@b.org", `"a b" <"x\"y"@b.org>`, "=?utf-8?q?a=0Ab?= <a@b.org>", "é@é.org", `"<>"@b.org`, "(c) a@b.org", "A.B. <a@b.org>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := &fireoncev1.Email{Sender: strings.ToValidUTF8(text, "?"), To: []string{"b@example.org"}}
		got, err := kit.ReadEmail(emailRequest(t, e), "test")
		if err != nil {
			return
		}
		for _, part := range []string{got.From.Name, got.From.Local, got.From.Domain, got.From.Address()} {
			if strings.IndexFunc(part, unicode.IsControl) >= 0 {
				t.Fatalf("%q: a control character in %+v", text, got.From)
			}
		}
		back, err := mail.ParseAddress("<" + got.From.Address() + ">")
		if err != nil || back.Address != got.From.Local+"@"+got.From.Domain {
			t.Fatalf("%q: %q is read back as %v, %v", text, got.From.Address(), back, err)
		}
	})
}
