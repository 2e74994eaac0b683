package x

import (
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

type watermark = lookup.Watermark

// watermarks have X's clock in whole seconds. A user's id outlives a change of the name.
var watermarks = lookup.Watermarks{
	Valid:    func(m watermark) bool { return snowflake.MatchString(m.Account) },
	Identity: func(m watermark) string { return identity(m.Account) },
}

func identity(user string) string { return "x:" + user }

// idEpoch is where the ids' times begin: 2010-11-04 01:42:54.657 UTC.
const idEpoch = 1288834974657

// idAt returns the smallest id that an object made at that time can have: an id is
// milliseconds since idEpoch, and 22 bits of which machine made it and how often.
func idAt(t time.Time) uint64 { return uint64(max(0, t.UnixMilli()-idEpoch)) << 22 }

// timeOf returns when the object with this id was made.
func timeOf(id string) (at time.Time, number uint64, ok bool) {
	n, err := strconv.ParseUint(id, 10, 63)
	if err != nil || !snowflake.MatchString(id) {
		return time.Time{}, 0, false
	}
	return time.UnixMilli(int64(n>>22) + idEpoch).UTC(), n, true
}

// clockOf reads X's clock off an answer. X has written its zone as GMT and as UTC.
func clockOf(a transport.Response) (time.Time, bool) { return lookup.ClockOf(a, "GMT", "UTC") }
