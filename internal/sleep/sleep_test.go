package sleep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/sleep"
)

// TestFor: it waits for the whole time, or until the context ends, and reports which.
func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if !sleep.For(t.Context(), time.Minute) || time.Since(begun) != time.Minute {
			t.Errorf("waited %v of a minute", time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if sleep.For(ctx, time.Minute) || time.Since(begun) != time.Second {
			t.Errorf("waited %v after a context that ended after a second", time.Since(begun))
		}
	})
}
