package x

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/fireonce/fireonce/internal/connector/transport"
)

// mark is a watermark: whose account it is, and when an intent was about to be
// written, by X's clock. The effect comes after it.
type mark struct {
	Version int    `json:"v"`
	Account string `json:"account"`
	// At is X's clock, in whole seconds; Local the clock of this process at the same
	// time.
	At    time.Time `json:"at"`
	Local time.Time `json:"local"`
}

const markVersion = 1

var errBadMark = errors.New("the attempt's watermark is not readable")

func (m mark) encode() (string, error) {
	text, err := json.Marshal(m)
	return string(text), err
}

func parseMark(text string) (mark, error) {
	var m mark
	if err := json.Unmarshal([]byte(text), &m); err != nil || m.Version != markVersion ||
		!snowflake.MatchString(m.Account) || m.At.IsZero() || m.Local.IsZero() {
		return mark{}, errBadMark
	}
	return m, nil
}

// idEpoch is where the ids' times begin: 2010-11-04 01:42:54.657 UTC.
const idEpoch = 1288834974657

// idAt gives the smallest id that an object made at that time can have: an id is
// milliseconds since idEpoch, and 22 bits of which machine made it and how often.
func idAt(t time.Time) uint64 { return uint64(max(0, t.UnixMilli()-idEpoch)) << 22 }

// timeOf gives when the object with this id was made.
func timeOf(id string) (at time.Time, number uint64, ok bool) {
	n, err := strconv.ParseUint(id, 10, 63)
	if err != nil || !snowflake.MatchString(id) {
		return time.Time{}, 0, false
	}
	return time.UnixMilli(int64(n>>22) + idEpoch).UTC(), n, true
}

// clockOf reads X's clock off an answer. X has written its zone as GMT and as UTC.
func clockOf(a transport.Answer) (time.Time, bool) {
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", "Mon, 02 Jan 2006 15:04:05 UTC"} {
		if at, err := time.Parse(layout, a.Header.Get("Date")); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
