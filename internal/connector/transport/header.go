package transport

import (
	"errors"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Limits of headers that users give.
const (
	// MaxHeaders bounds how many a request has.
	MaxHeaders = 32
	// MaxHeaderName and MaxHeaderValue bound one, in bytes.
	MaxHeaderName  = 64
	MaxHeaderValue = 4096
)

// ourHeaders are set by Fireonce or belong to one connection (RFC 9110, section
// 7.6.1); a user's value would break the framing, the key or the signature.
var ourHeaders = map[string]string{
	"Host":              "it is taken from the URL",
	"Content-Length":    "it is taken from the body",
	"Content-Type":      "use content_type",
	"Transfer-Encoding": "it belongs to the connection",
	"Connection":        "it belongs to the connection",
	"Keep-Alive":        "it belongs to the connection",
	"Te":                "it belongs to the connection",
	"Trailer":           "it belongs to the connection",
	"Upgrade":           "it belongs to the connection",
	"Http2-Settings":    "it belongs to the connection",
	"Expect":            "the request is sent at once",
	"User-Agent":        "Fireonce names itself",
	"Idempotency-Key":   keyWords,
	"X-Idempotency-Key": keyWords,
}

// keyWords say where a key comes from: a user's own would break the promise of the connection.
const keyWords = "the key is Fireonce's; a connection of http sends it in the header that its key_header names, by default Idempotency-Key"

// notKeys are further headers that carry no key: they have a meaning of their own for the
// receiver, for what lies before it, or for traces, or they carry a secret.
var notKeys = []string{
	// HTTP (RFC 9110, and what goes with it).
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Age", "Alt-Svc", "Cache-Control", "Cdn-Loop", "Date", "Dnt", "Early-Data", "Etag", "Forwarded", "From",
	"If", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Last-Modified", "Link", "Location", "Max-Forwards", "Origin", "Pragma", "Prefer",
	"Priority", "Range", "Referer", "Retry-After", "Server", "Slug", "Via", "Warning", "Www-Authenticate",
	// WebDAV (RFC 4918).
	"Depth", "Destination", "Lock-Token", "Overwrite", "Timeout",
	// Traces.
	"B3", "Baggage", "Traceparent", "Tracestate", "X-Amzn-Trace-Id",
	// What receivers and proxies take for another method, place or client.
	"True-Client-Ip", "X-Client-Ip", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Real-Ip", "X-Rewrite-Url",
	// Secrets, accounts and signatures.
	"Api-Key", "Apikey", "Authentication-Info", "Authorization", "Cookie", "Dpop", "Private-Token", "Set-Cookie", "Signature", "Signature-Input", "Stripe-Account", "Stripe-Version",
	"X-Access-Token", "X-Amz-Date", "X-Amz-Security-Token", "X-Api-Key", "X-Auth-Token", "X-Csrf-Token", "X-Vault-Token", "X-Xsrf-Token",
}

// notKeyPrefixes begin the names of others, notKeySuffixes end them.
var (
	notKeyPrefixes = []string{"Access-Control-", "Cf-", "Content-", "Proxy-", "Sec-", "Webhook-", "X-B3-", "X-Forwarded-"}
	notKeySuffixes = []string{"-Signature", "-Signature-256"}
)

// CheckKeyHeader checks the name of the header that carries the effect key. Its errors are fit
// for a user.
func CheckKeyHeader(name string) error {
	canonical := FoldedName(name)
	switch why, ours := ourHeaders[canonical]; {
	case len(name) > MaxHeaderName || !httpguts.ValidHeaderFieldName(name):
		return errors.New(`must be the name of a header, such as "X-Idempotency-Key"`)
	case ours && why != keyWords:
		return errors.New("the header " + canonical + " cannot carry the key: " + why)
	case slices.Contains(notKeys, canonical),
		slices.ContainsFunc(notKeyPrefixes, func(p string) bool { return strings.HasPrefix(canonical, p) }),
		slices.ContainsFunc(notKeySuffixes, func(p string) bool { return strings.HasSuffix(canonical, p) }):
		return errors.New("the header " + canonical + " cannot carry the key: it has a meaning of its own, or carries a secret")
	default:
		return nil
	}
}

// FoldedName returns a header's name as seen by receivers that fold "_" to "-", as CGI,
// WSGI and PHP do: to them Idempotency_Key is Idempotency-Key.
func FoldedName(name string) string {
	return textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// CheckHeader checks one header that a user adds to a request. secret is set if it
// comes from the credential, which may carry Authorization and Cookie. The errors are
// fit for a user and never quote the value.
func CheckHeader(name, value string, secret bool) error {
	if len(name) > MaxHeaderName || !httpguts.ValidHeaderFieldName(name) {
		return errors.New("not a valid header name")
	}
	canonical := FoldedName(name)
	if why, ours := ourHeaders[canonical]; ours {
		return errors.New("the header " + canonical + " is not allowed: " + why)
	}
	if strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Webhook-") {
		return errors.New("the header " + canonical + " is not allowed")
	}
	if !secret && (canonical == "Authorization" || canonical == "Cookie") {
		return errors.New("the header " + canonical + " is not allowed: put a secret into the credential's headers")
	}
	if len(value) > MaxHeaderValue || !httpguts.ValidHeaderFieldValue(value) {
		return errors.New("the header " + canonical + " must have one line of at most 4096 bytes, without control characters")
	}
	return nil
}
