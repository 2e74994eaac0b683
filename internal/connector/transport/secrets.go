package transport

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/fireonce/fireonce/internal/redact"
)

// Secrets are texts that must not appear in messages, though a target may echo
// them.
type Secrets []string

// With adds texts, in the forms in which they may come back.
func (s Secrets) With(texts ...string) Secrets {
	out := slices.Clone(s)
	for _, t := range texts {
		quoted, err := json.Marshal(t)
		if err != nil {
			quoted = []byte(`""`)
		}
		forms := []string{t, url.QueryEscape(t), url.PathEscape(t), string(quoted[1 : len(quoted)-1]),
			strings.ReplaceAll(t, "/", `\/`), html.EscapeString(t)}
		if plain, err := url.QueryUnescape(t); err == nil {
			forms = append(forms, plain)
		}
		for _, form := range forms {
			if len(form) >= MinSecret && !slices.Contains(out, form) {
				out = append(out, form)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return len(b) - len(a) })
	return out
}

// Redact hides the secrets in a text, in hexadecimal and in base64, too.
func (s Secrets) Redact(text string) string {
	const instead = "[redacted]"
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, instead)
	}
	for _, secret := range s {
		for _, form := range encodings(secret) {
			text = strings.ReplaceAll(text, form, instead)
		}
	}
	return text
}

// encodings returns a text in hexadecimal, and in base64 at any offset: without the
// letters that depend on the neighboring bytes.
func encodings(text string) []string {
	digits := hex.EncodeToString([]byte(text))
	out := []string{digits, strings.ToUpper(digits)}
	for shift := range 3 {
		shifted := append(make([]byte, shift, shift+len(text)), text...)
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			letters := enc.EncodeToString(shifted)
			if form := letters[(8*shift+5)/6 : len(letters)-1]; len(form) >= MinSecret {
				out = append(out, form)
			}
		}
	}
	return out
}

// Quote makes a target's words fit for a message: without the secrets, clean, at most
// limit bytes. Messages quote targets through Quote only. It searches for a secret
// before it cleans the text, as it was sent, and after, because a target may add
// letters that cleaning removes. It searches the whole text before it cuts it, because
// a part of a secret is not recognized.
func (s Secrets) Quote(text string, limit int) string { return s.quote(text, false, limit) }

// quote is Quote for a text that may be cut already.
func (s Secrets) quote(text string, cut bool, limit int) string {
	if len(text) > MaxExcerpt {
		text, cut = text[:MaxExcerpt], true
	}
	if cut { // a secret may be cut in two at the end
		text = text[:max(len(text)-s.Longest(), 0)]
	}
	return Clean(s.Redact(Clean(s.Redact(text), MaxExcerpt)), limit)
}

// Longest is the length of the longest form of a secret. With sorts by length, and
// hexadecimal doubles it.
func (s Secrets) Longest() int {
	if len(s) == 0 {
		return 0
	}
	return 2 * len(s[0])
}

// String hides the secrets from messages and logs.
func (s Secrets) String() string { return redact.Text }

// GoString hides the secrets from %#v.
func (s Secrets) GoString() string { return redact.Text }

// Format hides the secrets from every verb.
func (s Secrets) Format(to fmt.State, _ rune) { redact.Format(to, redact.Text) }

// LogValue hides the secrets from logs.
func (s Secrets) LogValue() slog.Value { return slog.StringValue(redact.Text) }

// MarshalJSON hides the secrets from logs in JSON.
func (s Secrets) MarshalJSON() ([]byte, error) { return redact.All{}.MarshalJSON() }
