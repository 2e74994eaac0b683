package main

import "time"

const (
	// stalledAfter is how long faults wait for jobs of which none comes to rest.
	stalledAfter = 2 * time.Minute
	// stuckAfter is how long there may be no progress at all; a part of the campaign that
	// only asks and reads may take as long. A wait that lasts longer never ends.
	stuckAfter = 10 * time.Minute
	// askBy bounds one question of how far the servers are: all may be frozen.
	askBy = 30 * time.Second
)

// watchdog measures how long there has been no progress.
type watchdog struct {
	since             time.Time
	answered, resting int
}

// idle takes how many jobs are acknowledged and at rest now.
func (d *watchdog) idle(now time.Time, answered, resting int) time.Duration {
	if answered != d.answered || resting != d.resting {
		d.since, d.answered, d.resting = now, answered, resting
	}
	return now.Sub(d.since)
}
