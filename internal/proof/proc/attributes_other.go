//go:build unix && !linux

package proc

import "syscall"

// Attributes put a process in a process group of its own, since Ctrl-C is for the program that
// started it.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
