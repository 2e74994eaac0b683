package transport

import (
	"io"
	"net"
	"net/url"
	"strings"
)

// Header is one field of a request.
type Header struct{ Name, Value string }

// Request is one HTTP request as a connector wants it sent. Connectors need no
// more of net/http than this and Response, and so cannot reach its client.
type Request struct {
	Method string
	// URL comes from ParseURL. Its target is the connection's.
	URL *url.URL
	// Headers are sent in their order; the sender adds Host, User-Agent, Connection
	// and Content-Length, and drops these and others that belong to the connection.
	Headers []Header
	// Body has exactly Length bytes and is read without waiting; nil for none.
	Body   io.Reader
	Length int64
	// Keep is how much of the answer's body is kept in Response.Excerpt, in bytes, at
	// most MaxBody. Zero means MaxExcerpt.
	Keep int64
}

func (c Request) keep() int64 {
	if c.Keep <= 0 {
		return MaxExcerpt
	}
	return min(c.Keep, MaxBody)
}

// Target is where a connection leads to. Two equal targets may share idle connections.
type Target struct {
	Scheme string // "http" or "https"; for a RawConn, its protocol's
	Host   string // ASCII name or address, without brackets
	Port   string // decimal, never empty
}

// TargetOf returns the target that a checked URL addresses.
func TargetOf(u *url.URL) Target {
	t := Target{Scheme: u.Scheme, Host: strings.ToLower(u.Hostname()), Port: u.Port()}
	if t.Port == "" {
		t.Port = "443"
		if t.Scheme == "http" {
			t.Port = "80"
		}
	}
	return t
}

// String returns scheme://host:port, which is also the hold key of plain HTTP
// targets.
func (t Target) String() string { return t.Scheme + "://" + net.JoinHostPort(t.Host, t.Port) }
