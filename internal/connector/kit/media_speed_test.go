package kit

import (
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAFileThatComesTooSlowlyIsGivenUp: each period must bring its bytes, also after a quick
// beginning; a slow link that brings them is waited for.
func TestAFileThatComesTooSlowlyIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		second func(n int) int // bytes of a second
		want   error
	}{
		{"dripping", func(int) int { return 200 }, errSlow},
		{"silent", func(int) int { return 0 }, errSlow},
		{"quick, then dripping", func(n int) int {
			if n == 0 {
				return 1 << 20
			}
			return 200
		}, errSlow},
		{"slow, and fast enough", func(int) int { return 20 << 10 }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				from, to := io.Pipe()
				w := watchSpeed(from, func() { _ = from.CloseWithError(io.ErrClosedPipe) })
				defer w.end()
				var writer sync.WaitGroup
				defer writer.Wait()
				writer.Go(func() {
					for n := range 60 {
						if _, err := to.Write(make([]byte, tt.second(n))); err != nil {
							return
						}
						time.Sleep(time.Second) // of the bubble's time
					}
					_ = to.Close()
				})
				if _, err := io.Copy(io.Discard, w); !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
			})
		})
	}
}
