//go:build failpoints

package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	mu   sync.Mutex
	hits = map[string]int{}

	death  = triggerFrom(os.Getenv("FIREONCE_FAILPOINT"))
	freeze = triggerFrom(os.Getenv("FIREONCE_FREEZE"))
)

// trigger is a failpoint, and the hit at which it takes effect.
type trigger struct {
	name string
	nth  int
}

func triggerFrom(text string) trigger {
	name, nth, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(nth)
	if err != nil || n < 1 {
		n = 1
	}
	return trigger{name, n}
}

// Hit kills the process with SIGKILL, or freezes it, if the environment demands it for this
// hit of this failpoint. It does not return from a death, and returns from a freeze when that
// is over.
func Hit(name string) {
	if name != death.name && name != freeze.name {
		return
	}
	mu.Lock()
	hits[name]++
	n := hits[name]
	mu.Unlock()
	if name == death.name && n == death.nth {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	if name == freeze.name && n%freeze.nth == 0 {
		stop()
	}
}

// stopping is longer than the kernel takes to stop all threads after the signal.
const stopping = 20 * time.Millisecond

// stop freezes the process, which then continues here. It must not yield to Go's scheduler
// before it returns, or timers that came due during the freeze would run before its caller.
func stop() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for begun := time.Now(); time.Since(begun) < stopping; {
	}
}
