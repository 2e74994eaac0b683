package kit

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/mailbox"
)

// Rules of this file:
//   - a header that the connector or a server on the way writes is reserved: two Subjects or
//     a second Content-Type are read differently by each reader. Threads and unsubscribing have
//     fields of their own;
//   - values are text here. The connector encodes and folds them.

// Limits of the headers of an e-mail, as the contract states them.
const (
	maxMailHeaders = 20
	maxHeaderName  = 64
	maxHeaderValue = 998
	maxReferences  = 50
	maxMessageID   = 506
	maxUnsubscribe = 900
	// maxHeaderWord is the longest word of a value that fits on one line of 998 bytes (RFC 5322,
	// section 2.1.1) beside the longest name, in bytes.
	maxHeaderWord = 900
)

// MailHeader is a header that is added to an e-mail.
type MailHeader struct {
	Name string
	// Value is one line of text, without blanks around it.
	Value string
}

// Unsubscribe is how a recipient asks for no more e-mails. The zero value: not at all.
type Unsubscribe struct {
	URL, Mailto string
	OneClick    bool
}

// Ways returns the elements of List-Unsubscribe (RFC 2369, section 3.2), the best first.
func (u Unsubscribe) Ways() []string {
	var out []string
	for _, way := range []string{u.URL, u.Mailto} {
		if way != "" {
			out = append(out, "<"+way+">")
		}
	}
	return out
}

// OneClick is the value of List-Unsubscribe-Post (RFC 8058, section 3.1).
const OneClick = "List-Unsubscribe=One-Click"

// reservedHeaders are the names that no user may set, in lower case, with what to do instead.
var reservedHeaders = map[string]string{
	"from": "set sender", "sender": "set sender", "reply-to": "set reply_to", "to": "set to", "cc": "set cc", "bcc": "set bcc",
	"apparently-to": "set to", "subject": "set subject", "in-reply-to": "set in_reply_to", "references": "set references",
	"list-unsubscribe": "set unsubscribe", "list-unsubscribe-post": "set unsubscribe.one_click",
	"date": "it is when the e-mail is sent", "message-id": "it is made of the effect key",
	"received": byServers, "received-spf": byServers, "return-path": byServers, "delivered-to": byServers, "authentication-results": byServers,
}

// reservedPrefixes begin names that no user may set.
var reservedPrefixes = map[string]string{
	"mime-": withBody, "content-": withBody, "resent-": byServers, "dkim-": byServers, "domainkey-": byServers, "arc-": byServers,
}

const (
	byServers = "the servers on the way write it"
	withBody  = "it is written with the body and the attachments"
)

// reserved returns why a header cannot be set; empty: it can.
func reserved(name string) string {
	name = strings.ToLower(name)
	if why := reservedHeaders[name]; why != "" {
		return why
	}
	for prefix, why := range reservedPrefixes {
		if strings.HasPrefix(name, prefix) {
			return why
		}
	}
	return ""
}

// BadMailHeader returns the error for a header that users may not set.
var BadMailHeader = Bad(connector.BadHeader, "payload.email")

// mailHeaders reads the headers that are added.
func mailHeaders(in []*fireoncev1.EmailHeader) ([]MailHeader, error) {
	if len(in) > maxMailHeaders {
		return nil, BadEmail(".headers", "at most 20")
	}
	var out []MailHeader
	for i, h := range in {
		field := fmt.Sprintf(".headers[%d]", i)
		m := MailHeader{Name: h.GetName(), Value: strings.TrimSpace(h.GetValue())}
		why := reserved(m.Name)
		switch {
		case !headerName(m.Name):
			return nil, BadEmail(field+".name", "must be 1 to 64 letters, digits and hyphens, such as X-Campaign")
		case why != "":
			return nil, BadMailHeader(field+".name", m.Name+" cannot be set: "+why)
		case m.Value == "" || !oneLine(m.Value) || utf8.RuneCountInString(m.Value) > maxHeaderValue:
			return nil, BadEmail(field+".value", "must be one line of 1 to 998 characters")
		case printable(m.Value) && slices.ContainsFunc(strings.Fields(m.Value), func(w string) bool { return len(w) > maxHeaderWord }):
			return nil, BadEmail(field+".value", "must have a blank at least every 900 characters, so that it can be folded (RFC 5322, section 2.1.1)")
		}
		out = append(out, m)
	}
	return out, nil
}

// headerName reports whether a text can be a header's name: fewer signs than RFC 5322 allows,
// as in HTTP.
func headerName(name string) bool {
	return name != "" && len(name) <= maxHeaderName &&
		strings.Trim(name, "!#$%&'*+.^_`|~-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Compiling the large counts takes a millisecond, too long for every start of the program.
var messageID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^<[!-;=?-~]{1,250}@[!-;=?-~]{1,253}>$`) })

// MessageID reports whether a text is a Message-ID with its angle brackets. It allows more signs
// than RFC 5322, section 3.6.4, because mail that is answered has them.
func MessageID(text string) bool { return len(text) <= maxMessageID && messageID().MatchString(text) }

// readThread fills in what e answers: in_reply_to, or the e-mail of the job that is replied to,
// whose Message-ID is external.
func (e *Email) readThread(in *fireoncev1.Email, external string) error {
	const form = `must be a Message-ID with its angle brackets, such as "<1234@example.org>"`
	parent := in.GetInReplyTo()
	switch {
	case parent != "" && external != "":
		return BadEmail(".in_reply_to", "goes not with a job that is replied to: that job's e-mail is the one that is answered")
	case parent != "" && !MessageID(parent):
		return BadEmail(".in_reply_to", form)
	case external != "" && !MessageID(external):
		return BadEmail("", "the job that is replied to has no Message-ID")
	case len(in.GetReferences()) > maxReferences:
		return BadEmail(".references", "at most 50")
	case external != "":
		parent = external
	}
	e.InReplyTo = parent
	for i, id := range in.GetReferences() {
		if !MessageID(id) {
			return BadEmail(fmt.Sprintf(".references[%d]", i), form)
		}
		if id != parent {
			e.References = append(e.References, id)
		}
	}
	if parent != "" {
		e.References = append(e.References, parent)
	}
	return nil
}

// unsubscribe reads how a recipient asks for no more.
func unsubscribe(in *fireoncev1.Unsubscribe) (Unsubscribe, error) {
	const at = ".unsubscribe"
	out := Unsubscribe{Mailto: in.GetMailto(), OneClick: in.GetOneClick()}
	if in == nil {
		return out, nil
	}
	if in.GetUrl() == "" && in.GetMailto() == "" {
		return out, BadEmail(at, "url or mailto must be set")
	}
	if in.GetUrl() != "" {
		u, err := transport.ParseURL(in.GetUrl())
		if err != nil {
			return out, BadEmail(at+".url", err.Error())
		}
		out.URL = u.String()
		if u.Scheme != "https" || !printable(out.URL) || strings.ContainsAny(out.URL, "<> ") || len(out.URL) > maxUnsubscribe {
			return out, BadEmail(at+".url", "must start with https:// and have at most 900 characters (RFC 8058, section 3.1)")
		}
	} else if out.OneClick {
		return out, BadEmail(at+".one_click", "needs url: the recipient's provider sends a POST there (RFC 8058, section 3.1)")
	}
	if out.Mailto != "" {
		var err error
		if out.Mailto, err = mailto(out.Mailto); err != nil {
			return out, BadEmail(at+".mailto", err.Error())
		}
	}
	return out, nil
}

// mailto returns a URL of the scheme mailto (RFC 6068) as it is sent: in ASCII, its domain by RFC
// 5890, and percent-encoded where RFC 3986 has no place for a character. It has one address, and
// no fields but those that the RFC calls safe.
func mailto(text string) (string, error) {
	const scheme = "mailto:"
	if len(text) < len(scheme) || !strings.EqualFold(text[:len(scheme)], scheme) {
		return "", errors.New("must begin with mailto: and an address, such as mailto:leave@example.org?subject=leave")
	}
	address, query, more := strings.Cut(text[len(scheme):], "?")
	plain, err := url.PathUnescape(address)
	if err != nil {
		return "", errors.New("the address has a % that begins no escape; write %25")
	}
	m, err := mailbox.Parse(plain)
	switch {
	case err != nil:
		return "", fmt.Errorf("the address: %w", err)
	case m.Name != "" || strings.HasPrefix(plain, "<"):
		return "", fmt.Errorf("must have no name and no angle brackets; write mailto:%s", m.Address())
	case !m.ASCII():
		return "", errors.New("the part of the address before the at sign must be ASCII: few readers of List-Unsubscribe take another")
	}
	out := scheme + encoded(m.Address(), "@+")
	for i, field := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(field, "=")
		value, err := url.PathUnescape(value)
		switch {
		case !more:
		case err != nil:
			return "", errors.New("the text has a % that begins no escape; write %25")
		case !strings.EqualFold(name, "subject") && !strings.EqualFold(name, "body"):
			return "", fmt.Errorf("%q cannot follow the address: only subject and body can, as in mailto:leave@example.org?subject=leave", name)
		default:
			out += []string{"?", "&"}[min(i, 1)] + strings.ToLower(name) + "=" + encoded(value, "")
		}
	}
	if printable(text) && !strings.ContainsAny(text, "<>\"\\^`{|} ") {
		out = scheme + text[len(scheme):] // it is a URL as it was typed
	}
	if len(out) > maxUnsubscribe {
		return "", errors.New("must have at most 900 characters, also percent-encoded")
	}
	return out, nil
}

// encoded returns a text percent-encoded as a part of a mailto (RFC 6068, section 2), but for the
// characters of keep.
func encoded(text, keep string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c < 0x80 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~!$'()*,:/", c) >= 0 || strings.IndexByte(keep, c) >= 0) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
