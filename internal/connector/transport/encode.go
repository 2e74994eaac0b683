package transport

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"sync"

	"golang.org/x/net/http/httpguts"
)

// Rules of this file:
//   - a request's head is written by itself, in one form, from what was checked
//     before; what would break the framing is refused again here, as nothing sent;
//   - a usual request is one run of bytes before its first byte is written.

const (
	// wholeRequest is how much of a request is gathered before the first byte.
	wholeRequest = 64 << 10
	// keptBuffer bounds the buffers that are kept for the next request.
	keptBuffer = wholeRequest + 16<<10
)

// encodedRequest is a Request in the form in which it is written.
type encodedRequest struct {
	// start is the head and the body, or as much of it as fits.
	start []byte
	// rest has the other more bytes of the body.
	rest io.Reader
	more int64
}

// ErrBadRequest means that a request cannot be written as it is.
var ErrBadRequest = errors.New("the request cannot be written")

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// encode puts the request into buf, which grows as it must. Its errors come before
// the first byte: nothing was sent.
func (c Request) encode(buf []byte, agent string, last bool) (encodedRequest, error) {
	buf, err := c.head(buf[:0], agent, last)
	if err != nil || c.Body == nil || c.Length <= 0 {
		return encodedRequest{start: buf}, err
	}
	at, n := len(buf), min(c.Length, max(0, int64(wholeRequest-len(buf))))
	buf = append(buf, make([]byte, n)...) // compiled to growing it, without a second buffer
	if _, err := io.ReadFull(c.Body, buf[at:]); err != nil {
		return encodedRequest{start: buf[:at]}, fmt.Errorf("%w: its body: %w", ErrBadRequest, err)
	}
	return encodedRequest{start: buf, rest: c.Body, more: c.Length - n}, nil
}

// head appends the request line and the header fields.
func (c Request) head(buf []byte, agent string, last bool) ([]byte, error) {
	target, host := c.URL.RequestURI(), c.URL.Host
	if !httpguts.ValidHostHeader(host) || host == "" || !visible(target) || !httpguts.ValidHeaderFieldName(c.Method) {
		return buf, ErrBadRequest
	}
	buf = append(append(append(append(buf, c.Method...), ' '), target...), " HTTP/1.1\r\n"...)
	buf = appendField(buf, "Host", host)
	buf = appendField(buf, "User-Agent", agent)
	if last {
		buf = append(buf, "Connection: close\r\n"...)
	}
	switch {
	case c.Body != nil && c.Length > 0:
		buf = append(buf, "Content-Length: "...)
		buf = append(strconv.AppendInt(buf, c.Length, 10), "\r\n"...)
	case c.Method == http.MethodPost || c.Method == http.MethodPut || c.Method == http.MethodPatch:
		buf = append(buf, "Content-Length: 0\r\n"...)
	}
	for _, h := range c.Headers {
		if !httpguts.ValidHeaderFieldName(h.Name) || !httpguts.ValidHeaderFieldValue(h.Value) {
			return buf, ErrBadRequest
		}
		switch name := textproto.CanonicalMIMEHeaderKey(h.Name); name {
		case "Expect", "User-Agent", "Host", "Connection", "Content-Length", "Transfer-Encoding", "Trailer":
			// Fireonce sets these headers itself, or must not send them.
		default:
			buf = appendField(buf, name, textproto.TrimString(h.Value))
		}
	}
	return append(buf, "\r\n"...), nil
}

func appendField(buf []byte, name, value string) []byte {
	return append(append(append(append(buf, name...), ": "...), value...), "\r\n"...)
}

// visible reports whether a request's target is one run of printable ASCII.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s != ""
}

// write sends what is left of the request, from its byte from on.
func (r encodedRequest) write(w io.Writer, from int) error {
	if _, err := w.Write(r.start[from:]); err != nil || r.more == 0 {
		return err
	}
	n, err := io.CopyN(w, r.rest, r.more)
	if n < r.more && (err == nil || errors.Is(err, io.EOF)) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
