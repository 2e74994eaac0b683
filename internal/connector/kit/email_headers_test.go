package kit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
)

func plainEmail() *fireoncev1.Email {
	return &fireoncev1.Email{Sender: "a@example.org", To: []string{"b@example.org"}, Subject: "Hello"}
}

// readEmail reads an e-mail, and checks that an error is an *InputError at a path.
func readEmail(t *testing.T, e *fireoncev1.Email, replyTo, field string, reason connector.InputReason) kit.Email {
	t.Helper()
	r := emailRequest(t, e)
	r.ReplyTo = replyTo
	got, err := kit.ReadEmail(r, "test")
	var input *connector.InputError
	switch {
	case reason == 0 && err != nil:
		t.Errorf("%v: %v", e, err)
	case reason != 0 && (!errors.As(err, &input) || input.Reason != reason || input.Field != field):
		t.Errorf("%v: %v, want an error at %s", e, err, field)
	}
	return got
}

func TestMailHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"From", "Sender", "Reply-To", "To", "Cc", "Bcc", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "List-Unsubscribe",
		"List-Unsubscribe-Post", "MIME-Version", "Content-Type", "Content-Transfer-Encoding", "Content-Anything", "Resent-From", "Resent-Bcc", "Received",
		"Received-SPF", "Return-Path", "Delivered-To", "DKIM-Signature", "DomainKey-Signature", "ARC-Seal", "Authentication-Results", "Apparently-To",
	} {
		for _, written := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			e := plainEmail()
			e.Headers = []*fireoncev1.EmailHeader{{Name: "X-A", Value: "b"}, {Name: written, Value: "x"}}
			readEmail(t, e, "", "payload.email.headers[1].name", connector.BadHeader)
		}
	}
	for _, name := range []string{
		"X-Campaign", "Precedence", "Auto-Submitted", "Feedback-ID", "List-Id", "List-Help", "Importance", "X-PM-Tag", "X-Mailgun-Tag", "X-SES-CONFIGURATION-SET",
		"Disposition-Notification-To", "Keywords", "X-From", "Contents", "x", strings.Repeat("x", 64),
	} {
		e := plainEmail()
		e.Headers = []*fireoncev1.EmailHeader{{Name: name, Value: " a  b "}}
		if got := readEmail(t, e, "", "", 0); !slices.Equal(got.Headers, []kit.MailHeader{{Name: name, Value: "a  b"}}) {
			t.Errorf("%s: %+v", name, got.Headers)
		}
	}
	for _, name := range []string{"", "X Y", "X:Y", "X:", "X\r\nBcc", "X\n", "Ü", "X\x00", strings.Repeat("x", 65), "X(a)"} {
		e := plainEmail()
		e.Headers = []*fireoncev1.EmailHeader{{Name: name, Value: "x"}}
		readEmail(t, e, "", "payload.email.headers[0].name", connector.BadPayload)
	}
	for _, value := range []string{
		"", " ", "\u3000", "a\r\nBcc: eve@example.org", "a\nb", "a\rb", "a\x00b", "a\tb", "a\u0085b", "a\u2028b", strings.Repeat("x", 999),
		strings.Repeat("ü", 999), strings.Repeat("x", 901), "a " + strings.Repeat("x", 901),
	} {
		e := plainEmail()
		e.Headers = []*fireoncev1.EmailHeader{{Name: "X-A", Value: value}}
		readEmail(t, e, "", "payload.email.headers[0].value", connector.BadPayload)
	}
	e := plainEmail()
	for i := range 21 {
		e.Headers = append(e.Headers, &fireoncev1.EmailHeader{Name: fmt.Sprint("X-", i), Value: "x"})
	}
	readEmail(t, e, "", "payload.email.headers", connector.BadPayload)
	e.Headers = e.Headers[:20]
	readEmail(t, e, "", "", 0)
}

// TestThread: References are those of the answered e-mail, and its own id (RFC 5322, section 3.6.4).
func TestThread(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		inReplyTo  string
		references []string
		job        string
		parent     string
		want       []string
	}{
		"no thread":                        {},
		"an answer":                        {inReplyTo: "<c@x>", parent: "<c@x>", want: []string{"<c@x>"}},
		"an answer in a thread":            {inReplyTo: "<c@x>", references: []string{"<a@x>", "<b@x>"}, parent: "<c@x>", want: []string{"<a@x>", "<b@x>", "<c@x>"}},
		"the answered one is named before": {inReplyTo: "<c@x>", references: []string{"<a@x>", "<c@x>", "<b@x>"}, parent: "<c@x>", want: []string{"<a@x>", "<b@x>", "<c@x>"}},
		"a thread without an answer":       {references: []string{"<a@x>"}, want: []string{"<a@x>"}},
		"the e-mail of a job":              {job: "<j@x>", parent: "<j@x>", want: []string{"<j@x>"}},
		"the e-mail of a job, in a thread": {job: "<j@x>", references: []string{"<a@x>"}, parent: "<j@x>", want: []string{"<a@x>", "<j@x>"}},
		"ids as programs write them":       {inReplyTo: "<CAF=8+a..b/c$1@mail.gmail.com>", parent: "<CAF=8+a..b/c$1@mail.gmail.com>", want: []string{"<CAF=8+a..b/c$1@mail.gmail.com>"}},
		"an address literal":               {inReplyTo: "<1@[127.0.0.1]>", parent: "<1@[127.0.0.1]>", want: []string{"<1@[127.0.0.1]>"}},
	} {
		e := plainEmail()
		e.InReplyTo, e.References = c.inReplyTo, c.references
		if got := readEmail(t, e, c.job, "", 0); got.InReplyTo != c.parent || !slices.Equal(got.References, c.want) {
			t.Errorf("%s: %q, %q", name, got.InReplyTo, got.References)
		}
	}
	for _, id := range []string{
		"c@x", "<c>", "<c@>", "<@x>", "<c@x", "c@x>", " <c@x>", "<c@x> <d@x>", "<c d@x>", "<<c@x>>", "<c@x>\r\nBcc: e@x", "<ü@x>", "4f1b", "<" + strings.Repeat("c", 251) + "@x>",
	} {
		e := plainEmail()
		e.InReplyTo = id
		readEmail(t, e, "", "payload.email.in_reply_to", connector.BadPayload)
		e.InReplyTo, e.References = "", []string{"<a@x>", id}
		readEmail(t, e, "", "payload.email.references[1]", connector.BadPayload)
		readEmail(t, plainEmail(), id, "payload.email", connector.BadPayload)
	}
	e := plainEmail()
	e.InReplyTo = "<c@x>"
	readEmail(t, e, "<j@x>", "payload.email.in_reply_to", connector.BadPayload)
	e = plainEmail()
	for i := range 51 {
		e.References = append(e.References, fmt.Sprintf("<%d@x>", i))
	}
	readEmail(t, e, "", "payload.email.references", connector.BadPayload)
}

func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   *fireoncev1.Unsubscribe
		want []string
	}{
		"none":            {nil, nil},
		"a page":          {&fireoncev1.Unsubscribe{Url: "https://example.org/u/1?a=b,c"}, []string{"<https://example.org/u/1?a=b,c>"}},
		"one click":       {&fireoncev1.Unsubscribe{Url: "https://example.org/u/1", OneClick: true}, []string{"<https://example.org/u/1>"}},
		"an address":      {&fireoncev1.Unsubscribe{Mailto: "mailto:leave@example.org"}, []string{"<mailto:leave@example.org>"}},
		"both":            {&fireoncev1.Unsubscribe{Url: "https://example.org/", Mailto: "mailto:leave@example.org?subject=a%20b&body=c", OneClick: true}, []string{"<https://example.org/>", "<mailto:leave@example.org?subject=a%20b&body=c>"}},
		"a domain":        {&fireoncev1.Unsubscribe{Mailto: "MAILTO:leave@bücher.example?subject=größer"}, []string{"<mailto:leave@xn--bcher-kva.example?subject=gr%C3%B6%C3%9Fer>"}},
		"blanks":          {&fireoncev1.Unsubscribe{Mailto: "mailto:leave@example.org?Subject=a b%20c"}, []string{"<mailto:leave@example.org?subject=a%20b%20c>"}},
		"braces":          {&fireoncev1.Unsubscribe{Mailto: "mailto:leave@example.org?subject={a}|\"b\""}, []string{"<mailto:leave@example.org?subject=%7Ba%7D%7C%22b%22>"}},
		"a tag, encoded":  {&fireoncev1.Unsubscribe{Mailto: "mailto:leave%2B42@example.org?Subject=x"}, []string{"<mailto:leave%2B42@example.org?Subject=x>"}},
		"beyond ASCII":    {&fireoncev1.Unsubscribe{Url: "HTTPS://bücher.example/Abmeldung/Größe?an=<ü>&a[]={1}|2", OneClick: true}, []string{"<https://xn--bcher-kva.example/Abmeldung/Gr%C3%B6%C3%9Fe?an=%3C%C3%BC%3E&a%5B%5D=%7B1%7D%7C2>"}},
		"the longest URL": {&fireoncev1.Unsubscribe{Url: "https://example.org/" + strings.Repeat("a", 880)}, []string{"<https://example.org/" + strings.Repeat("a", 880) + ">"}},
	} {
		e := plainEmail()
		e.Unsubscribe = c.in
		if got := readEmail(t, e, "", "", 0); !slices.Equal(got.Unsubscribe.Ways(), c.want) || got.Unsubscribe.OneClick != c.in.GetOneClick() {
			t.Errorf("%s: %+v", name, got.Unsubscribe)
		}
	}
	for at, all := range map[string][]*fireoncev1.Unsubscribe{
		"": {{}},
		".url": {
			{Url: "http://example.org/u"}, {Url: "mailto:a@example.org"}, {Url: "example.org/u"}, {Url: "https://ada:pw@example.org/"}, {Url: "https://example.org/a b"},
			{Url: "https://example.org/\r\nBcc: a@b.org"}, {Url: "https://example.org/" + strings.Repeat("a", 881)}, {Url: "javascript:alert(1)", Mailto: "mailto:a@example.org"},
		},
		".one_click": {{Mailto: "mailto:a@example.org", OneClick: true}},
		".mailto": {
			{Mailto: "a@example.org"}, {Mailto: "mailto:"}, {Mailto: "mailto:a"}, {Mailto: "mailto:a@example.org,b@example.org"}, {Mailto: "mailto:a@example.org?cc=b@example.org"},
			{Mailto: "mailto:a@example.org?subject=x&bcc=b@example.org"}, {Mailto: "mailto:Ada <a@example.org>"}, {Mailto: "mailto:a@example.org?subject=%"},
			{Mailto: "mailto:a@example.org?subject=a & b"}, {Mailto: "mailto:ö@example.org"}, {Mailto: "<mailto:a@example.org>"}, {Mailto: "mailto:<a@example.org>"},
			{Mailto: "mailto:a@example.org>"}, {Mailto: "mailto:a%0D%0A@example.org"}, {Mailto: "mailto:a@example.org?"},
			{Mailto: "https://example.org/@"}, {Mailto: "mailto:a@example.org?subject=" + strings.Repeat("a", 900)},
		},
	} {
		for _, in := range all {
			e := plainEmail()
			e.Unsubscribe = in
			readEmail(t, e, "", "payload.email.unsubscribe"+at, connector.BadPayload)
		}
	}
}
