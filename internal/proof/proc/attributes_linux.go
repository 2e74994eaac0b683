package proc

import "syscall"

// Attributes put a process in a process group of its own, since Ctrl-C is for the program that
// started it, and end it when that program is killed.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
