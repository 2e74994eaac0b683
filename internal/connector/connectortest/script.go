package connectortest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Point is the moment at which a script runs.
type Point int

const (
	// AtRequest runs when the request has arrived whole: a platform that acts, and
	// then this happens to its answer.
	AtRequest Point = iota
	// AtHead runs when the head has arrived, before the body is read.
	AtHead
	// AtFirstByte runs when the first byte has arrived, reading nothing.
	AtFirstByte
	// AtAccept runs when the connection has been accepted, before TLS.
	AtAccept
)

// Script is what the platform does with one request.
type Script struct {
	At Point
	Do func(*Conn)
}

// Write sends raw bytes. Errors are the peer's business.
func (c *Conn) Write(raw string) { _, _ = io.WriteString(c.conn, raw) }

// Close closes in good order, after TLS's farewell.
func (c *Conn) Close() {
	c.ended = true
	_ = c.conn.Close()
}

// Cut closes the socket without a farewell of TLS.
func (c *Conn) Cut() {
	c.ended = true
	_ = c.raw.Close()
}

// Reset closes with RST.
func (c *Conn) Reset() {
	c.ended = true
	_ = c.raw.SetLinger(0)
	_ = c.raw.Close()
}

// AwaitRelease waits for Platform.Release, or the test's end.
func (c *Conn) AwaitRelease() {
	select {
	case <-c.p.release:
	case <-c.p.gone:
	}
}

// AwaitPeerGone reads until the peer closes.
func (c *Conn) AwaitPeerGone() {
	c.ended = true
	_, _ = io.Copy(io.Discard, c.br)
}

// Answer makes the raw text of an answer with a length. headers are whole lines.
func Answer(status int, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Length: %d\r\n", status, http.StatusText(status), len(body))
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	return b.String() + "\r\n" + body
}

// Say answers with raw bytes and keeps the connection open.
func Say(raw string) Script {
	return Script{Do: func(c *Conn) { c.Write(raw) }}
}

// SayAndClose answers with raw bytes and closes.
func SayAndClose(raw string) Script {
	return Script{Do: func(c *Conn) { c.Write(raw); c.Close() }}
}

// Status answers with a status, a short body and whole header lines.
func Status(code int, headers ...string) Script {
	if code == http.StatusNoContent || code == http.StatusNotModified {
		return Say(fmt.Sprintf("HTTP/1.1 %d %s\r\n\r\n", code, http.StatusText(code)))
	}
	return Say(Answer(code, "{}", headers...))
}

// Scripts that need no words of their own.
var (
	// OK answers 200.
	OK = Status(http.StatusOK)
	// DropAnswer acts, and closes without an answer.
	DropAnswer = Script{Do: (*Conn).Close}
	// ResetAnswer acts, and resets without an answer.
	ResetAnswer = Script{Do: (*Conn).Reset}
	// NeverAnswer acts, and stays silent.
	NeverAnswer = Script{Do: (*Conn).AwaitPeerGone}
	// CloseAtAccept closes before anything was read.
	CloseAtAccept = Script{At: AtAccept, Do: (*Conn).Cut}
	// CloseAtFirstByte closes as a request starts, as a server does whose idle
	// limit runs out just then.
	CloseAtFirstByte = Script{At: AtFirstByte, Do: (*Conn).Cut}
	// ResetAtFirstByte is CloseAtFirstByte with RST.
	ResetAtFirstByte = Script{At: AtFirstByte, Do: (*Conn).Reset}
	// EarlyRefusal answers 413 before it reads the body, and closes.
	EarlyRefusal = Script{At: AtHead, Do: func(c *Conn) {
		c.Write(Answer(http.StatusRequestEntityTooLarge, "too large", "Connection: close"))
		c.Close()
	}}
	// Echo refuses with 400 and returns all that it got.
	Echo = Script{Do: func(c *Conn) {
		c.Write(Answer(http.StatusBadRequest, c.Request.Line+"\n"+c.Request.Head+string(c.Request.Body)))
	}}
	// Trickle answers 200 one byte every few milliseconds, without an end.
	Trickle = Script{Do: func(c *Conn) { c.trickle("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n") }}
	// TrickleHead does so and never comes to the head's end.
	TrickleHead = Script{Do: func(c *Conn) { c.trickle("HTTP/1.1 200 OK\r\nX-Slow: ") }}
	// EndlessBody answers 200 with a body without end.
	EndlessBody = Script{Do: func(c *Conn) { c.endless("HTTP/1.1 200 OK\r\n\r\n") }}
	// EndlessHead answers 200 with headers without end.
	EndlessHead = Script{Do: func(c *Conn) { c.endless("HTTP/1.1 200 OK\r\nX-Long: ") }}
	// EndlessInformational answers 103 again and again.
	EndlessInformational = Script{Do: func(c *Conn) {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(c.conn, "HTTP/1.1 103 Early Hints\r\n\r\n")
		}
		c.Cut()
	}}
)

// TrickleAfter writes the text, and then one byte every few milliseconds, without an end.
func TrickleAfter(text string) Script {
	return Script{Do: func(c *Conn) {
		c.Write(text)
		c.trickle("")
	}}
}

// trickle writes the text, then "a" forever, one byte per tick, until the peer
// is gone. Time is its subject.
func (c *Conn) trickle(text string) {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		one := "a"
		if i < len(text) {
			one = text[i : i+1]
		}
		if _, err := io.WriteString(c.conn, one); err != nil {
			c.Cut()
			return
		}
		select {
		case <-tick.C:
		case <-c.p.gone:
			return
		}
	}
}

func (c *Conn) endless(start string) {
	c.Write(start)
	chunk := strings.Repeat("a", 32<<10)
	for err := error(nil); err == nil; {
		_, err = io.WriteString(c.conn, chunk)
	}
	c.Cut()
}
