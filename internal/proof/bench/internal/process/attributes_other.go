//go:build unix && !linux

package process

import "syscall"

// Attributes put a process in a group of its own: Ctrl-C is for the program that
// ends it.
func Attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
