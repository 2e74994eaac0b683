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

	death  = placeFrom(os.Getenv("FIREONCE_FAILPOINT"))
	freeze = placeFrom(os.Getenv("FIREONCE_FREEZE"))
)

// place is where something happens, and at which hit.
type place struct {
	name string
	nth  int
}

func placeFrom(text string) place {
	name, nth, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(nth)
	if err != nil || n < 1 {
		n = 1
	}
	return place{name, n}
}

// Hit kills the process with SIGKILL, or freezes it, when this is the place and
// the time for it. It returns neither from a death nor before a freeze is over.
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

// stopping is more than the kernel takes to stop all threads once one was told.
const stopping = 20 * time.Millisecond

// stop freezes the process. It goes on where it was: it must not let the scheduler
// in, or what came due during the freeze would run before its caller does.
func stop() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for begun := time.Now(); time.Since(begun) < stopping; {
	}
}
