package main

import (
	"testing"
	"testing/synctest"
)

// TestClientsWaitForTheNemesis: no client is ahead of what is allowed, and none
// never ends when the load ends early.
func TestClientsWaitForTheNemesis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(1, 100, func(i int) spec { return specOf(1, i) }, nil, targets{})
		l.allow(10)
		if from, to := l.take(mostAtOnce); from != 0 || to != 10 {
			t.Fatalf("took %d to %d", from, to)
		}
		var from, to int
		done := make(chan struct{})
		go func() {
			from, to = l.take(mostAtOnce)
			close(done)
		}()
		synctest.Wait()
		if taken, _, _ := l.progress(); taken != 10 {
			t.Fatalf("%d taken, 10 allowed", taken)
		}
		l.allow(12)
		<-done
		if from != 10 || to != 12 {
			t.Errorf("took %d to %d", from, to)
		}
		reached := make(chan struct{})
		go func() {
			l.reaches(50)
			close(reached)
		}()
		synctest.Wait()
		l.stop()
		<-reached
		if from, to := l.take(1); from != to {
			t.Errorf("took %d to %d of a load that was stopped", from, to)
		}
	})
}

// TestClientsWaitForTheServers: what is not at rest is bounded.
func TestClientsWaitForTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(1, 3*mostWaiting, nil, nil, targets{})
		l.allow(l.jobs)
		go func() {
			for {
				if from, to := l.take(mostAtOnce); from == to {
					return
				}
			}
		}()
		for _, resting := range []int{0, mostWaiting / 2} {
			l.rests(resting)
			synctest.Wait()
			if taken, _, _ := l.progress(); taken-resting < mostWaiting || taken-resting > mostWaiting+mostAtOnce {
				t.Errorf("%d of %d jobs are not at rest", taken-resting, taken)
			}
		}
		l.stop()
	})
}
