package kit

import (
	"crypto/sha256"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/mailbox"
)

// Rules of this file: user input becomes a header or an envelope later, so no text that
// could end a line is allowed, in any encoding.

// EmailKind is the kind of payload that is an e-mail.
const EmailKind = "email"

// Limits of an e-mail, as the contract states them.
const (
	maxRecipients = 50
	maxReplyTo    = 10
	maxSubject    = 998
	maxFiles      = 20
	maxFileName   = 255
	maxMediaType  = 127
	maxMailBody   = MaxRequestBody
)

// Mailbox is an address of an e-mail, checked.
type Mailbox = mailbox.Mailbox

// Email is a checked e-mail.
type Email struct {
	From    Mailbox
	To      []Mailbox
	CC      []Mailbox
	BCC     []Mailbox
	ReplyTo []Mailbox
	Subject string
	Text    string
	HTML    string
	Files   []File
	// Headers are added, in this order.
	Headers []MailHeader
	// InReplyTo is the Message-ID of the e-mail that this one answers; empty: none.
	InReplyTo string
	// References are the Message-IDs of its thread, the oldest first and InReplyTo last.
	References  []string
	Unsubscribe Unsubscribe
}

// File is an attachment, kept elsewhere until it is sent.
type File struct {
	// URL is one that ParseURL gave.
	URL string
	// SHA256 is its digest; empty: whatever is there when it is sent.
	SHA256 []byte
	// Type is its media type without parameters; empty: that of its host.
	Type string
	// Name is shown to the reader; never empty.
	Name string
}

// Ref is what Media fetches.
func (f File) Ref() *fireoncev1.MediaRef {
	return &fireoncev1.MediaRef{Url: f.URL, Sha256: f.SHA256, MediaType: f.Type}
}

// CheckFiles refuses attachments that the server cannot fetch: any without Media, or those without
// TLS. It fails with *InputError.
func (e Email) CheckFiles(m *Media, httpsOnly bool) error {
	if len(e.Files) > 0 && m == nil {
		return BadEmail(".attachments", noMedia)
	}
	for i, f := range e.Files {
		if httpsOnly && !strings.HasPrefix(f.URL, "https://") {
			return BadEmail(fmt.Sprintf(".attachments[%d].url", i), "the URL must start with https://")
		}
	}
	return nil
}

// Encode appends the reference to an encoding.
func (f File) Encode(c *job.Canon) *job.Canon { return Freeze(c, f.fields()...) }

// fields are the frozen encoding: these, in this order.
func (f *File) fields() []FrozenField {
	return []FrozenField{{"file_url", &f.URL}, {"file_sha256", &f.SHA256}, {"file_type", &f.Type}, {"file_name", &f.Name}}
}

// DecodeFiles reads frozen references. It checks again what is made of them: the
// bytes come from a database.
func DecodeFiles(fields []CanonField) ([]File, error) {
	var refs []*fireoncev1.MediaRef
	for len(fields) > 0 {
		var f File
		var err error
		if fields, err = thawFields(fields, f.fields()...); err != nil || f.Name == "" {
			return nil, ErrBadCanon
		}
		refs = append(refs, &fireoncev1.MediaRef{Url: f.URL, Sha256: f.SHA256, MediaType: f.Type, FileName: f.Name})
	}
	out, err := files(refs)
	if err != nil {
		return nil, ErrBadCanon
	}
	return out, nil
}

// ReadEmail checks the e-mail of a request. It fails with *InputError. name is the
// connector's, for the message to a user who sends something else by it.
func ReadEmail(r connector.Request, name string) (Email, error) {
	p, err := ReadPayload(r, "the connector "+name+" sends e-mails", EmailKind)
	if err != nil {
		return Email{}, err
	}
	in := p.GetEmail()
	e := Email{Subject: in.GetSubject(), Text: in.GetTextBody(), HTML: in.GetHtmlBody()}
	if e.From, err = readMailbox(in.GetSender(), ".sender"); err != nil {
		return Email{}, err
	}
	for _, list := range []struct {
		field string
		in    []string
		most  int
		out   *[]Mailbox
	}{
		{".to", in.GetTo(), maxRecipients, &e.To}, {".cc", in.GetCc(), maxRecipients, &e.CC},
		{".bcc", in.GetBcc(), maxRecipients, &e.BCC}, {".reply_to", in.GetReplyTo(), maxReplyTo, &e.ReplyTo},
	} {
		if len(list.in) > list.most {
			return Email{}, BadEmail(list.field, fmt.Sprintf("at most %d", list.most))
		}
		for i, text := range list.in {
			m, err := readMailbox(text, fmt.Sprintf("%s[%d]", list.field, i))
			if err != nil {
				return Email{}, err
			}
			*list.out = append(*list.out, m)
		}
	}
	switch {
	case len(e.To)+len(e.CC)+len(e.BCC) == 0:
		return Email{}, BadEmail("", "must have a recipient in to, cc or bcc")
	case !oneLine(e.Subject) || utf8.RuneCountInString(e.Subject) > maxSubject:
		return Email{}, BadEmail(".subject", "must be one line of at most 998 characters")
	case !utf8.ValidString(e.Text) || len(e.Text) > maxMailBody:
		return Email{}, BadEmail(".text_body", "must be at most 262144 bytes of UTF-8")
	case !utf8.ValidString(e.HTML) || len(e.HTML) > maxMailBody:
		return Email{}, BadEmail(".html_body", "must be at most 262144 bytes of UTF-8")
	}
	if e.Files, err = files(in.GetAttachments()); err != nil {
		return Email{}, err
	}
	if e.Headers, err = mailHeaders(in.GetHeaders()); err != nil {
		return Email{}, err
	}
	if e.Unsubscribe, err = unsubscribe(in.GetUnsubscribe()); err != nil {
		return Email{}, err
	}
	return e, e.readThread(in, r.ReplyTo)
}

// files reads the references to an e-mail's attachments.
func files(refs []*fireoncev1.MediaRef) ([]File, error) {
	if len(refs) > maxFiles {
		return nil, BadEmail(".attachments", fmt.Sprintf("at most %d", maxFiles))
	}
	var out []File
	for i, ref := range refs {
		field := fmt.Sprintf(".attachments[%d]", i)
		u, err := transport.ParseURL(ref.GetUrl())
		if err != nil {
			return nil, BadEmail(field+".url", err.Error())
		}
		f := File{URL: u.String(), SHA256: ref.GetSha256(), Type: ref.GetMediaType(), Name: ref.GetFileName()}
		if f.Name == "" {
			f.Name = nameIn(u)
		}
		kind, _, err := mime.ParseMediaType(f.Type)
		switch {
		case len(f.SHA256) != 0 && len(f.SHA256) != sha256.Size:
			return nil, BadEmail(field+".sha256", "must be 32 bytes")
		case f.Type != "" && (err != nil || !printable(f.Type) || len(f.Type) > maxMediaType):
			return nil, BadEmail(field+".media_type", "not a media type, such as application/pdf")
		case !oneLine(f.Name) || strings.ContainsAny(f.Name, `/\`) || utf8.RuneCountInString(f.Name) > maxFileName:
			return nil, BadEmail(field+".file_name", "must be one line of at most 255 characters, without slashes")
		}
		if f.Type != "" {
			f.Type = kind // parameters are not kept: they say little, and could break a header
		}
		out = append(out, f)
	}
	return out, nil
}

// nameIn is the last part of a URL's path, if it can be a file's name.
func nameIn(u *url.URL) string {
	name := u.Path[strings.LastIndexByte(u.Path, '/')+1:]
	if name == "" || !oneLine(name) || strings.ContainsRune(name, '\\') || utf8.RuneCountInString(name) > maxFileName {
		return "attachment"
	}
	return name
}

// BadEmail returns the error for a mistake in an e-mail.
var BadEmail = Bad(connector.BadPayload, "payload.email")

// readMailbox reads "ada@example.org" or "Ada <ada@example.org>".
func readMailbox(text, field string) (Mailbox, error) {
	m, err := mailbox.Parse(text)
	if err != nil {
		return Mailbox{}, BadEmail(field, err.Error())
	}
	return m, nil
}

// oneLine reports whether a text is UTF-8 without control characters and ends of
// lines.
func oneLine(text string) bool { return mailbox.OneLine(text) }
