package node

import (
	"time"

	"github.com/fireonce/fireonce/store"
)

// tellClock logs when the clock becomes suspect, and when it is trusted again.
func (c Config) tellClock(n store.ClockNews) {
	d := n.Suspect
	switch {
	case n.Failed != nil:
		c.Log.Error("the clock is trusted again, but stored times could not be adjusted: it is tried again", "err", n.Failed,
			"why", d.Why, "nothing_is_sent", d.Suspends, "then", "see that the database can write")
	case d.Why == "":
		c.Log.Info("the clock is believed again", "because", n.Because, "time_moved_by", n.Step.String())
	case d.Suspends:
		c.Log.Error("THE TIME IS IN DOUBT: nothing is sent until it is believed again", "why", d.Why,
			"then", "set the clock right; or, if it is right, wait for --clock-doubt, or start with --trust-clock")
	default:
		c.Log.Warn("the clock has jumped: jobs are sent by the time that was believed before", "why", d.Why,
			"believed", d.Since.UTC().Format(time.RFC3339), "then", "set the clock right; if it is right, it is believed after --clock-doubt")
	}
}
