package lookup

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// LocalClock returns the clock that a look compares the platform's with: the store's steady
// clock (connector.Opening.Steady), and wall where there is none. This machine's wall clock
// may be set between a watermark and its look, and may be disbelieved all the time.
func LocalClock(ctx context.Context, o connector.Opening, wall func() time.Time) (func() time.Time, error) {
	if o.Steady == nil {
		return wall, nil
	}
	read := time.Now()
	at, err := o.Steady(ctx)
	if err != nil {
		return nil, &connector.Refusal{Kind: job.FailTransient, Msg: "the store's clock could not be read", Err: err}
	}
	return func() time.Time { return at.Add(time.Since(read)) }, nil
}

// Clocks are the platform's clock and the local one (LocalClock), read at the same time.
// Watermarks embed them.
type Clocks struct {
	At    time.Time `json:"at"`
	Local time.Time `json:"local"`
}

// Known reports whether both clocks were read.
func (c Clocks) Known() bool { return !c.At.IsZero() && !c.Local.IsZero() }

// Earlier returns both clocks' times that much earlier.
func (c Clocks) Earlier(by time.Duration) Clocks { return Clocks{c.At.Add(-by), c.Local.Add(-by)} }

// EncodeWatermark returns a watermark as the store keeps it. It fails with *Refusal.
func EncodeWatermark(m any) (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", &connector.Refusal{Kind: job.FailTransient, Msg: "the platform's time is not usable", Err: err}
	}
	return string(text), nil
}

// ParseWatermark reads a watermark back. It fails for one that is not valid.
func ParseWatermark[M any](text string, valid func(M) bool) (M, error) {
	var m, none M
	if err := json.Unmarshal([]byte(text), &m); err != nil || !valid(m) {
		return none, errors.New("the attempt's watermark is not readable")
	}
	return m, nil
}

// Watermark is what is known of an account before an intent is written, at a platform whose
// objects are recognized by their content. The effect comes after it.
type Watermark struct {
	Version int `json:"v"`
	// Base and ID name the account whose objects are listed, at a platform that is many servers.
	Base    string `json:"base,omitempty"`
	ID      string `json:"id,omitempty"`
	Account string `json:"account"`
	Clocks
	// Seen are objects that were there already (Seen).
	Seen []string `json:"seen,omitempty"`
}

// WatermarkVersion is the version that is written and read.
const WatermarkVersion = 1

// Watermarks reads the watermarks of one platform. Connectors embed it.
type Watermarks struct {
	// Valid checks the account of a watermark.
	Valid func(Watermark) bool
	// Identity names the account.
	Identity func(Watermark) string
}

// Parse reads a watermark back.
func (w Watermarks) Parse(text string) (Watermark, error) {
	return ParseWatermark(text, func(m Watermark) bool { return m.Version == WatermarkVersion && m.Known() && w.Valid(m) })
}

// AccountOf implements connector.Identifier.
func (w Watermarks) AccountOf(text string) string { return AccountOf(text, w.Parse, w.Identity) }

// Backdate implements connector.Backdater.
func (w Watermarks) Backdate(text string, by time.Duration) (string, error) {
	m, err := w.Parse(text)
	if err != nil {
		return "", err
	}
	m.Clocks, m.Seen = m.Earlier(by), nil
	return EncodeWatermark(m)
}

// AccountOf returns the account that a watermark names; empty: it cannot be read.
func AccountOf[M any](text string, parse func(string) (M, error), account func(M) string) string {
	m, err := parse(text)
	if err != nil {
		return ""
	}
	return account(m)
}

// Begin returns what a look begins with: the watermark of its first attempt, and the local clock
// (LocalClock). It fails when one of them, or a time of the look, is not known.
func Begin[M any](
	ctx context.Context, o connector.Opening, l connector.Look, wall func() time.Time, parse func(string) (M, error),
) (m M, local func() time.Time, err error) {
	if m, err = parse(l.First.Watermark); err != nil {
		return m, nil, err
	}
	if l.First.ArmedAt.IsZero() || l.Fence.Before(l.First.ArmedAt) {
		return m, nil, errors.New("the attempt's times are not known")
	}
	local, err = LocalClock(ctx, o, wall)
	return m, local, err
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
