package server

import (
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"

	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
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
	for _, size := range []int{0, 1, framesStep, framesStep + 1, firstReservation, 100_000, 1 << 20} {
		limits := limitsOf(0, 0)
		s := &Server{cfg: Config{Limits: limits}, budget: newRequestBudget(limits)}
		in := &crumbled{text: strings.Repeat("ab", size)[:size]}
		want := in.text
		got, err := (&native{Server: s}).readMessage(t.Context(), fireoncev1connect.JobServiceScheduleJobProcedure, in, s.budget.reserve("a", limits.Request))
		if err != nil || string(got) != want {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
		if in.most > framesStep {
			t.Errorf("%d bytes: %d frames are held", size, in.most)
		}
	}
}
