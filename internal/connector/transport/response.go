package transport

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Rules of this file: net/http reads answers. A common answer (short, with a
// Content-Length, received in one piece) is read here with the same result at a
// fraction of the cost. Any other answer is left to net/http, with no byte of it
// consumed.

// reply is what was read.
type reply struct {
	status  int
	header  http.Header
	excerpt []byte
	cut     bool
	keep    bool // the peer keeps the connection open
	err     error
	// begun and last are when the body began, and when something of it came last.
	begun, last time.Time
}

// coming reports whether a body that was not over by then was still coming. If nothing came in
// the second half of its time, it has broken off: so looks a target that died.
func (r reply) coming(by time.Time) bool {
	return errors.Is(r.err, os.ErrDeadlineExceeded) && !r.begun.IsZero() && r.last.Sub(r.begun) >= by.Sub(r.begun)/2
}

// read takes one final answer off the connection.
func (l *Conn) read(method string, keep int64) reply {
	l.in.allow(MaxHead, errHeadTooLarge)
	if got, ok := l.readCommon(method, keep); ok {
		return got
	}
	return l.readGeneral(method, keep)
}

// readGeneral reads any answer. http.ReadResponse returns 1xx answers like others, so
// readGeneral skips them (RFC 9110, section 15.2), as many as MaxHead has room for, except 101,
// which ends HTTP and was not requested.
func (l *Conn) readGeneral(method string, keep int64) reply {
	r := &http.Request{Method: method} // whether an answer has a body depends on it
	there, _ := l.br.Peek(l.br.Buffered())
	l.in.seen = bytes.Clone(there)
	defer func() { l.in.seen = nil }()
	for {
		resp, err := http.ReadResponse(l.br, r) //nolint:bodyclose // readBody reads it to its end or the connection is aborted; there is nothing to close
		if errors.Is(err, errHeadTooLarge) {
			return cutHead(l.in.seen)
		}
		if err != nil {
			return reply{err: err}
		}
		if resp.StatusCode >= 100 && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		l.in.seen = nil
		l.in.allow(MaxBody+MaxHead, ErrBodyTooLarge)
		begun := time.Now()
		l.in.last = begun
		got := readBody(resp, keep)
		got.begun, got.last, l.in.last = begun, l.in.last, time.Time{}
		return got
	}
}

// cutHead returns what is known of an answer whose head is too large: its final status, and the
// fields before the cut that are whole. Without a final status line, it knows nothing.
func cutHead(raw []byte) reply {
	got := reply{err: errHeadTooLarge}
	for {
		head, rest, whole := bytes.Cut(raw, endOfHead)
		line, fields, _ := bytes.Cut(head, endOfLine)
		line, found := bytes.CutPrefix(line, []byte("HTTP/1."))
		if !found || len(line) < 5 || line[1] != ' ' || len(line) > 5 && line[5] != ' ' {
			return got
		}
		line = line[2:]
		status, ok := digitsOf(line[:3])
		switch {
		case !ok || status < 100 || status == http.StatusSwitchingProtocols:
			return got
		case status < 200 && whole:
			raw = rest
			continue
		case status < 200:
			return got
		}
		got.status, got.header = status, make(http.Header)
		for {
			field, more, ended := bytes.Cut(fields, endOfLine)
			if !ended {
				return got // the last one may be cut
			}
			fields = more
			name, value, _ := strings.Cut(string(field), ":")
			if httpguts.ValidHeaderFieldName(name) && httpguts.ValidHeaderFieldValue(value) {
				got.header.Add(name, textproto.TrimString(value))
			}
		}
	}
}

func readBody(resp *http.Response, keep int64) reply {
	got := reply{status: resp.StatusCode, header: resp.Header, keep: !resp.Close}
	body := io.LimitReader(resp.Body, MaxBody+1)
	var err error
	if got.excerpt, err = io.ReadAll(io.LimitReader(body, keep)); err != nil {
		got.err = tooLarge(err)
		return got
	}
	more, err := io.Copy(io.Discard, body)
	got.cut = more > 0
	switch {
	case err != nil:
		got.err = tooLarge(err)
	case int64(len(got.excerpt))+more > MaxBody:
		got.err = ErrBodyTooLarge
	}
	return got
}

// tooLarge returns ErrBodyTooLarge for the limit that net/http has for trailers, whose error has
// no name, and any other error as it is.
func tooLarge(err error) error {
	if strings.Contains(err.Error(), "suspiciously long trailer") {
		return ErrBodyTooLarge
	}
	return err
}

var (
	endOfHead = []byte("\r\n\r\n")
	endOfLine = []byte("\r\n")
	version11 = []byte("HTTP/1.1 ")
)

// readCommon waits for the answer's beginning and consumes the answer if it is a common
// one that has arrived whole. Otherwise it consumes nothing.
func (l *Conn) readCommon(method string, keep int64) (reply, bool) {
	if method == http.MethodHead || method == http.MethodConnect {
		return reply{}, false
	}
	if _, err := l.br.Peek(1); err != nil {
		return reply{}, false // and the next to read meets the error again
	}
	there, err := l.br.Peek(l.br.Buffered())
	if err != nil {
		return reply{}, false
	}
	at := bytes.Index(there, endOfHead)
	if at < 0 {
		return reply{}, false
	}
	got, length, ok := parseCommonHead(there[:at+len(endOfLine)])
	start := at + len(endOfHead)
	if !ok || length > len(there)-start {
		return reply{}, false
	}
	kept := min(length, int(keep))
	got.excerpt, got.cut = append([]byte{}, there[start:start+kept]...), length > kept
	if _, err := l.br.Discard(start + length); err != nil {
		return reply{}, false
	}
	return got, true
}

// parseCommonHead reads a head whose lines all end with CRLF, the last one's included.
// It takes a final status whose answer has a body, its length stated once and in
// digits, and no field that changes how the rest is read.
func parseCommonHead(raw []byte) (got reply, length int, ok bool) {
	line, fields, _ := bytes.Cut(raw, endOfLine)
	line, found := bytes.CutPrefix(line, version11)
	if !found || len(line) < 4 || line[3] != ' ' || !httpguts.ValidHeaderFieldValue(string(line)) {
		return got, 0, false
	}
	got.status, ok = digitsOf(line[:3])
	if !ok || got.status < 200 || got.status == http.StatusNoContent || got.status == http.StatusNotModified {
		return got, 0, false
	}
	text := string(fields)
	values := make([]string, bytes.Count(fields, endOfLine))
	got.header, got.keep = make(http.Header, len(values)), true
	length = -1
	for len(fields) > 0 {
		line, rest, _ := bytes.Cut(fields, endOfLine)
		at := len(text) - len(fields)
		fields = rest
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || !httpguts.ValidHeaderFieldName(text[at:at+colon]) {
			return got, 0, false
		}
		name := textproto.CanonicalMIMEHeaderKey(text[at : at+colon])
		value := text[at+colon+1 : at+len(line)]
		if !httpguts.ValidHeaderFieldValue(value) { // before it is trimmed: a bare LF ends a line for net/http
			return got, 0, false
		}
		value = textproto.TrimString(value)
		switch name {
		case "Content-Length":
			if length >= 0 {
				return got, 0, false
			}
			if length, ok = digitsOf([]byte(value)); !ok {
				return got, 0, false
			}
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return got, 0, false
			}
		case "Transfer-Encoding", "Trailer", "Pragma":
			return got, 0, false
		}
		if before := got.header[name]; before != nil {
			got.header[name] = append(before, value)
			continue
		}
		values[0] = value
		got.header[name], values = values[:1:1], values[1:]
	}
	return got, length, length >= 0
}

// digitsOf reads one to six digits.
func digitsOf(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 6 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}
