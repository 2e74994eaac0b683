package kit

import (
	"errors"
	"io"
	"sync"
	"time"
)

// errSlow is the error of a body that comes too slowly.
var errSlow = errors.New("the file comes too slowly")

// speedWatch is a body that must bring at least SlowMedia bytes in each SlowMediaAfter.
type speedWatch struct {
	io.ReadCloser
	stop func() // ends a read that waits

	mu    sync.Mutex
	read  int64 // in this period
	timer *time.Timer
	slow  bool
	ended bool
}

// watchSpeed begins to watch a body. stop makes a read of it fail that waits. The caller calls
// end.
func watchSpeed(body io.ReadCloser, stop func()) *speedWatch {
	w := &speedWatch{ReadCloser: body, stop: stop}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(SlowMediaAfter, w.check)
	return w
}

func (w *speedWatch) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ended:
	case w.read < SlowMedia:
		w.slow = true
		w.stop()
	default:
		w.read = 0
		w.timer.Reset(SlowMediaAfter)
	}
}

// Read implements io.Reader. It fails with errSlow once a period has brought too little.
func (w *speedWatch) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read += int64(n)
	if w.slow && !errors.Is(err, io.EOF) {
		return n, errSlow
	}
	return n, err
}

// end stops watching.
func (w *speedWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
}
