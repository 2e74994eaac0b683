package twittertext

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// Rules of this file: what X makes a link of, by its published library (twitter-text, tables.go):
// an address with a scheme, or a host under a top-level domain that the library knows, of which
// only the part in Latin letters counts. Its patterns look ahead, which Go's cannot: a pattern
// here consumes the next character instead, and a group marks where the link ends before that.
// internal/proof/oracles compares the result with the library's own.

// Limits of the library, in units of UTF-16.
const (
	maxLink  = 4096
	maxLabel = 63
	maxSlug  = 40
	// defaultScheme counts for a link that has none.
	defaultScheme = "https://"
)

// Span is a part of a text, in bytes.
type Span struct{ From, To int }

// found is a link: in units of UTF-16 where it is, and how much of the text it stands for. The
// second is less if a host has letters of other scripts between its end and the path.
type found struct{ from, to, counts int }

// patterns are compiled once: there are 1,400 top-level domains.
var patterns = sync.OnceValue(func() (p struct{ first, next, firstAddress, nextAddress, host, short *regexp.Regexp }) {
	const (
		tail = `((?:` + partPort + `)?(` + partPath + `)?(?:` + partQuery + `)?)`
		// some is a tail that is not empty: what it begins with may follow a top-level domain.
		some = `(?:` + partPort + `(` + partPath + `)?(?:` + partQuery + `)?|(` + partPath + `)(?:` + partQuery + `)?|` + partQuery + `)`
	)
	tops := `(?:` + eitherCase(topLevel) + `)`
	host := `(` + partSub + `*` + partName + `(?:` + tops + `()(?:` + some + `()|()(?:` + partTopEnd + `|\z))|` + partPunycode + `()` + tail + `()))`
	const scheme = `(` + partScheme + `)`
	p.first = regexp.MustCompile(`(` + partBefore + `|\A)` + scheme + `?` + host)
	p.next = regexp.MustCompile(`(` + partBefore + `)` + scheme + `?` + host)
	p.firstAddress = regexp.MustCompile(`(` + partBefore + `|\A)` + scheme + host)
	p.nextAddress = regexp.MustCompile(`(` + partBefore + `)` + scheme + host)
	p.host = regexp.MustCompile(`(?:(?:` + partLabel + `)\.)+(?:` + tops + `()(?:` + partTopEnd + `|\z)|` + partPunycode + `)`)
	p.short = regexp.MustCompile(`\A` + partShort + `(` + partSlug + `)(?:` + partQuery + `)?`)
	return p
})

// Groups of a link's pattern.
const (
	groupBefore = 2 * (1 + iota)
	groupScheme
	groupHost
	groupTopEnd // where a host with a known top-level domain ends
	groupPath1
	groupPath2
	groupEnd1
	groupEnd2
	groupPunyEnd // where a host with an encoded one ends
	groupTail
	groupPath3
	groupEnd3
)

// eitherCase returns a pattern of words, any of whose letters may be of the other case. No letter
// beyond ASCII is the other case of one within.
func eitherCase(words string) string {
	var b strings.Builder
	for _, r := range words {
		switch other := unicode.SimpleFold(r); {
		case r == ' ':
			b.WriteByte('|')
		case r == '-':
			b.WriteByte('-')
		case other == r:
			b.WriteRune(r)
		default:
			b.WriteByte('[')
			b.WriteRune(r)
			for ; other != r; other = unicode.SimpleFold(other) {
				if (other < 0x80) == (r < 0x80) {
					b.WriteRune(other)
				}
			}
			b.WriteByte(']')
		}
	}
	return b.String()
}

// Links finds the links of a text: addresses with a scheme, and hosts under known top-level domains.
func Links(text string) []Span {
	u := unitsOf(text)
	var out []Span
	for _, f := range linksOf(u) {
		out = append(out, Span{u.from[f.from], u.from[f.to]})
	}
	return out
}

// Addresses finds the links of a text that have a scheme, in the way of Mastodon's client: without the
// library's bounds on their parts.
func Addresses(text string) []Span {
	u := unitsOf(text)
	var out []Span
	for _, m := range matches(u, patterns().firstAddress, patterns().nextAddress) {
		out = append(out, Span{u.from[u.unit[m.from]], u.from[u.unit[m.to]]})
	}
	return out
}

// linksOf finds the links of a text in units.
func linksOf(u units) []found {
	var out []found
	for _, m := range matches(u, patterns().first, patterns().next) {
		out = append(out, m.links(u)...)
	}
	return out
}

// matches finds the matches of a link's patterns: one for the beginning of a text, one for what follows.
func matches(u units, first, next *regexp.Regexp) []match {
	if !strings.Contains(u.text, ".") {
		return nil
	}
	var out []match
	pattern := first
	for from := 0; ; pattern = next {
		m := pattern.FindStringSubmatchIndex(u.text[from:])
		if m == nil {
			return out
		}
		for i := range m {
			if m[i] >= 0 {
				m[i] += from
			}
		}
		l := match{
			before: u.text[m[groupBefore]:m[groupBefore+1]], from: m[groupBefore+1], scheme: m[groupScheme] >= 0,
			hostFrom: m[groupHost], hostTo: max(m[groupTopEnd], m[groupPunyEnd]), to: max(m[groupEnd1], m[groupEnd2], m[groupEnd3]),
			path: m[groupPath1] >= 0 || m[groupPath2] >= 0 || m[groupPath3] >= 0,
		}
		out = append(out, l)
		from = l.to
	}
}

// match is what the pattern of a link found, in bytes of the translated text.
type match struct {
	before           string
	from, to         int
	hostFrom, hostTo int
	scheme, path     bool
}

// links are those of a match: without a scheme each part of the host in Latin letters that is a
// host itself, and the path goes to the last.
func (m match) links(u units) []found {
	link, host := u.text[m.from:m.to], u.text[m.hostFrom:m.hostTo]
	scheme := defaultScheme
	if m.scheme {
		scheme = u.text[m.from:m.hostFrom]
	}
	at := func(i int) int { return u.unit[i] }
	switch {
	case !validHost(host), length(scheme)+length(link) > maxLink:
		return nil
	case m.scheme:
		if short := patterns().short.FindStringSubmatchIndex(link); short != nil {
			if short[3]-short[2] > maxSlug {
				return nil
			}
			m.to = m.from + short[1]
		}
		return []found{{at(m.from), at(m.to), at(m.to) - at(m.from)}}
	case m.before != "" && strings.Contains("-_./", m.before):
		return nil
	}
	var out []found
	for _, h := range hostsOf(host) {
		from, to := at(m.hostFrom+h.From), at(m.hostFrom+h.To)
		out = append(out, found{from, to, to - from})
	}
	if len(out) > 0 && m.path {
		last := &out[len(out)-1]
		last.counts += at(m.to) - at(m.hostTo)
		last.to = at(m.to)
	}
	return out
}

// hostsOf finds the parts of a host that are hosts in Latin letters.
func hostsOf(host string) []Span {
	var out []Span
	for from := 0; ; {
		m := patterns().host.FindStringSubmatchIndex(host[from:])
		if m == nil {
			return out
		}
		end := m[1]
		if m[2] >= 0 {
			end = m[2]
		}
		// The library looks for what it found, from the end of the one before.
		name, before := host[from+m[0]:from+end], 0
		if len(out) > 0 {
			before = out[len(out)-1].To
		}
		begin := before + strings.Index(host[before:], name)
		out = append(out, Span{begin, begin + len(name)})
		from += end
	}
}

// validHost reports whether a host can be a name of the domain name system.
func validHost(host string) bool {
	if strings.HasPrefix(host, "xn--") && len(hostsOf(host)) == 0 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if size := encodedLength(joined(label)); size < 1 || size > maxLabel {
			return false
		}
	}
	return true
}

// dots are other dots than ours, which divide labels further.
var dots = strings.NewReplacer("\u3002", ".", "\uff0e", ".", "\uff61", ".")

// encodedLength is the length of a label as the library encodes it: in Punycode, with no further rules.
func encodedLength(label string) int {
	size := 0
	for i, part := range strings.Split(dots.Replace(label), ".") {
		size += min(i, 1)
		if strings.IndexFunc(part, func(r rune) bool { return r < 0x20 || r > 0x7E }) < 0 {
			size += len(part)
			continue
		}
		size += len("xn--") + punycodeLength([]rune(part))
	}
	return size
}

// punycodeLength is how long runes are in Punycode (RFC 3492, 6.3).
func punycodeLength(label []rune) int {
	const base, tMin, tMax, skew, damp, start = 36, 1, 26, 38, 700, 72
	size := 0
	for _, r := range label {
		if r < 0x80 {
			size++
		}
	}
	done := size
	if size > 0 {
		size++ // the delimiter
	}
	delta, bias, from := 0, start, rune(0x80)
	for first := true; done < len(label) && size <= maxLabel; from++ {
		next := rune(unicode.MaxRune)
		for _, r := range label {
			if r >= from && r < next {
				next = r
			}
		}
		delta += int(next-from) * (done + 1)
		from = next
		for _, r := range label {
			if r < from {
				delta++
			}
			if r != from {
				continue
			}
			q := delta
			for k := base; ; k += base {
				size++
				t := min(max(k-bias, tMin), tMax)
				if q < t {
					break
				}
				q = (q - t) / (base - t)
			}
			done++
			delta /= 2
			if first {
				delta = delta * 2 / damp
			}
			first = false
			delta += delta / done
			bias = 0
			for ; delta > (base-tMin)*tMax/2; bias += base {
				delta /= base - tMin
			}
			bias += (base - tMin + 1) * delta / (delta + skew)
			delta = 0
		}
		delta++
	}
	return size
}
