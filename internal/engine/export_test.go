package engine

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// LookTo is the moment at which a look at the attempts ends.
func LookTo(grace time.Duration, l store.Leased, attempts []job.Attempt) time.Time {
	return lookTo(&l, attempts, grace)
}
