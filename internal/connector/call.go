package connector

import (
	"io"
	"net/http"
	"net/url"
)

// Header is one field of a request.
type Header struct{ Name, Value string }

// Call is one HTTP request as a connector wants it sent. Connectors need no
// more of net/http than this and Answer, and so cannot reach its client.
type Call struct {
	Method string
	// URL is one that ParseURL gave. Its target is the line's.
	URL *url.URL
	// Headers are sent as they are; the sender adds Host, Content-Length, Connection
	// and User-Agent, and drops Expect.
	Headers []Header
	// Body has exactly Length bytes and is read without waiting; nil for none.
	Body   io.Reader
	Length int64
	// Keep is how much of the answer's body is kept in Answer.Excerpt, in bytes, at
	// most MaxBody. Zero means MaxExcerpt.
	Keep int64
}

func (c Call) keep() int64 {
	if c.Keep <= 0 {
		return MaxExcerpt
	}
	return min(c.Keep, MaxBody)
}

func (c Call) request(agent string, last bool) *http.Request {
	r := &http.Request{
		Method: c.Method, URL: c.URL, Host: c.URL.Host, Header: make(http.Header, len(c.Headers)+1),
		Body: http.NoBody, Close: last,
	}
	if c.Body != nil && c.Length > 0 {
		r.Body, r.ContentLength = io.NopCloser(c.Body), c.Length
	}
	for _, h := range c.Headers {
		r.Header.Add(h.Name, h.Value)
	}
	r.Header.Del("Expect")
	r.Header.Set("User-Agent", agent)
	return r // GetBody stays nil: nothing can take the body a second time
}
