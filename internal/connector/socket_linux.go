package connector

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setUserTimeout bounds how long written bytes may stay unacknowledged before
// the kernel gives the connection up (RFC 5482), so that nothing is delivered
// long after the fence.
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

// peek looks, without waiting and without taking anything, whether the peer has
// sent something or gone.
func peek(conn net.Conn) pulse {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return pulseGone
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return pulseGone
	}
	found := pulseGone
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		for {
			n, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN:
				found = pulseQuiet
			case err == nil && n > 0:
				found = pulseData
			}
			return true
		}
	})
	if err != nil {
		return pulseGone
	}
	return found
}

// canPeek tells whether idle connections can be checked, and so reused.
const canPeek = true
