package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// TestHoldsAreTold: the beginning and the end of a hold are a line of the log each, however
// many jobs it holds.
func TestHoldsAreTold(t *testing.T) {
	log := &logged{}
	in(t, func(t *testing.T, w *world) {
		w.guard(&guarded{atSend: func(version int) bool { return version < 2 }})
		w.start()
		var jobs []job.ID
		for i := range 5 {
			jobs = append(jobs, w.submit(fmt.Sprint("k", i)))
		}
		w.pass(time.Minute)
		if with, _ := log.count("a connection is held: its credential is refused"); with != 1 {
			t.Errorf("%d lines of a hold that begins\n%s", with, log.buf.String())
		}
		w.rotate()
		for _, id := range jobs {
			w.until(id, job.Succeeded, time.Hour)
		}
		if with, _ := log.count("a connection is held no longer"); with != 1 {
			t.Errorf("%d lines of a hold that ends\n%s", with, log.buf.String())
		}
	}, class(job.Opaque), logTo(log))
}
