package x

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/unicode/norm"
)

// Rules of this file: a post's length as X counts it, by twitter-text's published
// configuration v3 (config/v3.json: scale 100, defaultWeight 200, emojiParsingEnabled,
// transformedURLLength 23, and the ranges below at weight 100), over the text in
// NFC. Links and emoji are found by rules of our own, simpler than twitter-text's:
// a post that is counted too short is refused by X, with a message.

const linkWeight = 23

// light are the code points that count one; all others count two.
var light = [][2]rune{{0, 4351}, {8192, 8205}, {8208, 8223}, {8242, 8247}}

// weigh returns the weighted length.
func weigh(text string) int {
	text = norm.NFC.String(text)
	n, from := 0, 0
	for _, l := range links(text) {
		n += weighPlain(text[from:l.from]) + linkWeight
		from = l.to
	}
	return n + weighPlain(text[from:])
}

func weighPlain(text string) int {
	n := 0
	for len(text) > 0 {
		if size := emoji(text); size > 0 {
			n, text = n+2, text[size:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		text = text[size:]
		n += weightOf(r)
	}
	return n
}

func weightOf(r rune) int {
	for _, in := range light {
		if r >= in[0] && r <= in[1] {
			return 1
		}
	}
	return 2
}

// emoji returns the length, in bytes, of the emoji that a text begins with: one, with
// its modifiers, and the emoji that are joined to it. Zero: it begins with none.
func emoji(text string) int {
	const joiner, variation, keycap = '\u200d', '\ufe0f', '\u20e3'
	first, at := utf8.DecodeRuneInString(text)
	next, size := utf8.DecodeRuneInString(text[at:])
	switch {
	case flag(first) && flag(next):
		return at + size
	case strings.ContainsRune("0123456789#*", first):
		rest := strings.TrimPrefix(text[at:], string(variation))
		if strings.HasPrefix(rest, string(keycap)) {
			return len(text) - len(rest) + len(string(keycap))
		}
		return 0
	case !pictograph(first) && next != variation:
		return 0
	}
	for at < len(text) {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == joiner {
			joined, more := utf8.DecodeRuneInString(text[at+size:])
			if !pictograph(joined) {
				break
			}
			at += size + more
			continue
		}
		if r != variation && (r < 0x1f3fb || r > 0x1f3ff) && (r < 0xe0020 || r > 0xe007f) {
			break
		}
		at += size
	}
	return at
}

func flag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// pictograph reports whether a rune can be an emoji by itself.
func pictograph(r rune) bool {
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x2bff && unicode.Is(unicode.So, r)
}

// span is a part of a text, in bytes.
type span struct{ from, to int }

var link = regexp.MustCompile(`(?i)(https?://)?((?:[\p{L}\p{N}](?:[\p{L}\p{N}_-]*[\p{L}\p{N}])?\.)+[\p{L}\p{N}-]*[\p{L}\p{N}])(:[0-9]+)?` +
	`(/[a-z0-9!*';:=+,.$/%#\[\]\-_~@|&()\p{Latin}\p{Cyrillic}]*)?(\?[a-z0-9!?*'@();:&=+$/%#\[\]\-_.,~|]*)?`)

// links finds what X makes a link of: an address with a scheme, or a host name
// under a known top-level domain; of countries' domains without a path only those
// with a third label.
func links(text string) []span {
	var out []span
	for _, m := range link.FindAllStringSubmatchIndex(text, -1) {
		scheme, host := m[2] >= 0, text[m[4]:m[5]]
		if !mayBegin(text[:m[0]], scheme) {
			continue
		}
		labels := strings.Split(strings.ToLower(host), ".")
		top := labels[len(labels)-1]
		if _, known := publicsuffix.PublicSuffix("a." + top); !known && !strings.HasPrefix(top, "xn--") {
			continue
		}
		path := m[8] >= 0
		if !scheme && !path && len(labels) == 2 && len(top) == 2 {
			continue
		}
		out = append(out, span{m[0], m[5] + len(trimPath(text[m[5]:m[1]]))})
	}
	return out
}

// mayBegin reports whether a link may begin behind this text.
func mayBegin(text string, scheme bool) bool {
	before, _ := utf8.DecodeLastRuneInString(text)
	switch {
	case text == "":
		return true
	case strings.ContainsRune("@＠$#＃", before), before < utf8.RuneSelf && (unicode.IsLetter(before) || unicode.IsDigit(before)):
		return false
	default:
		return scheme || !strings.ContainsRune("-_./", before)
	}
}

// trimPath takes off what a link does not end with: most punctuation.
func trimPath(path string) string {
	for path != "" {
		last, size := utf8.DecodeLastRuneInString(path)
		if last == ')' && strings.Count(path, "(") >= strings.Count(path, ")") ||
			unicode.IsLetter(last) || unicode.IsNumber(last) || strings.ContainsRune("=_#/+-&", last) {
			break
		}
		path = path[:len(path)-size]
	}
	return path
}
