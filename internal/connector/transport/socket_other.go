//go:build !linux

package transport

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing where TCP_USER_TIMEOUT is not known: the absolute
// deadlines and the abort on close still hold.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }

// socket makes the calls on a connection's descriptor that package net does not offer:
// none here.
type socket struct{}

func newSocket(syscall.RawConn) socket { return socket{} }

// peek cannot check here; the caller uses the connection as it is.
func (*socket) peek() pulse { return pulseQuiet }

// writeNow writes nothing here; the caller writes in the ordinary way.
func (*socket) writeNow([]byte) (int, error) { return 0, nil }

// canPeek reports whether idle connections can be checked, and so reused.
const canPeek = false
