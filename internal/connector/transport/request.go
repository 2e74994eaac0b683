package transport

import (
	"io"
	"net/url"
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
	// StatusDecides is set where the status alone is the target's word. Then an answer that is
	// longer than we read is complete, with Response.TooLong, and otherwise it is not: the
	// verdict may be in what was not read.
	StatusDecides bool
}

func (c Request) keep() int64 {
	if c.Keep <= 0 {
		return MaxExcerpt
	}
	return min(c.Keep, MaxBody)
}
