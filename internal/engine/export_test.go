package engine

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// ReadingAt is a reading whose wall clock is off by shift, for tests that set it.
func ReadingAt(now time.Time, boot, shift time.Duration) Reading {
	return Reading{Time: now, Boot: boot, shift: shift}
}

// LookTo is where a look at the attempts ends.
func LookTo(grace time.Duration, l store.Leased, attempts []job.Attempt) time.Time {
	return (&Engine{Config: Config{Grace: grace}}).lookTo(&l, attempts)
}
