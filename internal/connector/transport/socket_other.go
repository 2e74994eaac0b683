//go:build !linux

package transport

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing where TCP_USER_TIMEOUT is not known: the absolute
// deadlines and the abort on close still hold.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// socket does with a connection's descriptor what net has no calls for: nothing
// here.
type socket struct{}

func newSocket(syscall.RawConn) socket { return socket{} }

// peek cannot look here; the caller takes the connection as it is.
func (*socket) peek() pulse { return pulseQuiet }

// writeNow takes nothing here; the caller writes in the ordinary way.
func (*socket) writeNow([]byte) (int, error) { return 0, nil }

// canPeek reports whether idle connections can be checked, and so reused.
const canPeek = false
