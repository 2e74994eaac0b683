package smtptest

import (
	"bytes"
	"io"
	"net"
	"sync"
)

// Break is a place at which one connection breaks off. It is found in what is sent,
// so the connection must have no TLS.
type Break int

const (
	// Never passes everything on.
	Never Break = iota
	// AtData keeps back the leave to send (354): the relay has heard nothing of the
	// message's content, and the client knows that.
	AtData
	// InContent passes on ContentPassed bytes, and resets the connection.
	InContent
	// AtDot passes the message's end on, and keeps back the answer to it.
	AtDot
)

// ContentPassed is how much InContent passes on, in bytes, envelope included.
const ContentPassed = 256 << 10

// keptTail is enough of what was sent to find a break in it.
const keptTail = len("\r\nDATA\r\n")

// Break sets what becomes of the next connections, in turn. Those after them are
// passed on as Cut sets it.
func (c *Cutter) Break(list ...Break) { c.mu.Lock(); defer c.mu.Unlock(); c.breaks = list }

// next is what becomes of one more connection.
func (c *Cutter) next() Break {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.breaks) == 0 {
		return Never
	}
	b := c.breaks[0]
	c.breaks = c.breaks[1:]
	return b
}

// reached reports whether a client that has sent so much, with these bytes last, waits
// for what does not come.
func (b Break) reached(said int, tail []byte) bool {
	switch b {
	case AtData:
		return bytes.HasSuffix(tail, []byte("\r\nDATA\r\n"))
	case AtDot:
		return bytes.HasSuffix(tail, []byte("\r\n.\r\n"))
	case InContent:
		return said >= ContentPassed
	default:
		return false
	}
}

// talk passes a conversation on, up to its break. The relay comes to its own end.
func (b Break) talk(client, relay *net.TCPConn) {
	var mu sync.Mutex
	broken := false
	var both sync.WaitGroup
	both.Go(func() {
		defer func() { _ = relay.CloseWrite() }()
		var tail []byte
		said, buf := 0, make([]byte, 4<<10)
		for {
			n, err := client.Read(buf)
			said += n
			tail = append(tail, buf[:n]...)
			tail = tail[max(0, len(tail)-keptTail):]
			end := b.reached(said, tail)
			if end {
				mu.Lock()
				broken = true // before the relay can answer
				mu.Unlock()
			}
			if _, werr := relay.Write(buf[:n]); werr != nil || err != nil {
				return
			}
			if end {
				_ = client.SetLinger(0)
				_ = client.Close()
				return
			}
		}
	})
	both.Go(func() {
		buf := make([]byte, 4<<10)
		for {
			n, err := relay.Read(buf)
			mu.Lock()
			if !broken {
				_, _ = client.Write(buf[:n]) // a client that is gone shows in the other direction
			}
			mu.Unlock()
			if err != nil {
				_ = client.CloseWrite()
				_, _ = io.Copy(io.Discard, relay)
				return
			}
		}
	})
	both.Wait()
}
