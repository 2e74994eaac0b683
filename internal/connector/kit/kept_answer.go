package kit

import (
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Rules of this file: what is kept of an answer is what the connection's owner asked
// for, without our secrets. It is redacted before it is cut, and a part of a secret at
// an end that was cut off elsewhere is dropped. What cannot be searched for secrets,
// because it is compressed or no text, is not kept.

// Limits of what is kept, as the contract states them.
const (
	maxKeptHeaders = 20
	maxKeptName    = 64
	// maxKeptValue bounds one header's value, in bytes; a longer one is cut.
	maxKeptValue = 1 << 10
	// MaxKeptBody bounds a kept body, in bytes.
	MaxKeptBody = 16 << 10
)

// Keep is what a connection keeps of answers. Nil keeps nothing.
type Keep struct {
	headers []string // in their canonical form
	body    int
}

// ParseKeep checks settings; nil settings keep nothing. It fails with *InputError.
func ParseKeep(field string, k *connectionsv1.KeepAnswer) (*Keep, error) {
	if k == nil {
		return nil, nil
	}
	bad := Bad(connector.BadSettings, field+".keep_answer.")
	out := &Keep{body: int(k.GetMaxBodyBytes())}
	if out.body < 0 || out.body > MaxKeptBody {
		return nil, bad("max_body_bytes", fmt.Sprintf("must be at most %d", MaxKeptBody))
	}
	if len(k.GetHeaders()) > maxKeptHeaders {
		return nil, bad("headers", fmt.Sprintf("at most %d", maxKeptHeaders))
	}
	for i, name := range k.GetHeaders() {
		canonical, why := keptName(name)
		if why != "" {
			return nil, bad(fmt.Sprintf("headers[%d]", i), why)
		}
		out.headers = append(out.headers, canonical)
	}
	return out, nil
}

// keptName returns a header's name in its canonical form, or why it is not kept.
func keptName(name string) (canonical, why string) {
	canonical = textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case len(name) > maxKeptName || !httpguts.ValidHeaderFieldName(name):
		return "", `must be the name of a header, such as "Request-Id"`
	case canonical == "Set-Cookie" || canonical == "Set-Cookie2":
		return "", "cookies are secrets of the receiver, and are not kept"
	default:
		return canonical, ""
	}
}

// KeepTold returns what is kept of an answer that a connector of the user's own has told: as
// Keep.Of, but its author has chosen what.
func KeepTold(told job.Answer, hide transport.Secrets) *job.Answer {
	out := &job.Answer{Status: told.Status}
	for _, h := range told.Headers {
		if name, why := keptName(h.Name); why == "" && h.Name == hide.Redact(h.Name) && len(out.Headers) < maxKeptHeaders {
			out.Headers = append(out.Headers, job.AnswerHeader{Name: name, Value: hide.Quote(h.Value, maxKeptValue)})
		}
	}
	if !isText([]byte(told.Body)) {
		out.Omission = job.BodyBinary
		return out
	}
	out.Body = redactHidden(hide, told.Body)
	if len(out.Body) > MaxKeptBody {
		out.Body, out.Cut = string(wholeLetters([]byte(out.Body)[:MaxKeptBody])), true
	}
	return out
}

// BodyLimit returns how many bytes of a body an exchange must read (Request.Keep), at
// least as many as given. secrets is called only if something is kept.
func (k *Keep) BodyLimit(least int64, secrets func() transport.Secrets) int64 {
	if k == nil {
		return least
	}
	return max(least, int64(k.raw(secrets())))
}

// raw is how much of a body is looked at: what is kept, and secrets that begin in it.
func (k *Keep) raw(secrets transport.Secrets) int { return k.body + 2*secrets.Longest() }

// Of returns what is kept of an answer, also of one that broke off; nil: nothing, or there
// was no answer. secrets is called only if something is kept.
func (k *Keep) Of(a transport.Response, secrets func() transport.Secrets) *job.Answer {
	if k == nil || a.Written == 0 || a.Status == 0 {
		return nil
	}
	hide := secrets()
	out := &job.Answer{Status: a.Status, Headers: k.headersOf(a.Header, hide)}
	switch encoding := a.Header.Get("Content-Encoding"); {
	case k.body == 0 || len(a.Excerpt) == 0:
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		out.Omission = job.BodyEncoded
	default:
		k.keepBody(out, a, hide)
	}
	return out
}

func (k *Keep) headersOf(h http.Header, hide transport.Secrets) (out []job.AnswerHeader) {
	for _, name := range k.headers {
		for _, value := range h[name] {
			if len(out) < maxKeptHeaders {
				out = append(out, job.AnswerHeader{Name: name, Value: hide.Quote(value, maxKeptValue)})
			}
		}
	}
	return out
}

func (k *Keep) keepBody(out *job.Answer, a transport.Response, hide transport.Secrets) {
	body, cut := a.Excerpt, a.Cut || !a.Complete
	if most := k.raw(hide); len(body) > most {
		body, cut = body[:most], true
	}
	if cut { // a secret, or a letter, may be cut in two at the end
		body = wholeLetters(body[:max(len(body)-hide.Longest(), 0)])
	}
	if !isText(body) {
		out.Omission = job.BodyBinary
		return
	}
	text := redactHidden(hide, string(body))
	if len(text) > k.body {
		text, cut = string(wholeLetters([]byte(text)[:k.body])), true
	}
	out.Body, out.Cut = text, cut
}

// redactHidden is Redact for a text that is shown as it is. It also finds a secret that
// a target has split with invisible letters; then it removes all invisible letters.
func redactHidden(s transport.Secrets, text string) string {
	text = s.Redact(text)
	seen := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
	if plain := s.Redact(seen); plain != seen {
		return plain
	}
	return text
}

// wholeLetters drops an incomplete letter at the end.
func wholeLetters(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if from := len(b) - i; utf8.RuneStart(b[from]) {
			if !utf8.FullRune(b[from:]) {
				return b[:from]
			}
			break
		}
	}
	return b
}

// isText reports whether bytes are a text that may be shown: UTF-8, and no control
// characters but those that set lines and columns.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
