//go:build !linux

package connector

import (
	"net"
	"syscall"
	"time"
)

// setUserTimeout does nothing where TCP_USER_TIMEOUT is not known: the absolute
// deadlines and the abort on close still hold.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// peek cannot look here; the caller takes the line as it is.
func peek(net.Conn) pulse { return pulseQuiet }

// canPeek tells whether idle connections can be checked, and so reused.
const canPeek = false
