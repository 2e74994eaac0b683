package fleet

import "syscall"

// attributes put a server in a process group of its own, and end it when the
// campaign is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
