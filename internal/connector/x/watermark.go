package x

import (
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/connector/transport"
)

// watermark has the account, and when an intent was about to be written, by X's
// clock, in whole seconds. The effect comes after it.
type watermark struct {
	Version int    `json:"v"`
	Account string `json:"account"`
	lookup.Clocks
}

const watermarkVersion = 1

func parseWatermark(text string) (watermark, error) {
	return lookup.ParseWatermark(text, func(m watermark) bool {
		return m.Version == watermarkVersion && snowflake.MatchString(m.Account) && m.Known()
	})
}

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
