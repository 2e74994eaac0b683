package webhook

import (
	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
)

const (
	// MaxBody bounds a webhook's body, in bytes.
	MaxBody = connector.MaxRequestBody
	// DefaultContentType is what an unset content type means.
	DefaultContentType = "application/json"
)

func (c *Connector) read(w *fireoncev1.Webhook) (connector.Message, error) {
	d := connector.Draft{Field: "payload.webhook", URL: w.GetUrl(), ContentType: w.GetContentType(), HTTPSOnly: c.httpsOnly}
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
		d.Headers = append(d.Headers, connector.Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return d.Message()
}

// thaw reads a frozen webhook.
func thaw(frozen []byte) (connector.Message, error) {
	fields, err := connector.Thaw(frozen)
	if err != nil {
		return connector.Message{}, err
	}
	m, err := connector.ThawMessage(fields)
	if err == nil && m.ContentType == "" {
		err = connector.ErrBadFrozen
	}
	return m, err
}
