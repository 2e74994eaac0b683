//go:build unix && !linux

package main

import "syscall"

// attributes put a process in a group of its own: Ctrl-C is for the program that
// ends it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
