//go:build !race

package server_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

// mostHeld is what one connection can make the native listener hold, as docs/operations.md
// states it.
const mostHeld = 24 << 20

// TestNativeConnectionIsSmall: one connection that opens as many calls as it may, and sends on
// each more than is read, holds no more than the documentation says. The race detector is left
// out: it takes memory of its own.
func TestNativeConnectionIsSmall(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Log = nil })
	c := dialRaw(t, f.native)
	before := inUse()
	for range 1000 {
		id := c.open(jobsPath + "StreamJobEvents")
		c.data(id, framed(t, &fireoncev1.StreamJobEventsRequest{}))
		for range 3 {
			c.data(id, make([]byte, 16<<10))
		}
	}
	c.settle()
	held := inUse() - before
	t.Logf("one connection holds %d KiB", held>>10)
	if held > mostHeld {
		t.Errorf("one connection holds %d bytes, at most %d", held, mostHeld)
	}
}

// framed is a message as gRPC sends it.
func framed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...)
}

func inUse() int {
	for range 3 { // pools give up what they keep with the second one
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}

// rawConn is a connection of HTTP/2 that sends what no client library would.
type rawConn struct {
	*testing.T
	conn   net.Conn
	framer *http2.Framer
	last   uint32 // stream
	acks   chan struct{}
	ended  chan struct{} // closed when the server has closed the connection
}

func dialRaw(t *testing.T, addr string) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &rawConn{T: t, conn: conn, framer: http2.NewFramer(conn, conn), acks: make(chan struct{}, 1), ended: make(chan struct{})}
	c.send([]byte(http2.ClientPreface))
	c.must(c.framer.WriteSettings())
	go c.listen()
	t.Cleanup(func() {
		_ = conn.Close()
		<-c.ended
	})
	return c
}

// listen reads what the server sends, and notes the answers to settle.
func (c *rawConn) listen() {
	defer close(c.ended)
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		if ping, ok := f.(*http2.PingFrame); ok && ping.IsAck() {
			c.acks <- struct{}{}
		}
	}
}

func (c *rawConn) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *rawConn) send(b []byte) {
	c.Helper()
	_, err := c.conn.Write(b)
	c.must(err)
}

// settle waits until the server's transport has read everything.
func (c *rawConn) settle() {
	c.Helper()
	c.must(c.framer.WritePing(false, [8]byte{}))
	select {
	case <-c.acks:
	case <-c.ended:
		c.Fatal("the server closed the connection")
	}
}

// open begins a call.
func (c *rawConn) open(path string) (stream uint32) {
	c.Helper()
	stream = c.last + 1
	c.last = stream + 1
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", "localhost"},
		{"content-type", "application/grpc"}, {"te", "trailers"},
	} {
		c.must(enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
	}
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true}))
	return stream
}

func (c *rawConn) data(stream uint32, b []byte) {
	c.Helper()
	c.must(c.framer.WriteData(stream, false, b))
}
