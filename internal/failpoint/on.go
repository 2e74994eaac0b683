//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

var (
	mu   sync.Mutex
	hits = map[string]int{}
)

// Hit kills the process with SIGKILL when FIREONCE_FAILPOINT names this place:
// "armed" at its first hit, "armed:3" at its third. It never returns then.
func Hit(name string) {
	want, nth, _ := strings.Cut(os.Getenv("FIREONCE_FAILPOINT"), ":")
	if want != name {
		return
	}
	n, err := strconv.Atoi(nth)
	if err != nil {
		n = 1
	}
	mu.Lock()
	hits[name]++
	hit := hits[name] == n
	mu.Unlock()
	if !hit {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
