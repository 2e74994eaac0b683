package main

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheWatchdogSeesNoProgress(t *testing.T) {
	begun := time.Unix(0, 0)
	d := &watchdog{since: begun}
	for _, step := range []struct {
		at, want          time.Duration
		answered, resting int
	}{
		{at: 5 * time.Second, want: 5 * time.Second},
		{at: 6 * time.Second, answered: 1},
		{at: 7 * time.Second, answered: 1, want: time.Second},
		{at: 9 * time.Second, answered: 1, resting: 1},
		{at: time.Hour, answered: 1, resting: 1, want: time.Hour - 9*time.Second},
	} {
		if got := d.idle(begun.Add(step.at), step.answered, step.resting); got != step.want {
			t.Errorf("after %v: %v, want %v", step.at, got, step.want)
		}
	}
}

// TestFaultsWaitForJobsAtRest: not for jobs that are only submitted, and not forever.
func TestFaultsWaitForJobsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(1, 100, nil, nil, targets{})
		l.allow(100)
		l.take(mostAtOnce)
		for _, release := range []func(){func() { l.rests(10) }, func() { l.stall(true) }} {
			reached := false
			go func() {
				l.reaches(10)
				reached = true
			}()
			synctest.Wait()
			if reached {
				t.Fatal("did not wait")
			}
			release()
			synctest.Wait()
			if !reached {
				t.Fatal("still waits")
			}
			l.rests(0)
		}
	})
}
