package webhook

import (
	"fmt"
	"mime"
	"net/url"
	"unicode/utf8"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	// MaxBody bounds a webhook's body, in bytes.
	MaxBody = 256 << 10
	// DefaultContentType is what an unset content type means.
	DefaultContentType = "application/json"
)

// message is a checked webhook: what every attempt sends alike.
type message struct {
	url         *url.URL
	contentType string
	headers     []connector.Header
	body        []byte
}

func (c *Connector) read(w *fireoncev1.Webhook) (message, error) {
	var m message
	var err error
	if m.url, err = connector.ParseURL(w.GetUrl()); err != nil {
		return m, badPayload("url", err.Error())
	}
	if c.httpsOnly && m.url.Scheme != "https" {
		return m, badPayload("url", "the URL must start with https://")
	}
	if m.contentType = w.GetContentType(); m.contentType == "" {
		m.contentType = DefaultContentType
	}
	if _, _, err := mime.ParseMediaType(m.contentType); err != nil || len(m.contentType) > 127 || !printable(m.contentType) {
		return m, badPayload("content_type", "not a media type, such as application/json")
	}
	switch content := w.GetContent().(type) {
	case *fireoncev1.Webhook_Body:
		m.body = content.Body
	case *fireoncev1.Webhook_BodyText:
		m.body = []byte(content.BodyText)
	}
	if len(m.body) > MaxBody {
		return m, badPayload("content", "at most 262144 bytes")
	}
	if len(w.GetHeaders()) > connector.MaxHeaders {
		return m, badPayload("headers", "at most 32")
	}
	for i, h := range w.GetHeaders() {
		if err := connector.CheckHeader(h.GetName(), h.GetValue(), false); err != nil {
			return m, &connector.InputError{
				Reason: connector.BadHeader, Field: fmt.Sprintf("payload.webhook.headers[%d]", i), Msg: err.Error(),
			}
		}
		m.headers = append(m.headers, connector.Header{Name: h.GetName(), Value: h.GetValue()})
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

// The frozen encoding: job.Canon with these fields in this order.
const (
	fieldURL         = "url"
	fieldContentType = "content_type"
	fieldHeader      = "header" // name, then its value in the next field
	fieldValue       = "value"
	fieldBody        = "body"
)

func (m message) freeze() []byte {
	c := job.NewCanon()
	c.Field(fieldURL, []byte(m.url.String()))
	c.Field(fieldContentType, []byte(m.contentType))
	for _, h := range m.headers {
		c.Field(fieldHeader, []byte(h.Name)).Field(fieldValue, []byte(h.Value))
	}
	return c.Field(fieldBody, m.body).Bytes()
}

// thaw reads a frozen message. It checks again what the wire depends on: the
// bytes come from a database.
func thaw(frozen []byte) (message, error) {
	var m message
	fields, err := connector.Thaw(frozen)
	if err != nil {
		return m, err
	}
	for i, f := range fields {
		switch f.Name {
		case fieldURL:
			if m.url, err = connector.ParseURL(string(f.Value)); err != nil {
				return m, err
			}
		case fieldContentType:
			m.contentType = string(f.Value)
		case fieldHeader:
			if i+1 >= len(fields) || fields[i+1].Name != fieldValue {
				return m, connector.ErrBadFrozen
			}
			h := connector.Header{Name: string(f.Value), Value: string(fields[i+1].Value)}
			if err := connector.CheckHeader(h.Name, h.Value, false); err != nil {
				return m, err
			}
			m.headers = append(m.headers, h)
		case fieldValue:
		case fieldBody:
			m.body = f.Value
		default:
			return m, connector.ErrBadFrozen
		}
	}
	if m.url == nil || m.contentType == "" || !printable(m.contentType) {
		return m, connector.ErrBadFrozen
	}
	return m, nil
}
