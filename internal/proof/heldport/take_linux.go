package heldport

import (
	"os"
	"syscall"
)

// take binds a socket, and does not listen on it. Linux looks for listening sockets only when a
// connection arrives, so this one gets none. When it chooses a port itself, for a listener with or
// without SO_REUSEADDR and SO_REUSEPORT or for a connection, it passes over a port that is bound
// (unless net.ipv4.ip_autobind_reuse is set). Who names the port may listen on it if both sockets have
// SO_REUSEADDR, and no other one listens.
func take(port int) (number int, leave func() error, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, os.NewSyscallError("socket", err)
	}
	defer func() {
		if err != nil {
			_ = syscall.Close(fd)
		}
	}()
	loopback := [4]byte{127, 0, 0, 1}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: loopback}); err != nil {
		return 0, nil, os.NewSyscallError("bind", err)
	}
	// Set only now: before, the port of a socket that has it, too, could be bound again.
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, nil, os.NewSyscallError("setsockopt", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, nil, os.NewSyscallError("getsockname", err)
	}
	return bound.(*syscall.SockaddrInet4).Port, func() error { return os.NewSyscallError("close", syscall.Close(fd)) }, nil
}
