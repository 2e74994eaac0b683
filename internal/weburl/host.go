package weburl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Rules of this file: a host is read as the URL Standard reads it ("domain to ASCII" of its
// section 3.3), with the names of DNS in mind: UTS 46 maps it, not transitionally, and checks
// joiners and directions (RFC 5893), and not where a label has hyphens. Scripts may mix: that
// is for those who register and display names. The result is what is resolved, dialed, named
// in TLS and sent as Host, and what identifies the receiver.

var errDirections = errors.New("the parts of the URL's host have directions that do not go together (RFC 5893): " +
	"one beside a name from right to left must not begin with a digit or a symbol")

const (
	maxHost  = 253 // RFC 1035, section 2.3.4, without the dot at the end
	maxLabel = 63
)

var (
	hosts = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false), idna.CheckHyphens(false), idna.StrictDomainName(false))
	// characters refuses what no name may have anywhere, and nothing else.
	characters = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.CheckHyphens(false), idna.CheckJoiners(false), idna.StrictDomainName(false))
)

// Host returns a name in ASCII and lower case, or an IPv4 address in its usual form. Names may
// have underscores, because private ones do. The errors are fit for a user.
func Host(text string) (string, error) {
	if text == "" {
		return "", errNoHost
	}
	if strings.Contains(text, "%") {
		plain, err := url.PathUnescape(text)
		if err != nil || !utf8.ValidString(plain) {
			return "", errors.New("the URL's host has a % that begins no escape of a character")
		}
		text = plain
	}
	host := text
	if ascii(text) { // other letters are mapped, and not only made small: İ is i with a dot
		host = strings.ToLower(text)
	}
	if !ascii(host) || strings.Contains(host, "xn--") {
		var err error
		if host, err = hosts.ToASCII(text); err != nil {
			return "", whyNoName(text)
		}
		// The library misses the direction of a letter that a symbol is mapped to (ℵ).
		if again, err := hosts.ToASCII(host); err != nil || again != host {
			return "", errDirections
		}
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		return addr.String(), nil
	}
	return host, checkName(host)
}

// checkName checks a name in ASCII.
func checkName(host string) error {
	if i := strings.IndexFunc(host, notInName); i >= 0 {
		return fmt.Errorf("the URL's host must not have %q: a name has letters, digits, points, hyphens and underscores", host[i])
	}
	name := strings.TrimSuffix(host, ".")
	if len(name) > maxHost {
		return errors.New("the URL's host must have at most 253 characters in its ASCII form")
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("the URL's host has an empty part: a name does not begin with a point, nor has two in a row")
		case len(label) > maxLabel:
			return errors.New("the URL's host has a part of more than 63 characters in its ASCII form")
		}
		last = label
	}
	// A resolver may take it for an address, in one of the old forms of inet_aton, or for a
	// name, so that it is not known who receives what is sent.
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == "" {
		return errors.New("the URL's host ends in a number: write an address as four numbers, such as 192.0.2.1")
	}
	return nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// whyNoName names the first character or part for which a host is no name.
func whyNoName(host string) error {
	for _, r := range host {
		if _, err := characters.ToASCII(string(r)); err != nil {
			return fmt.Errorf("the URL's host must not have %q (%U)", r, r)
		}
	}
	n := 0
	for label := range strings.FieldsFuncSeq(host, separates) {
		n++
		if _, err := hosts.ToASCII(label); err == nil {
			continue
		}
		if ascii(label) {
			return fmt.Errorf("part %d of the URL's host begins with xn-- and is not a valid international name (UTS 46)", n)
		}
		return fmt.Errorf("part %d of the URL's host is not a valid international name (UTS 46): its marks, joiners or directions must not have this order", n)
	}
	return errDirections
}

// separates reports whether a character is a point between the parts of a name (UTS 46, section 2.3).
func separates(r rune) bool { return r == '.' || r == '\u3002' || r == '\uff0e' || r == '\uff61' }

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
