//go:build !linux

package heldport

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
)

// held are the ports that this process keeps for programs.
var held = struct {
	sync.Mutex
	ports map[int]bool
}{ports: make(map[int]bool)}

// take finds a free port, and returns it to no other caller in this process. Elsewhere than on
// Linux a socket that is bound and does not listen keeps the program from listening, or gets
// connections itself. So another process may get the port before the program has it.
func take(port int) (number int, leave func() error, err error) {
	held.Lock()
	defer held.Unlock()
	for {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return 0, nil, err
		}
		defer func() { _ = l.Close() }() // not before another one is found
		number := l.Addr().(*net.TCPAddr).Port
		if !held.ports[number] {
			held.ports[number] = true
			return number, func() error {
				held.Lock()
				defer held.Unlock()
				delete(held.ports, number)
				return nil
			}, nil
		}
		if port != 0 {
			return 0, nil, fmt.Errorf("port %d is held", port)
		}
	}
}
