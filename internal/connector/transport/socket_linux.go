package transport

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long written bytes may stay unacknowledged before the
// kernel drops the connection (RFC 5482), so that nothing is delivered long after the
// fence.
func setUserTimeout(c syscall.RawConn, d time.Duration) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}

// socket makes the calls on a connection's descriptor that package net does not offer.
// One goroutine at a time uses it. It keeps what its calls need, so that they allocate
// nothing.
type socket struct {
	raw  syscall.RawConn
	look func(fd uintptr)
	push func(fd uintptr) bool

	found pulse
	poll  [1]unix.PollFd
	out   []byte
	took  int
	err   error
}

func newSocket(raw syscall.RawConn) socket { return socket{raw: raw} }

// peek checks, without waiting and without consuming anything, whether the peer has
// sent something or gone. It ignores deadlines.
func (s *socket) peek() pulse {
	if s.look == nil {
		s.look = s.lookAt
	}
	s.found = pulseGone
	if s.raw.Control(s.look) != nil {
		return pulseGone
	}
	return s.found
}

// lookAt treats a peer that has sent something and gone as gone.
func (s *socket) lookAt(fd uintptr) {
	for {
		s.poll[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}
		n, err := unix.Poll(s.poll[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n == 0:
			s.found = pulseQuiet
		case err == nil && s.poll[0].Revents == unix.POLLIN:
			s.found = pulseData
		}
		return
	}
}

// writeNow makes one write that does not wait.
func (s *socket) writeNow(b []byte) (int, error) {
	if s.push == nil {
		s.push = s.pushTo
	}
	s.out, s.took, s.err = b, 0, nil
	err := s.raw.Write(s.push)
	s.out = nil
	if err == nil {
		err = s.err
	}
	return s.took, err
}

// pushTo always reports that it is done: the caller does not wait for the socket.
func (s *socket) pushTo(fd uintptr) bool {
	for {
		n, err := unix.Write(int(fd), s.out)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil:
			s.took = n
		case err != unix.EAGAIN:
			s.err = os.NewSyscallError("write", err)
		}
		return true
	}
}

// canPeek reports whether idle connections can be checked, and so reused.
const canPeek = true
