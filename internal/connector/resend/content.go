package resend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"strings"

	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/job"
)

// Limits of the API (resend.com/docs/api-reference/emails/send-email).
const (
	// maxTo bounds the recipients in to; the same is taken for cc and bcc.
	maxTo = 50
	// maxBody bounds a request without its attachments, in bytes: two bodies of 256
	// KiB, escaped.
	maxBody = 4 << 20
)

// content is an e-mail as the API has it.
type content struct {
	From    string   `json:"from"`
	To      []string `json:"to"`
	CC      []string `json:"cc,omitempty"`
	BCC     []string `json:"bcc,omitempty"`
	ReplyTo []string `json:"reply_to,omitempty"`
	Subject string   `json:"subject"`
	Text    string   `json:"text,omitempty"`
	HTML    string   `json:"html,omitempty"`
	// Headers are written in the order of their names, so that equal e-mails have equal bytes.
	Headers map[string]string `json:"headers,omitempty"`
}

// encode returns the request's body. Resend refuses a repeat whose body differs in a
// byte, so these bytes are frozen. It fails with *connector.InputError.
func encode(e kit.Email) ([]byte, error) {
	switch {
	case len(e.To) == 0 || len(e.To) > maxTo:
		return nil, kit.BadEmail(".to", "Resend wants 1 to 50 addresses in to")
	case e.Subject == "":
		return nil, kit.BadEmail(".subject", "Resend wants a subject")
	case e.Text == "" && e.HTML == "":
		return nil, kit.BadEmail("", "Resend wants a text_body or an html_body")
	}
	c := content{Subject: e.Subject, Text: e.Text, HTML: e.HTML}
	for _, list := range []struct {
		field string
		in    []kit.Mailbox
		out   *[]string
	}{{".to", e.To, &c.To}, {".cc", e.CC, &c.CC}, {".bcc", e.BCC, &c.BCC}, {".reply_to", e.ReplyTo, &c.ReplyTo}} {
		for _, box := range list.in {
			if !box.ASCII() {
				return nil, kit.BadEmail(list.field, "Resend takes no letters beyond ASCII before the at sign")
			}
			*list.out = append(*list.out, box.String())
		}
	}
	if !e.From.ASCII() {
		return nil, kit.BadEmail(".sender", "Resend takes no letters beyond ASCII before the at sign")
	}
	c.From = e.From.String()
	var err error
	if c.Headers, err = headers(e); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	if err := w.Encode(c); err != nil {
		return nil, kit.BadEmail("", "cannot be written as JSON")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// resendPrefix begins the names of headers that are commands to Resend, such as the key of its relay.
const resendPrefix = "resend-"

// headers returns what the API adds to the message as it is
// (resend.com/docs/dashboard/emails/custom-headers). The API does not promise to encode them, so they
// are ASCII already (RFC 2047).
func headers(e kit.Email) (map[string]string, error) {
	out := make(map[string]string)
	seen := make(map[string]bool)
	for i, h := range e.Headers {
		field, name := fmt.Sprintf(".headers[%d].name", i), strings.ToLower(h.Name)
		switch {
		case strings.HasPrefix(name, resendPrefix):
			return nil, kit.BadMailHeader(field, h.Name+" cannot be set: Resend reads it")
		case seen[name]:
			return nil, kit.BadMailHeader(field, h.Name+" cannot be set twice: Resend takes one header of a name")
		}
		seen[name] = true
		out[h.Name] = mime.BEncoding.Encode("utf-8", h.Value)
	}
	if e.InReplyTo != "" {
		out["In-Reply-To"] = e.InReplyTo
	}
	if len(e.References) > 0 {
		out["References"] = strings.Join(e.References, " ")
	}
	if ways := e.Unsubscribe.Ways(); len(ways) > 0 {
		out["List-Unsubscribe"] = strings.Join(ways, ", ")
	}
	if e.Unsubscribe.OneClick {
		out["List-Unsubscribe-Post"] = kit.OneClick
	}
	return out, nil
}

// fieldBody is the first field of the frozen encoding, which is job.Canon; the
// attachments follow.
const fieldBody = "body"

func freeze(body []byte, files []kit.File) []byte {
	c := job.NewCanon().Grow(len(body)+16).Field(fieldBody, body)
	for _, f := range files {
		f.Encode(c)
	}
	return c.Bytes()
}

// thaw reads a frozen body: the bytes come from a database.
func thaw(frozen []byte) ([]byte, []kit.File, error) {
	var body []byte
	rest, err := kit.Thaw(frozen, kit.FrozenField{Name: fieldBody, At: &body})
	if err != nil || len(body) > maxBody || !isObject(body) {
		return nil, nil, kit.ErrBadCanon
	}
	files, err := kit.DecodeFiles(rest)
	return body, files, err
}

// isObject reports whether bytes are a JSON object that ends with its brace.
func isObject(b []byte) bool { return json.Valid(b) && len(b) > 2 && b[0] == '{' && b[len(b)-1] == '}' }
