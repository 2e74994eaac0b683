package lookup

import (
	"encoding/json"
	"errors"
	"time"
)

// Clocks are the platform's clock and this process's, read at the same time. Watermarks
// embed them.
type Clocks struct {
	At    time.Time `json:"at"`
	Local time.Time `json:"local"`
}

// Known reports whether both clocks were read.
func (c Clocks) Known() bool { return !c.At.IsZero() && !c.Local.IsZero() }

// Earlier returns both clocks' times that much earlier.
func (c Clocks) Earlier(by time.Duration) Clocks { return Clocks{c.At.Add(-by), c.Local.Add(-by)} }

// EncodeWatermark returns a watermark as the store keeps it.
func EncodeWatermark(m any) (string, error) {
	text, err := json.Marshal(m)
	return string(text), err
}

// ParseWatermark reads a watermark back. It fails for one that is not valid.
func ParseWatermark[M any](text string, valid func(M) bool) (M, error) {
	var m, none M
	if err := json.Unmarshal([]byte(text), &m); err != nil || !valid(m) {
		return none, errors.New("the attempt's watermark is not readable")
	}
	return m, nil
}

// Seen returns the ids of the objects of the newest page that a watermark remembers: the
// newest, and those within slack of now. Read lag may hide others that were there, too.
func Seen[T any](r Rules[T], objects []T, now time.Time) (ids []string) {
	for i, o := range objects {
		if i == 0 || !r.Created(o).Before(now.Add(-r.Slack)) {
			ids = append(ids, r.ID(o))
		}
	}
	return ids
}

// From is the watermark's time in the precision of an object's stamp: some platforms
// stamp whole seconds.
func (c Clocks) From(created time.Time) time.Time {
	if created.Nanosecond() == 0 {
		return c.At.Truncate(time.Second)
	}
	return c.At
}
