package transport

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/fireonce/fireonce/internal/cache"
)

// MaxURL bounds a URL, in bytes, before and after its host became ASCII.
const MaxURL = 2048

// ParseURL checks the URL of a target that a user names, and returns it in one normal
// form: lower-case scheme and ASCII host, no empty or default port, path and query in
// printable ASCII. It allows http and https, no user info, no fragment, no white space
// or control character. The errors are fit for a user and do not quote the URL, which
// may hold a secret. Egress decides at the dial whether the address is allowed.
func ParseURL(raw string) (*url.URL, error) {
	u, ok := parsed.Get(raw)
	if ok {
		return &u, nil
	}
	fresh, err := parseURL(raw)
	if err == nil {
		parsed.Put(strings.Clone(raw), *fresh)
	}
	return fresh, err
}

// parsed caches URLs that were checked, each of at most MaxURL bytes: jobs name the same
// few again and again.
var parsed = cache.New[string, url.URL](cache.Options{Max: maxParsed})

// maxParsed bounds the URLs that are cached.
const maxParsed = 512

func parseURL(raw string) (*url.URL, error) {
	if raw == "" || len(raw) > MaxURL {
		return nil, errors.New("the URL must have 1 to 2048 bytes")
	}
	if strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == 0xfffd }) >= 0 {
		return nil, errors.New("the URL must not have white space, control characters or backslashes")
	}
	if strings.Contains(raw, "#") {
		return nil, errors.New("the URL must not have a fragment")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the URL is not well formed")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL must start with http:// or https://")
	case u.User != nil:
		return nil, errors.New("the URL must not have user info; put a secret into the credential's headers")
	case u.Opaque != "" || u.Host == "":
		return nil, errors.New("the URL must name a host")
	}
	if err := normalHost(u); err != nil {
		return nil, err
	}
	u.RawQuery = EscapeNonASCII(u.RawQuery)
	u.Path, u.RawPath = normalPath(u)
	if len(u.String()) > MaxURL {
		return nil, errors.New("the URL is too long in its ASCII form")
	}
	return u, nil
}

func normalHost(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return errors.New("the URL's port must be 1 to 65535")
		}
		port = strconv.FormatUint(n, 10)
	}
	if port == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
		port = ""
	}
	host, err := asciiHost(host, strings.HasPrefix(u.Host, "["))
	if err != nil {
		return err
	}
	u.Host = host
	if port != "" {
		u.Host += ":" + port
	}
	return nil
}

// asciiHost returns an address in its usual form, or a name in ASCII (UTS 46 for
// lookup). It allows underscores, because private names have them.
func asciiHost(host string, bracketed bool) (string, error) {
	if bracketed {
		addr, err := netip.ParseAddr(host)
		if err != nil || addr.Is4() || addr.Zone() != "" {
			return "", errors.New("the URL's address is not an IPv6 address")
		}
		return "[" + addr.String() + "]", nil
	}
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is4() {
		return addr.String(), nil
	}
	host = strings.ToLower(host)
	if EscapeNonASCII(host) != host {
		name, err := idna.Lookup.ToASCII(host)
		if err != nil {
			return "", errors.New("the URL's host is not a valid international name")
		}
		host = name
	}
	if len(host) > 253 || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" ||
		strings.IndexFunc(host, notInName) >= 0 || strings.HasPrefix(host, ".") || strings.Contains(host, "..") || host == "" {
		return "", errors.New("the URL's host is not a valid name")
	}
	return host, nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
}

// normalPath returns a path that Request.Write writes unchanged.
func normalPath(u *url.URL) (path, raw string) {
	if u.Path == "" {
		return "/", ""
	}
	return u.Path, u.EscapedPath()
}

// EscapeNonASCII percent-encodes every byte outside of ASCII.
func EscapeNonASCII(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < 0x80 {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
		}
	}
	return b.String()
}
