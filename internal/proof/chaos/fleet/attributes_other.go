//go:build unix && !linux

package fleet

import "syscall"

// attributes put a server in a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
