package smtp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime/multipart"
	"mime/quotedprintable"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file:
//   - equal e-mails under one effect key give equal bytes: the Message-ID and the
//     boundary come from the key, nothing comes from chance or a clock;
//   - the message is ASCII in lines of at most 998 bytes, whatever the relay offers,
//     so that it is the same bytes for every relay. Only an address may need more;
//   - Date is not here: it is when the message was sent (RFC 5322, section 3.6.1).

// maxLine is a line's limit without its end (RFC 5322, section 2.1.1).
const maxLine = 998

// maxPaths is how many recipients an envelope has: to, cc and bcc, 50 each.
const maxPaths = 150

// message is an e-mail with its envelope: what every attempt sends alike.
type message struct {
	id   string   // Message-ID, with its angle brackets
	from string   // reverse path, with its angle brackets
	to   []string // forward paths, each once
	utf8 bool     // an address needs SMTPUTF8 (RFC 6531)
	data []byte   // headers but for Date, and the body but for its attachments
	// files are the attachments, each another part after data.
	files []kit.File
}

// size is what the message has on the wire without its attachments, in bytes, Date
// included and without stuffed dots (RFC 1870, section 3).
func (m message) size() int64 { return int64(len(m.data)) + dateLine }

// boundary separates the parts of a kind of multipart. "=_" comes in neither
// encoding (RFC 2045, section 6.7), so no part holds it.
func (m message) boundary(kind string) string {
	sum := sha256.Sum256([]byte(kind + " " + m.id))
	return "=_" + hex.EncodeToString(sum[:16])
}

// dateLine is the length of a Date line.
const dateLine = int64(len("Date: Mon, 02 Jan 2006 15:04:05 -0700\r\n"))

var dotAtom = regexp.MustCompile(`^[0-9A-Za-z!#$%&'*+/=?^_{|}~-]+(\.[0-9A-Za-z!#$%&'*+/=?^_{|}~-]+)*$`)

// compose writes the message. key makes its Message-ID.
func compose(e kit.Email, key string) (message, error) {
	m := message{id: "<" + key + "@" + e.From.Domain + ">", from: path(e.From)}
	if !dotAtom.MatchString(key) || !kit.MessageID(m.id) {
		return m, kit.BadEmail("", "the effect key cannot be part of a Message-ID")
	}
	seen := make(map[string]bool)
	for _, list := range [][]kit.Mailbox{{e.From}, e.ReplyTo, e.To, e.CC, e.BCC} {
		for _, box := range list {
			m.utf8 = m.utf8 || !box.ASCII()
		}
	}
	for _, list := range [][]kit.Mailbox{e.To, e.CC, e.BCC} {
		for _, box := range list {
			if p := path(box); !seen[p] { // named twice is no reason to have it twice
				seen[p] = true
				m.to = append(m.to, p)
			}
		}
	}
	var b bytes.Buffer
	addresses(&b, "From", []kit.Mailbox{e.From})
	addresses(&b, "Reply-To", e.ReplyTo)
	addresses(&b, "To", e.To)
	addresses(&b, "Cc", e.CC)
	if len(e.To)+len(e.CC) == 0 {
		header(&b, "To", []string{"undisclosed-recipients:;"}) // RFC 5322, appendix A.1.3
	}
	header(&b, "Message-ID", []string{m.id})
	if e.InReplyTo != "" {
		header(&b, "In-Reply-To", []string{e.InReplyTo})
	}
	header(&b, "References", e.References)
	header(&b, "Subject", words(e.Subject))
	header(&b, "List-Unsubscribe", listed(e.Unsubscribe.Ways()))
	if e.Unsubscribe.OneClick {
		header(&b, "List-Unsubscribe-Post", []string{kit.OneClick})
	}
	for _, h := range e.Headers {
		header(&b, h.Name, valueWords(h))
	}
	header(&b, "MIME-Version", []string{"1.0"})
	if m.files = e.Files; len(m.files) > 0 {
		header(&b, "Content-Type", []string{"multipart/mixed;", `boundary="` + m.boundary(mixed) + `"`})
		b.WriteString("\r\n--" + m.boundary(mixed) + "\r\n")
	}
	if err := body(&b, e, m.boundary(alternative)); err != nil {
		return m, err
	}
	m.data = b.Bytes()
	return m, nil
}

// The kinds of multipart.
const (
	alternative = "alternative"
	mixed       = "mixed"
)

func path(box kit.Mailbox) string { return "<" + box.Address() + ">" }

// body writes the content's headers, an empty line, and the content.
func body(b *bytes.Buffer, e kit.Email, boundary string) error {
	const text, html = "text/plain; charset=utf-8", "text/html; charset=utf-8"
	switch {
	case e.HTML == "":
		return single(b, text, e.Text)
	case e.Text == "":
		return single(b, html, e.HTML)
	}
	w := multipart.NewWriter(b)
	if err := w.SetBoundary(boundary); err != nil {
		return err
	}
	header(b, "Content-Type", []string{"multipart/alternative;", `boundary="` + w.Boundary() + `"`})
	b.WriteString("\r\n")
	for _, part := range []struct{ kind, content string }{{text, e.Text}, {html, e.HTML}} {
		name, encoded, err := transfer(part.content)
		if err != nil {
			return err
		}
		p, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {part.kind}, "Content-Transfer-Encoding": {name}})
		if err != nil {
			return err
		}
		if _, err := p.Write(encoded); err != nil {
			return err
		}
	}
	return w.Close()
}

// single writes a content that is the only one.
func single(b *bytes.Buffer, kind, content string) error {
	name, encoded, err := transfer(content)
	if err != nil {
		return err
	}
	header(b, "Content-Type", []string{kind})
	header(b, "Content-Transfer-Encoding", []string{name})
	b.WriteString("\r\n")
	b.Write(encoded)
	if !bytes.HasSuffix(encoded, crlf) {
		b.Write(crlf)
	}
	return nil
}

var crlf = []byte("\r\n")

// transfer encodes a text: quoted-printable, or base64 where that is shorter by
// far. Every end of a line becomes CRLF (RFC 2045, section 6.6 and 6.8).
func transfer(text string) (name string, encoded []byte, err error) {
	// mime/quotedprintable loses an LF that follows a lone CR and an escaped character.
	text = strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(text)
	escaped := 0
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf || text[i] < ' ' && text[i] != '\r' && text[i] != '\n' && text[i] != '\t' || text[i] == '=' {
			escaped++
		}
	}
	var b bytes.Buffer
	if escaped > len(text)/4 {
		for all := encode(text); len(all) > 0; {
			n := min(76, len(all))
			b.WriteString(all[:n] + "\r\n")
			all = all[n:]
		}
		return "base64", b.Bytes(), nil
	}
	w := quotedprintable.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		return "", nil, err
	}
	if err := w.Close(); err != nil { // it writes what is left
		return "", nil, err
	}
	return "quoted-printable", b.Bytes(), nil
}

// The frozen encoding: job.Canon with these fields in this order, one "to" for each
// recipient, and then the attachments.
const (
	fieldID   = "message_id"
	fieldFrom = "from"
	fieldTo   = "to"
	fieldUTF8 = "smtputf8"
	fieldData = "data"
)

func (m message) freeze() []byte {
	c := job.NewCanon().Grow(len(m.data)+1024).Field(fieldID, []byte(m.id)).Field(fieldFrom, []byte(m.from))
	for _, to := range m.to {
		c.Field(fieldTo, []byte(to))
	}
	needs := "no"
	if m.utf8 {
		needs = "yes"
	}
	c.Field(fieldUTF8, []byte(needs)).Field(fieldData, m.data)
	for _, f := range m.files {
		f.Encode(c)
	}
	return c.Bytes()
}

// thaw reads a frozen message. It checks again what the conversation depends on:
// the bytes come from a database.
func thaw(frozen []byte) (message, error) {
	fields, err := kit.DecodeCanon(frozen)
	if err != nil {
		return message{}, err
	}
	n := slices.IndexFunc(fields, func(f kit.CanonField) bool { return f.Name == fieldData }) + 1
	if n < 5 || n > 4+maxPaths || fields[0].Name != fieldID || fields[1].Name != fieldFrom || fields[n-2].Name != fieldUTF8 {
		return message{}, kit.ErrBadCanon
	}
	m := message{
		id: string(fields[0].Value), from: string(fields[1].Value), utf8: string(fields[n-2].Value) == "yes", data: fields[n-1].Value,
	}
	for _, f := range fields[2 : n-2] {
		if f.Name != fieldTo {
			return message{}, kit.ErrBadCanon
		}
		m.to = append(m.to, string(f.Value))
	}
	for _, p := range append([]string{m.from}, m.to...) {
		if !validPath(p) || !m.utf8 && !ascii(p) {
			return message{}, kit.ErrBadCanon
		}
	}
	if m.files, err = kit.DecodeFiles(fields[n:]); err != nil {
		return message{}, err
	}
	if !kit.MessageID(m.id) || !validData(m.data, m.utf8) {
		return message{}, kit.ErrBadCanon
	}
	return m, nil
}

func validPath(p string) bool {
	return len(p) > 3 && len(p) <= maxPath && p[0] == '<' && p[len(p)-1] == '>' && utf8.ValidString(p) &&
		strings.IndexFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) < 0
}

// maxPath bounds a path: a quoted local part, a domain and three signs, in bytes.
const maxPath = 2*64 + 2 + 253 + 3

func ascii(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// validData reports whether the data are lines that end with CRLF, in ASCII unless
// wide, and nothing in them could be taken for the message's end.
func validData(data []byte, wide bool) bool {
	if !bytes.HasSuffix(data, crlf) {
		return false
	}
	for len(data) > 0 {
		at := bytes.Index(data, crlf)
		line := data[:at]
		if len(line) > maxLine || bytes.ContainsAny(line, "\r\n\x00") {
			return false
		}
		for _, c := range line {
			if c >= utf8.RuneSelf && !wide {
				return false
			}
		}
		data = data[at+len(crlf):]
	}
	return true
}

// stuff doubles the dot that begins a line (RFC 5321, section 4.5.2).
func stuff(data []byte) []byte {
	out := make([]byte, 0, len(data)+len(data)/64+1)
	if bytes.HasPrefix(data, []byte(".")) {
		out = append(out, '.')
	}
	return append(out, bytes.ReplaceAll(data, []byte("\r\n."), []byte("\r\n.."))...)
}
