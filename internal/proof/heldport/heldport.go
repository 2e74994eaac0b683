// Package heldport chooses a loopback port for another program to listen on, and keeps it
// from everyone else until that program is over. A port that is found free and then left
// is the kernel's to give again: to a second caller that looks for one, or to a
// connection. Two programs that set SO_REUSEPORT then listen side by side, and each gets
// some of the other's connections. It is for tests and benchmarks.
package heldport

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

// Port is a port of 127.0.0.1 that is kept for one program.
type Port struct {
	number int
	leave  func() error
	once   sync.Once
	err    error
}

// Hold takes a port that is free; 0: any. Connections to it are refused until the program
// listens. It may listen, end and listen again, and sets SO_REUSEADDR as Go does.
func Hold(port int) (*Port, error) {
	number, leave, err := take(port)
	if err != nil {
		return nil, err
	}
	return &Port{number: number, leave: leave}, nil
}

// Addr is the port's address.
func (p *Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Close releases the port. Safe to call twice. The program must have ended before.
func (p *Port) Close() error {
	p.once.Do(func() { p.err = p.leave() })
	return p.err
}

// For holds a port until the test ends, and returns its address. A program whose end is
// registered with Cleanup after this call has ended by then.
func For(tb testing.TB) string {
	tb.Helper()
	p, err := Hold(0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Error(err)
		}
	})
	return p.Addr()
}
