package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/engine"
	"github.com/fireonce/fireonce/internal/job"
)

// TestQuiet: it waits for what is due and for what is under way, and returns when something
// will be due next.
func TestQuiet(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		e, err := engine.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		now, later := w.submit("now"), w.submit("later", at(time.Hour))

		// No engine runs yet, so the due job stays due.
		short, cancel := context.WithTimeout(ctx, time.Second)
		if _, err := e.Quiet(short, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("quiet with a due job: %v", err)
		}
		cancel()

		go func() { ended <- e.Run(ctx) }()
		next, err := e.Quiet(ctx, 24*time.Hour)
		if err != nil || next < 50*time.Minute || next > time.Hour {
			t.Errorf("quiet for %s, %v; the next job is due in an hour", next, err)
		}
		if s := w.job(now); s.State != job.Succeeded {
			t.Errorf("quiet while the due job is %s", s.State)
		}
		if s := w.job(later); s.State != job.Scheduled {
			t.Errorf("the later job is %s", s.State)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}, class(job.Opaque))
}
