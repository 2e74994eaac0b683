package kit

import (
	"cmp"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// MaxRequestBody bounds the body of a request that a user writes, in bytes.
const MaxRequestBody = 256 << 10

// UsualContentType is what an unset content type of a body means.
const UsualContentType = "application/json"

// Message is a request to the user's own target, as the user wrote it: the part that is
// the same at every attempt.
type Message struct {
	URL *url.URL
	// ContentType is empty only if there is none.
	ContentType string
	Headers     []transport.Header
	Body        []byte
}

// Written is a payload that is a request to the user's own target.
type Written interface {
	GetUrl() string
	GetContentType() string
	GetBody() []byte
	GetBodyText() string
	GetHeaders() []*fireoncev1.HttpHeader
}

// ReadMessage checks a payload, whose path is such as "payload.webhook". usual is the content
// type where it has none. It fails with *InputError.
func ReadMessage(path string, in Written, usual string, httpsOnly bool) (Message, error) {
	m := Message{ContentType: cmp.Or(in.GetContentType(), usual), Body: in.GetBody()}
	if text := in.GetBodyText(); text != "" {
		m.Body = []byte(text)
	}
	bad := Bad(connector.BadPayload, path+".")
	var err error
	if m.URL, err = transport.ParseURL(in.GetUrl()); err != nil {
		return Message{}, bad("url", err.Error())
	}
	if httpsOnly && m.URL.Scheme != "https" {
		return Message{}, bad("url", "the URL must start with https://")
	}
	if m.ContentType != "" && m.ContentType != UsualContentType {
		if _, _, err := mime.ParseMediaType(m.ContentType); err != nil || len(m.ContentType) > 127 || !printable(m.ContentType) {
			return Message{}, bad("content_type", "not a media type, such as application/json")
		}
	}
	if len(m.Body) > MaxRequestBody {
		return Message{}, bad("content", "at most 262144 bytes")
	}
	if len(in.GetHeaders()) > transport.MaxHeaders {
		return Message{}, bad("headers", "at most 32")
	}
	for i, h := range in.GetHeaders() {
		if err := transport.CheckHeader(h.GetName(), h.GetValue(), false); err != nil {
			return Message{}, Bad(connector.BadHeader, path)(fmt.Sprintf(".headers[%d]", i), err.Error())
		}
		m.Headers = append(m.Headers, transport.Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return m, nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= utf8.RuneSelf || s[i] == 0x7f {
			return false
		}
	}
	return true
}

// The frozen encoding of a Message: job.Canon with these fields in this order.
const (
	fieldURL         = "url"
	fieldContentType = "content_type"
	fieldHeader      = "header" // name, then its value in the next field
	fieldValue       = "value"
	fieldBody        = "body"
)

// usualHead is what most messages have beside their body, in bytes.
const usualHead = 256

// Encode appends the message to an encoding.
func (m Message) Encode(c *job.Canon) *job.Canon {
	c.Grow(len(m.Body) + usualHead)
	c.Field(fieldURL, []byte(m.URL.String()))
	c.Field(fieldContentType, []byte(m.ContentType))
	for _, h := range m.Headers {
		c.Field(fieldHeader, []byte(h.Name)).Field(fieldValue, []byte(h.Value))
	}
	return c.Field(fieldBody, m.Body)
}

// DecodeMessage reads a frozen message. It checks again what the wire depends on:
// the bytes come from a database.
func DecodeMessage(fields []CanonField) (Message, error) {
	var m Message
	var err error
	for i, f := range fields {
		switch f.Name {
		case fieldURL:
			if m.URL, err = transport.ParseURL(string(f.Value)); err != nil {
				return m, err
			}
		case fieldContentType:
			m.ContentType = string(f.Value)
		case fieldHeader:
			if i+1 >= len(fields) || fields[i+1].Name != fieldValue {
				return m, ErrBadCanon
			}
			h := transport.Header{Name: string(f.Value), Value: string(fields[i+1].Value)}
			if err := transport.CheckHeader(h.Name, h.Value, false); err != nil {
				return m, err
			}
			m.Headers = append(m.Headers, h)
		case fieldValue:
		case fieldBody:
			m.Body = f.Value
		default:
			return m, ErrBadCanon
		}
	}
	if m.URL == nil || !printable(m.ContentType) {
		return m, ErrBadCanon
	}
	return m, nil
}

// Under appends to ours, which it takes over, the credential's headers, and the user's
// but for names that the credential has.
func (m Message) Under(ours, secret []transport.Header) []transport.Header {
	out := append(ours, secret...)
	for _, h := range m.Headers {
		if !HasHeader(secret, h.Name) {
			out = append(out, h)
		}
	}
	return out
}

// Traced adds the headers that make a request part of its job's trace to all others. A
// user's or a credential's own traceparent stays, and nothing is added.
func Traced(c connector.Commit, headers []transport.Header) []transport.Header {
	if c.Traceparent == "" || HasHeader(headers, "traceparent") {
		return headers
	}
	headers = append(headers, transport.Header{Name: "traceparent", Value: c.Traceparent})
	if c.Tracestate != "" && !HasHeader(headers, "tracestate") {
		headers = append(headers, transport.Header{Name: "tracestate", Value: c.Tracestate})
	}
	return headers
}

// longPart is the length from which a part of a path is taken for a secret.
const longPart = 16

// Hide adds the texts of the message that a target may echo and no message may show:
// the URL's query and its values, long parts of its path, and the values of the user's
// headers.
func (m Message) Hide(s transport.Secrets) transport.Secrets {
	hide := []string{m.URL.RawQuery}
	for _, pair := range strings.FieldsFunc(m.URL.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		_, value, _ := strings.Cut(pair, "=")
		hide = append(hide, value)
		if plain, err := url.QueryUnescape(value); err == nil {
			hide = append(hide, plain)
		}
	}
	for part := range strings.SplitSeq(m.URL.Path, "/") {
		if len(part) >= longPart {
			hide = append(hide, part)
		}
	}
	for _, h := range m.Headers {
		hide = append(hide, h.Value)
	}
	return s.With(hide...)
}
