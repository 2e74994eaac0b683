package webhook

import (
	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

const (
	// MaxBody bounds a webhook's body, in bytes.
	MaxBody = kit.MaxRequestBody
	// DefaultContentType is what an unset content type means.
	DefaultContentType = "application/json"
)

func (c *Connector) read(w *fireoncev1.Webhook) (kit.Message, error) {
	d := kit.Draft{Field: "payload.webhook", URL: w.GetUrl(), ContentType: w.GetContentType(), HTTPSOnly: c.cfg.HTTPSOnly}
	if d.ContentType == "" {
		d.ContentType = DefaultContentType
	}
	switch content := w.GetContent().(type) {
	case *fireoncev1.Webhook_Body:
		d.Body = content.Body
	case *fireoncev1.Webhook_BodyText:
		d.Body = []byte(content.BodyText)
	}
	for _, h := range w.GetHeaders() {
		d.Headers = append(d.Headers, transport.Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return d.Message()
}

// thaw reads a frozen webhook.
func thaw(frozen []byte) (kit.Message, error) {
	fields, err := kit.DecodeCanon(frozen)
	if err != nil {
		return kit.Message{}, err
	}
	m, err := kit.DecodeMessage(fields)
	if err == nil && m.ContentType == "" {
		err = kit.ErrBadCanon
	}
	return m, err
}
