// Package mailbox reads and writes addresses of e-mails, with or without a name: "ada@example.org" or
// "Ada <ada@example.org>".
package mailbox

import (
	"errors"
	"fmt"
	"mime"
	"net/mail"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Rules of this file:
//   - a name is what stands before the angle bracket. It is kept as it was given: people write
//     parentheses, commas, dots and quotes in names, which RFC 5322 has for syntax. A message has the
//     name in quotes. Only two forms are read as syntax, because programs write
//     them: one pair of quotes around the whole name, and encoded words (RFC 2047);
//   - what could be read in two ways is refused, and the error has the text to write instead;
//   - a mailbox becomes a header or a part of an envelope, so nothing in it can end a line, in any
//     encoding.

// Limits of an address (RFC 5321, section 4.5.3.1), and of what the contract takes for one.
const (
	maxText      = 320
	maxLocalPart = 64
	maxAddress   = 254 // a path has 256 bytes, of which two are its brackets
	maxDomain    = 253
	maxLabel     = 63
)

// Mailbox is a checked address.
type Mailbox struct {
	// Name is shown to readers; mostly empty. It has no blanks around it.
	Name string
	// Local is what stands before the at sign, unquoted. It may have letters beyond
	// ASCII (RFC 6531).
	Local string
	// Domain is lower-case ASCII (RFC 5890).
	Domain string
}

// Address is the mailbox without its name, its local part quoted if it must be.
func (m Mailbox) Address() string {
	return strings.Trim((&mail.Address{Address: m.Local + "@" + m.Domain}).String(), "<>")
}

// ASCII reports whether the address needs no more than ASCII.
func (m Mailbox) ASCII() bool {
	return strings.IndexFunc(m.Local, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// String returns the mailbox as people write it: the name in quotes if it has signs that
// mean something in an address (RFC 5322, section 3.2.3), otherwise as it is. Parse reads it back.
func (m Mailbox) String() string {
	if m.Name == "" {
		return m.Address()
	}
	return written(m.Name) + " <" + m.Address() + ">"
}

// written returns a name, quoted if it must be.
func written(name string) string {
	if strings.ContainsAny(name, specials) || strings.Contains(name, "=?") || strings.Contains(name, "  ") {
		return Quote(name)
	}
	return name
}

// specials are the signs that no word of a name may have outside quotes (RFC 5322, section 3.2.3).
const specials = `()<>[]:;@\,."`

// Quote returns a text as a quoted string (RFC 5322, section 3.2.4).
func Quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// Parse reads an address. Its error is written for the person who typed it.
func Parse(text string) (Mailbox, error) {
	if !OneLine(text) || utf8.RuneCountInString(text) > maxText {
		return Mailbox{}, errors.New("must be one line of at most 320 characters")
	}
	text = trim(text)
	start := strings.LastIndexByte(text, '<')
	if start < 0 || !strings.HasSuffix(text, ">") {
		m, err := address(text)
		if errors.Is(err, errForm) {
			err = misread(text)
		}
		return m, err
	}
	m, err := address(trim(text[start+1 : len(text)-1]))
	switch {
	case errors.Is(err, errForm):
		return Mailbox{}, misread(text)
	case err != nil:
		return Mailbox{}, err
	}
	given := strings.TrimSpace(text[:start])
	if m.Name, err = name(given); err != nil {
		var unclear *unclearError
		if errors.As(err, &unclear) {
			err = fmt.Errorf("%s; if all of it is the name, write %s", unclear.why, Mailbox{Name: unclear.name, Local: m.Local, Domain: m.Domain})
		}
		return Mailbox{}, err
	}
	return m, nil
}

// errForm is the error for a text that does not have the form of an address.
var errForm = errors.New("not an address")

// address reads an address without a name.
func address(text string) (Mailbox, error) {
	parsed, err := mail.ParseAddress("<" + text + ">")
	if err != nil || parsed.Name != "" {
		return Mailbox{}, errForm
	}
	at := strings.LastIndexByte(parsed.Address, '@')
	m := Mailbox{Local: parsed.Address[:max(at, 0)]}
	if m.Local == "" || len(m.Local) > maxLocalPart || !OneLine(m.Local) {
		return Mailbox{}, errors.New("the part before the at sign must have 1 to 64 bytes")
	}
	if i := strings.IndexFunc(m.Local, unseen); i >= 0 {
		r, _ := utf8.DecodeRuneInString(m.Local[i:])
		return Mailbox{}, fmt.Errorf("the part before the at sign has U+%04X, which cannot be seen; leave it out", r)
	}
	// Lawful in quotes; a lax relay takes what is between them for another address.
	if strings.ContainsAny(m.Local, "<>") {
		return Mailbox{}, errors.New("the part before the at sign must not have angle brackets")
	}
	if m.Domain, err = domain(parsed.Address[at+1:]); err != nil {
		return Mailbox{}, fmt.Errorf("%q, the part after the at sign, is not a domain", parsed.Address[at+1:])
	}
	if len(m.Address()) > maxAddress {
		return Mailbox{}, errors.New("the address must have at most 254 bytes")
	}
	return m, nil
}

// unseen reports whether a character of an address cannot be seen: RFC 6532 allows it, and
// profiles of names (RFC 8265) do not. Joiners are letters' company in some scripts.
func unseen(r rune) bool {
	return r >= utf8.RuneSelf && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d')
}

// trim cuts off the blanks around a text, and the byte order marks, which programs leave before one.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
}

var errNoDomain = errors.New("not a domain")

// domain returns a domain in lower-case ASCII.
func domain(text string) (string, error) {
	name, err := idna.Lookup.ToASCII(text)
	if err != nil {
		return "", err
	}
	name = strings.ToLower(name)
	if len(name) > maxDomain || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" {
		return "", errNoDomain
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return "", errNoDomain
		}
	}
	return name, nil
}

// unclearError is the error for a name that could be meant in two ways.
type unclearError struct{ why, name string }

func (e *unclearError) Error() string { return e.why }

// name reads the name before an address, which has no blanks around it.
func name(given string) (string, error) {
	out := given
	if strings.HasPrefix(given, `"`) {
		inside, whole, err := unquote(given)
		switch {
		case err != nil:
			return "", err
		case !whole:
			return "", &unclearError{"quotes go around the whole name or stand inside it", given}
		}
		return oneName(inside)
	}
	switch {
	case strings.ContainsAny(given, "<>"), strings.ContainsAny(given, ",;") && strings.Contains(given, "@"):
		return "", &unclearError{"must be one address, and each further one an entry of its own", given}
	case strings.Contains(given, "=?"):
		var err error
		if out, err = new(mime.WordDecoder).DecodeHeader(given); err != nil {
			return "", errors.New("the name is encoded in a character set that is not known; write it as it is, in UTF-8")
		}
	}
	return oneName(out)
}

// oneName refuses a name that comes in an encoding which hides the end of a line.
func oneName(text string) (string, error) {
	if !OneLine(text) {
		return "", errors.New("the name must not have control characters")
	}
	return trim(text), nil
}

// unquote reads the quoted string that a text begins with, and reports whether that is all of
// it. A backslash hides itself and quotes only: RFC 5322 would drop it before other characters
// too, and people who write one there want to see it.
func unquote(text string) (inside string, whole bool, err error) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), i == len(text)-1, nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		default:
			plain := strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(strings.Trim(text, `"`))
			return "", false, &unclearError{"a backslash between quotes is doubled", plain}
		}
	}
	return "", false, &unclearError{"the quotes around the name have no end", strings.TrimPrefix(text, `"`)}
}

// candidate finds what may be an address inside a text.
var candidate = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[^\p{Z}\p{C}()<>\[\]:;@\\,"＜＞]+@[^\p{Z}\p{C}()<>\[\]:;@\\,"＜＞]+\.[^\p{Z}\p{C}()<>\[\]:;@\\,"＜＞]+`)
})

// misread returns the error for a text that is no address, with what to write instead if that
// can be seen.
func misread(text string) error {
	const forms = `not an address, such as "ada@example.org" or "Ada <ada@example.org>"`
	found := candidate().FindAllStringIndex(text, 2)
	switch {
	case strings.HasSuffix(text, ";") && strings.Contains(text, ":"):
		return errors.New("a group of addresses is not taken: each of them is an entry of its own")
	case len(found) > 1:
		return errors.New("must be one address, and each further one an entry of its own")
	case len(found) == 0:
		return errors.New(forms)
	}
	if strings.HasSuffix(text[:found[0][0]], "@") {
		return errors.New("must be one address, with one at sign")
	}
	m, need, err := nearAddress(text[found[0][0]:found[0][1]])
	switch {
	case errors.Is(err, errForm):
		return errors.New(forms)
	case err != nil:
		return err
	}
	before, after := beforeAddress(text[:found[0][0]]), strings.TrimLeft(text[found[0][1]:], " >＞,;")
	rest := strings.TrimSpace(strings.TrimSpace(before) + " " + strings.TrimSpace(after))
	if inside, ok := strings.CutPrefix(rest, "("); ok && strings.IndexByte(inside, ')') == len(inside)-1 {
		rest = inside[:len(inside)-1]
	}
	if len(rest) > 1 && strings.HasPrefix(rest, `"`) && strings.HasSuffix(rest, `"`) {
		rest = rest[1 : len(rest)-1]
	}
	if m.Name, err = oneName(rest); err != nil {
		return errors.New(forms)
	}
	if m.Name == "" {
		return fmt.Errorf("not an address%s; write %s", need, m)
	}
	return fmt.Errorf("not an address%s; if the rest is the name, write %s", need, m)
}

// nearAddress reads what looks like an address, also where its points are in places that need
// quotes, or that no address has; need has why.
func nearAddress(text string) (m Mailbox, need string, err error) {
	if m, err = address(text); err == nil {
		return m, "", nil
	}
	at := strings.LastIndexByte(text, '@')
	local, host := text[:at], strings.TrimRight(text[at+1:], ".")
	switch {
	case strings.HasPrefix(host, "."), strings.Contains(host, ".."):
		return m, "", fmt.Errorf("%q, the part after the at sign, is not a domain", host)
	case strings.Trim(local, ".") != local, strings.Contains(local, ".."):
		local, need = Quote(local), ": points that stand at an end or side by side need quotes"
	}
	m, err = address(local + "@" + host)
	return m, need, err
}

// beforeAddress returns the words before an address, without what belongs to it: its bracket, a
// scheme, and a route (RFC 5321, appendix C).
func beforeAddress(text string) string {
	const mailto = "mailto:"
	if head := len(text) - len(mailto); head >= 0 && strings.EqualFold(text[head:], mailto) {
		text = text[:head]
	}
	if route := strings.LastIndexByte(text, '@'); strings.HasSuffix(text, ":") && (route == 0 || route > 0 && text[route-1] == '<') {
		text = text[:route]
	}
	return strings.TrimRight(text, " <＜")
}

// OneLine reports whether a text is UTF-8 without control characters and ends of lines.
func OneLine(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
	}) < 0
}
