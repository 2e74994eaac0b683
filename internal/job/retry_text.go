package job

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rules of this file: a policy is stored as a text of the fields that are set, in whole
// microseconds, such as "attempts=12 delays=2000000,10000000 keep=86400000000"; an empty text
// states nothing. Stored texts must stay readable.

// ErrRetryText is returned for a text that Encode has not made.
var ErrRetryText = errors.New("a retry policy that cannot be read")

// Encode returns the policy as it is stored, without AttemptTimeout.
func (p RetryPolicy) Encode() string {
	var fields []string
	add := func(name string, set bool, value string) {
		if set {
			fields = append(fields, name+"="+value)
		}
	}
	micros := func(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
	delays := make([]string, len(p.Delays))
	for i, d := range p.Delays {
		delays[i] = micros(d)
	}
	add("attempts", p.MaxAttempts > 0, strconv.Itoa(p.MaxAttempts))
	add("delays", len(p.Delays) > 0, strings.Join(delays, ","))
	add("first", p.MinBackoff > 0, micros(p.MinBackoff))
	add("longest", p.MaxBackoff > 0, micros(p.MaxBackoff))
	add("factor", p.Multiplier > 0, strconv.FormatFloat(p.Multiplier, 'g', -1, 64))
	add("keep", p.KeepTrying > 0, micros(p.KeepTrying))
	return strings.Join(fields, " ")
}

// DecodeRetry reads what Encode has returned. It fails with ErrRetryText.
func DecodeRetry(text string) (p RetryPolicy, err error) {
	span := func(value string) time.Duration {
		n, bad := strconv.ParseInt(value, 10, 64)
		if bad != nil || n <= 0 || n > int64(MaxKeepTrying/time.Microsecond) {
			err = ErrRetryText
		}
		return time.Duration(n) * time.Microsecond
	}
	for field := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(field, "=")
		switch name {
		case "attempts":
			n, bad := strconv.Atoi(value)
			if bad != nil || n <= 0 {
				err = ErrRetryText
			}
			p.MaxAttempts = n
		case "delays":
			for one := range strings.SplitSeq(value, ",") {
				p.Delays = append(p.Delays, span(one))
			}
		case "first":
			p.MinBackoff = span(value)
		case "longest":
			p.MaxBackoff = span(value)
		case "factor":
			n, bad := strconv.ParseFloat(value, 64)
			if bad != nil || !(n > 0 && n <= MaxMultiplier) {
				err = ErrRetryText
			}
			p.Multiplier = n
		case "keep":
			p.KeepTrying = span(value)
		default:
			err = ErrRetryText
		}
	}
	if err != nil {
		return RetryPolicy{}, fmt.Errorf("%w: %q", err, text)
	}
	return p, nil
}
