package submit

import (
	"slices"
	"strings"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/mailbox"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the recipients of a job are stored beside its payload, so that a search can
// find them. Addresses that reach the same mailbox, as far as the characters alone show it, have
// one form.

// Recipients returns the recipients of a payload, in the form that is stored and searched.
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

// Recipient returns an e-mail address in lower case, without the name beside it. It returns an
// id unchanged.
func Recipient(text string) string {
	text = strings.TrimSpace(text)
	if !strings.Contains(text, "@") {
		return text
	}
	if m, err := mailbox.Parse(text); err == nil {
		text = m.Local + "@" + m.Domain
	}
	return strings.ToLower(text)
}
