// Package duration parses and formats durations that may have days: "2d12h". It can parse
// whatever it formats.
package duration

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
)

const day = 24 * time.Hour

// days is a duration that begins with a number of days.
var days = regexp.MustCompile(`^([+-]?)([0-9]+)d(.*)$`)

// Parse parses a duration as time.ParseDuration does, with an optional number of days of 24
// hours before it.
func Parse(text string) (time.Duration, error) {
	found := days.FindStringSubmatch(text)
	if found == nil {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 1h30m or 2d", text)
		}
		return d, nil
	}
	n, err := strconv.ParseInt(found[2], 10, 64)
	const most = int64(1<<63-1) / int64(day)
	if err != nil || n > most {
		return 0, fmt.Errorf("%q is longer than %d days", text, most)
	}
	var rest time.Duration
	if found[3] != "" {
		if rest, err = time.ParseDuration(found[3]); err != nil || rest < 0 || rest >= day {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 1h30m or 2d", text)
		}
	}
	total := time.Duration(n)*day + rest
	if total < 0 {
		return 0, fmt.Errorf("%q is longer than %d days", text, most)
	}
	if found[1] == "-" {
		total = -total
	}
	return total, nil
}

// Format formats a duration with its days, and without trailing units that are 0.
func Format(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	whole, rest := d/day, d%day
	out := ""
	if whole > 0 {
		out = strconv.FormatInt(int64(whole), 10) + "d"
	}
	if rest > 0 || whole == 0 {
		short := rest.String()
		if strings.HasSuffix(short, "m0s") {
			short = strings.TrimSuffix(short, "0s")
		}
		if strings.HasSuffix(short, "h0m") {
			short = strings.TrimSuffix(short, "0m")
		}
		out += short
	}
	return sign + out
}

// Flag is a flag whose value is a duration.
type Flag = cli.FlagBase[time.Duration, cli.NoConfig, value]

type value time.Duration

// Create implements cli.ValueCreator.
func (value) Create(initial time.Duration, to *time.Duration, _ cli.NoConfig) cli.Value {
	*to = initial
	return (*value)(to)
}

// ToString implements cli.ValueCreator.
func (value) ToString(d time.Duration) string { return Format(d) }

// Set implements flag.Value.
func (v *value) Set(text string) error {
	d, err := Parse(text)
	if err != nil {
		return err
	}
	*v = value(d)
	return nil
}

// Get implements flag.Getter.
func (v *value) Get() any { return time.Duration(*v) }

// String implements flag.Value.
func (v *value) String() string { return Format(time.Duration(*v)) }
