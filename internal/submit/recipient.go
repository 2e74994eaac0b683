package submit

import (
	"net/mail"
	"slices"
	"strings"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: whom a job addresses is stored beside its payload, so that it can be
// found. One form stands for all that reach the same mailbox by the letters alone.

// Recipients gives those whom a payload addresses, in the form in which they are found.
func Recipients(p *fireoncev1.Payload) []string {
	var out []string
	add := func(list ...string) {
		for _, text := range list {
			if who := Recipient(text); who != "" && len(out) < store.MaxRecipients && !slices.Contains(out, who) {
				out = append(out, who)
			}
		}
	}
	if m := p.GetEmail(); m != nil {
		add(m.GetTo()...)
		add(m.GetCc()...)
		add(m.GetBcc()...)
	}
	if m := p.GetDirectMessage(); m != nil {
		add(m.GetRecipientId())
	}
	return out
}

// Recipient leaves the name beside an e-mail address out, and its case; an id stays
// as it is.
func Recipient(text string) string {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "@") {
		return text
	}
	if a, err := mail.ParseAddress(text); err == nil {
		text = a.Address
	}
	return strings.ToLower(text)
}
