package weburl_test

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/bidi"

	"github.com/fireonce/fireonce/internal/proof/oracles"
	"github.com/fireonce/fireonce/internal/weburl"
)

type asked struct{ Host, Path, Query string }

// bars are characters that the URL Standard takes in hosts, and names do not have.
const bars = "!\"$&'()*+,;=`{}~"

// TestOracleHosts: a host becomes what the URL Standard's parser makes of it, or is refused as it is
// there. Hosts are each character by itself between letters, and words of many scripts. What only one
// of the two takes has marks, joiners or letters from right to left: Node checks the directions of
// some labels only, and its data are those of an older Unicode.
func TestOracleHosts(t *testing.T) {
	oracles.Need(t)
	var hosts []string
	for r := rune(0x21); r < 0x30000; r++ {
		if unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) {
			if !strings.ContainsRune("/\\?#@", r) { // which end a host
				hosts = append(hosts, "a"+string(r)+"b", string(r)+".example", "א"+string(r))
			}
		}
	}
	texts := oracles.Texts(19, 30_000)
	for _, text := range texts {
		host := strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("/\\?#@:%[]<>^|", r) {
				return -1
			}
			return r
		}, text.Text)
		hosts = append(hosts, host, "www."+host+".example")
	}
	questions := make([]string, len(hosts))
	for i, host := range hosts {
		questions[i] = "http://" + host + "/"
	}
	different, accepted, ordered := 0, 0, 0
	for i, theirs := range oracles.Ask[asked](t, "url", questions) {
		ours, err := weburl.Parse(questions[i])
		switch {
		case err == nil && ours.Host == theirs.Host:
			accepted++
			continue
		case err != nil && (theirs.Host == "" || narrower(hosts[i], theirs.Host)):
			continue
		case (err != nil || theirs.Host == "") && strings.IndexFunc(hosts[i], hasOrder) >= 0:
			ordered++
			continue
		}
		if different++; different <= 20 {
			t.Errorf("%+q: %v, %v; want %q", hosts[i], ours, err, theirs.Host)
		}
	}
	t.Logf("%d hosts, of which %d can be sent; %d with marks or directions that one of the two refuses", len(hosts), accepted, ordered)
	if ordered > len(hosts)/500 || accepted < len(hosts)/2 {
		t.Error("too many are refused by one, or by both")
	}
	oracles.Report(t, "the URL Standard (hosts)", texts, different)
}

// hasOrder reports whether rules of order apply to a character: a mark, a joiner, or one of a script
// from right to left.
func hasOrder(r rune) bool {
	p, _ := bidi.LookupRune(r)
	c := p.Class()
	return unicode.Is(unicode.M, r) || unicode.Is(unicode.Cf, r) || c == bidi.R || c == bidi.AL || c == bidi.AN
}

// narrower reports whether we refuse on purpose what the URL Standard takes: names that DNS does not
// have, and addresses in old forms.
func narrower(typed, host string) bool {
	name := strings.TrimSuffix(host, ".")
	if strings.HasSuffix(name, "-") && strings.Contains(name, ".xn--") || strings.Contains(name, "-.") && strings.Contains(name, "xn--") {
		return true // Punycode with nothing behind its hyphen
	}
	if strings.ContainsAny(host, bars) || len(name) > 253 || name == "" || strings.ContainsAny(typed, "\ufffd") ||
		strings.IndexFunc(typed, func(r rune) bool { return unicode.IsSpace(r) || r&0xfffe == 0xfffe }) >= 0 {
		return true
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return true
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	return strings.Trim(last, "0123456789") == ""
}

// TestOracleRest: a path and a query become what the URL Standard's parser makes of them, with what
// RFC 3986 does not allow encoded too.
func TestOracleRest(t *testing.T) {
	oracles.Need(t)
	texts := oracles.Texts(37, 20_000)
	var questions []string
	ask := func(text string) {
		text = strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\\#", r) || r == 0xfffd {
				return -1
			}
			return r
		}, text)
		if path, _, _ := strings.Cut(text, "?"); !dotted(path) { // which the URL Standard takes away, and we do not
			questions = append(questions, "http://a/"+text)
		}
		questions = append(questions, "http://a/?"+text, "http://a?"+text)
	}
	for r := rune(0x21); r < 0x30000; r++ {
		if unicode.IsGraphic(r) || unicode.Is(unicode.Cf, r) {
			ask(string(r))
		}
	}
	for _, text := range texts {
		ask(text.Text)
	}
	different := 0
	for i, theirs := range oracles.Ask[asked](t, "url", questions) {
		ours, err := weburl.Parse(questions[i])
		if err != nil && len(theirs.Path)+len(theirs.Query) > weburl.Max/2 {
			continue // above our bound
		}
		want, wrong := weburl.Parse("http://a" + weburl.EscapePath(theirs.Path) + theirs.Query)
		if err == nil && wrong == nil {
			ours.ForceQuery = false // a query without a character, which they leave out
			if strings.ReplaceAll(ours.RequestURI(), "'", "%27") == strings.ReplaceAll(want.RequestURI(), "'", "%27") {
				continue
			}
		}
		if different++; different <= 20 {
			t.Errorf("%+q: %v, %v; want %v", questions[i], ours, err, theirs)
		}
	}
	t.Logf("%d URLs", len(questions))
	oracles.Report(t, "the URL Standard (paths and queries)", texts, different)
}

// dotted reports whether a path has a part that is "." or "..", in any form.
func dotted(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		plain := strings.ReplaceAll(strings.ToLower(part), "%2e", ".")
		if plain == "." || plain == ".." {
			return true
		}
	}
	return false
}
