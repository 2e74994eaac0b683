// Package weburl reads the URLs that people and programs type, and returns them as they are
// sent: in ASCII, in one form. Every URL of the API passes through it: that of a request, a
// file, a page, and a server in a connection's settings.
//
// Two standards have the rules:
//   - RFC 3986 has the form that is sent. What it does not allow in a path, a query or a
//     fragment is percent-encoded.
//   - How other characters become ASCII is the URL Standard's (https://url.spec.whatwg.org):
//     a host by UTS 46, not transitional, without its rules for hyphens; the rest as
//     percent-encoded UTF-8. Its percent-encode sets leave "[", "]", "^" and "|", and a "%"
//     that begins no escape, as they are, where browsers must not break old pages. RFC 3986
//     has no place for them there, and strict servers refuse them (Tomcat answers 400), so
//     they are encoded here too. Receivers decode both forms alike.
//
// Unlike a browser, it repairs nothing that may be a slip: white space, control characters
// and backslashes are refused, "." and ".." stay in a path, and user info has no place in a
// URL that is stored.
package weburl

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/cache"
)

// Max bounds a URL, in bytes, both as typed and in ASCII.
const Max = 2048

// Parse checks the URL of a target that a user names, and returns it in one normal
// form: lower-case scheme and ASCII host, no empty or default port, path and query as
// RFC 3986 has them. It allows http and https, no user info, no fragment, no white space
// or control character. The result parses to itself. The errors are fit for a user and do
// not quote the URL, which may hold a secret: they name one character or part of it.
func Parse(raw string) (*url.URL, error) {
	u, ok := parsed.Get(raw)
	if ok {
		return &u, nil
	}
	fresh, err := parse(raw)
	if err == nil {
		parsed.Put(strings.Clone(raw), *fresh)
	}
	return fresh, err
}

// ParsePage is Parse for a URL that is shown and not requested: it may have a fragment.
func ParsePage(raw string) (*url.URL, error) {
	before, fragment, found := strings.Cut(raw, "#")
	if !found {
		return Parse(raw)
	}
	if err := checkCharacters(fragment); err != nil {
		return nil, err
	}
	u, err := Parse(before)
	if err != nil {
		return nil, err
	}
	encoded := escape(fragment, inQuery)
	if u.Fragment, err = url.PathUnescape(encoded); err != nil {
		return nil, errLong // not possible: every escape is whole by now
	}
	if u.RawFragment = encoded; (&url.URL{Fragment: u.Fragment}).EscapedFragment() == encoded {
		u.RawFragment = ""
	}
	if len(u.String()) > Max {
		return nil, errLong
	}
	return u, nil
}

// parsed caches URLs that were checked, each of at most Max bytes: jobs name the same
// few again and again.
var parsed = cache.New[string, url.URL](cache.Options{Max: maxParsed})

// maxParsed bounds the URLs that are cached.
const maxParsed = 512

var (
	errScheme = errors.New("the URL must start with http:// or https://")
	errLong   = errors.New("the URL must have at most 2048 characters, also with those beyond ASCII percent-encoded")
	errNoHost = errors.New("the URL must name a host, such as https://example.org")
)

func parse(raw string) (*url.URL, error) {
	switch {
	case raw == "":
		return nil, errors.New("the URL must not be empty")
	case len(raw) > Max:
		return nil, errLong
	}
	if err := checkCharacters(raw); err != nil {
		return nil, err
	}
	if strings.Contains(raw, "#") {
		return nil, errors.New("the URL must not have a fragment: leave out what begins with #, or write %23 for a # of its path or query")
	}
	scheme, rest, found := strings.Cut(raw, ":")
	if scheme = strings.ToLower(scheme); !found || scheme != "http" && scheme != "https" {
		return nil, noScheme(raw)
	}
	rest, found = strings.CutPrefix(rest, "//")
	if !found {
		return nil, noScheme(raw)
	}
	authority, rest := cutAuthority(rest)
	host, err := normalAuthority(scheme, authority)
	if err != nil {
		return nil, err
	}
	path, query, asked := strings.Cut(rest, "?")
	u := &url.URL{Scheme: scheme, Host: host, RawQuery: escape(query, inQuery), ForceQuery: asked && query == ""}
	if path = escape(path, inPath); path == "" {
		path = "/"
	}
	if u.Path, err = url.PathUnescape(path); err != nil {
		return nil, errors.New("the URL's path is not well formed")
	}
	// As url.Parse does: RawPath is set where the path has a form of its own.
	if u.RawPath = path; (&url.URL{Path: u.Path}).EscapedPath() == path {
		u.RawPath = ""
	}
	if len(u.String()) > Max {
		return nil, errLong
	}
	return u, nil
}

// noScheme returns why a URL does not start with http:// or https://. What a text was copied with,
// such as a quotation mark or a byte order mark, stands before a URL that looks complete.
func noScheme(raw string) error {
	first, size := utf8.DecodeRuneInString(raw)
	rest := strings.ToLower(raw[size:])
	if !unicode.IsLetter(first) && (strings.HasPrefix(rest, "http://") || strings.HasPrefix(rest, "https://")) {
		if first <= '~' {
			return fmt.Errorf("%w: leave out the %q before it", errScheme, first)
		}
		return fmt.Errorf("%w: leave out U+%04X, the character before it", errScheme, first)
	}
	for _, scheme := range []string{"https", "http"} {
		behind, found := strings.CutPrefix(strings.ToLower(raw), scheme)
		r, _ := utf8.DecodeRuneInString(behind)
		if found && behind != "" && r >= utf8.RuneSelf {
			return fmt.Errorf("%w: write :// for what follows %s, which begins with U+%04X", errScheme, scheme, r)
		}
	}
	return errScheme
}

// cutAuthority returns the part of a URL with host and port, and what follows it.
func cutAuthority(rest string) (authority, after string) {
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[:i], rest[i:]
	}
	return rest, ""
}

// AfterAuthority returns where the path, the query or the fragment of a URL begins: before
// it are the parts that determine who receives what is sent.
func AfterAuthority(raw string) int {
	_, rest, found := strings.Cut(raw, "://")
	if !found {
		return len(raw)
	}
	_, after := cutAuthority(rest)
	return len(raw) - len(after)
}

// checkCharacters names the first character that no URL may have in any form.
func checkCharacters(raw string) error {
	for i, r := range raw {
		switch {
		case r == utf8.RuneError:
			return errors.New("the URL must be in UTF-8, without the replacement character U+FFFD")
		case r == '\\':
			return errors.New(`the URL must not have a backslash: write / between the parts of a path, or %5C`)
		case unicode.IsControl(r):
			return fmt.Errorf("the URL must not have control characters (%U)", r)
		case unicode.IsSpace(r):
			return fmt.Errorf("the URL must not have white space (%U): leave it out, or write %s", r, escape(raw[i:i+utf8.RuneLen(r)], inPath))
		case r&0xfffe == 0xfffe, r >= 0xfdd0 && r <= 0xfdef:
			return fmt.Errorf("the URL must not have %U, which is no character", r)
		}
	}
	return nil
}

// normalAuthority returns host and port in the form in which they are dialed and sent.
func normalAuthority(scheme, authority string) (string, error) {
	if strings.Contains(authority, "@") {
		return "", errors.New("the URL must not have user info; put a secret into the credential's headers")
	}
	host, port, bracketed, err := splitPort(authority)
	if err != nil {
		return "", err
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strings.Trim(port, "0123456789") != "" {
			return "", errors.New("the URL's port must be 1 to 65535")
		}
		port = strconv.FormatUint(n, 10)
	}
	if port == map[string]string{"http": "80", "https": "443"}[scheme] {
		port = ""
	}
	if bracketed {
		host, err = addressInBrackets(host)
	} else {
		host, err = Host(host)
	}
	if err != nil {
		return "", err
	}
	if port != "" {
		host += ":" + port
	}
	return host, nil
}

// splitPort cuts off the port. A host in brackets comes without them.
func splitPort(authority string) (host, port string, bracketed bool, err error) {
	if rest, found := strings.CutPrefix(authority, "["); found {
		host, port, found = strings.Cut(rest, "]")
		if !found || port != "" && port[0] != ':' {
			return "", "", true, errors.New("the URL's address must be in brackets, such as https://[2001:db8::1]:8443")
		}
		return host, strings.TrimPrefix(port, ":"), true, nil
	}
	host, port, _ = strings.Cut(authority, ":")
	if strings.Contains(port, ":") {
		if _, wrong := netip.ParseAddr(authority); wrong == nil {
			return "", "", false, errors.New("the URL's IPv6 address must be in brackets, such as https://[2001:db8::1]")
		}
		return "", "", false, errors.New("the URL must not have more than one colon before its path")
	}
	return host, port, false, nil
}

func addressInBrackets(text string) (string, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Is4() || addr.Zone() != "" {
		return "", errors.New("the URL's address is not an IPv6 address")
	}
	return "[" + addr.String() + "]", nil
}
