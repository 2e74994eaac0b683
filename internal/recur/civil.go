package recur

import (
	"errors"
	"fmt"
	"time"
)

// Civil is the date and time that a calendar and a wall clock show, without a zone: the
// seconds since 1970-01-01T00:00:00 on that clock.
type Civil int64

const (
	secondsPerMinute = 60
	secondsPerHour   = 3600
	secondsPerDay    = 86400

	civilLayout = "2006-01-02T15:04:05"
	dateLayout  = "2006-01-02"

	minYear = 1970
	maxYear = 2199
)

// The first and the last second in which a beat can be.
var (
	minCivil = civilOf(minYear, time.January, 1)
	maxCivil = civilOf(maxYear+1, time.January, 1) - 1
)

func civilOf(year int, month time.Month, day int) Civil {
	return Civil(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix())
}

// ParseCivil parses a civil time such as 2026-03-29T02:30:00, in the years 1970 to 2199.
func ParseCivil(text string) (Civil, error) {
	return parseCivil(civilLayout, text)
}

func parseCivil(layout, text string) (Civil, error) {
	return parseCivilIn(layout, text, minYear, maxYear)
}

func parseCivilIn(layout, text string, first, last int) (Civil, error) {
	// Parse takes fractions of a second that the layout does not have.
	t, err := time.Parse(layout, text)
	if err != nil || len(text) != len(layout) {
		return 0, errors.New(explainCivil(text, layout))
	}
	if t.Year() < first || t.Year() > last {
		return 0, fmt.Errorf("the year %d is not in %d to %d", t.Year(), first, last)
	}
	return Civil(t.Unix()), nil
}

// CivilAt returns the civil time at an instant, offset seconds east of UTC.
func CivilAt(instant time.Time, offset int) Civil { return Civil(instant.Unix() + int64(offset)) }

func (c Civil) time() time.Time { return time.Unix(int64(c), 0).UTC() }

// String returns the time as 2026-03-29T02:30:00.
func (c Civil) String() string { return c.time().Format(civilLayout) }

// Date returns the date as 2026-03-29.
func (c Civil) Date() string { return c.time().Format(dateLayout) }

// day returns the number of the day, counted from 1970-01-01.
func (c Civil) day() int64 { return floorDiv(int64(c), secondsPerDay) }

func (c Civil) dayStart() Civil { return Civil(c.day() * secondsPerDay) }

// minuteEnd returns the beginning of the next minute.
func (c Civil) minuteEnd() Civil {
	return Civil((floorDiv(int64(c), secondsPerMinute) + 1) * secondsPerMinute)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}
