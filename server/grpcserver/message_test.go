package grpcserver

import (
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/fireonce/fireonce/server"
)

// crumbled is a transport to which a message came in frames of one byte each.
type crumbled struct {
	text string
	most int // the frames that were handed over at a time
}

// ReadMessageHeader implements frames.
func (c *crumbled) ReadMessageHeader(head []byte) error {
	copy(head, []byte{0, 0, byte(len(c.text) >> 16), byte(len(c.text) >> 8), byte(len(c.text))})
	return nil
}

// Read implements frames.
func (c *crumbled) Read(n int) (out mem.BufferSlice, err error) {
	if n > len(c.text) {
		return nil, io.ErrUnexpectedEOF
	}
	for i := range n {
		out = append(out, mem.SliceBuffer(c.text[i:i+1]))
	}
	c.text, c.most = c.text[n:], max(c.most, n)
	return out, nil
}

// RecvCompress implements frames.
func (*crumbled) RecvCompress() string { return "" }

// TestCrumbsAreCopied: a message that comes byte by byte is whole, and never more than a
// step of it is held as the objects that came.
func TestCrumbsAreCopied(t *testing.T) {
	for _, size := range []int{0, 1, framesStep, framesStep + 1, 4 << 10, 100_000, 1 << 20} {
		in := &crumbled{text: strings.Repeat("ab", size)[:size]}
		want := in.text
		var head [server.FrameHeader]byte
		if err := in.ReadMessageHeader(head[:]); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, size+1)
		n, err := io.ReadFull(&framesBody{in: in, left: server.FrameSize(head)}, got)
		if ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); !ended || string(got[:n]) != want {
			t.Errorf("%d bytes: read %d, %v", size, n, err)
		}
		if in.most > framesStep {
			t.Errorf("%d bytes: %d frames are held", size, in.most)
		}
	}
}
