package recur

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// MaxSteps bounds the steps that one request may cause. A step is a day that is looked at, or a time
// that is found: between 5 and 100 nanoseconds.
const MaxSteps = 20_000_000

// ErrTooCostly is the error of a Meter whose steps are used up.
var ErrTooCostly = errors.New("too many steps")

// A CostError is returned when more steps were needed than are allowed. It matches ErrTooCostly.
type CostError struct{ Steps int64 }

func (e *CostError) Error() string {
	return fmt.Sprintf("the times take more than %d steps to compute", e.Steps)
}

// Is reports whether target is ErrTooCostly.
func (e *CostError) Is(target error) bool { return target == ErrTooCostly }

// A Meter counts the steps of all searches that one caller causes, where they are done. Searches end
// when its steps are used up, or its context ends. A nil Meter counts nothing. It is not for
// concurrent use.
type Meter struct {
	ctx    context.Context // nil: nothing ends the searches early
	limit  int64
	spent  int64
	looked int64 // spent, when the context was last asked
	err    error
}

// lookEvery is the number of steps after which a Meter asks its context again.
const lookEvery = 10_000

// NewCounter returns a meter that allows all steps, for a caller that ends by what it counts.
func NewCounter() *Meter { return &Meter{limit: math.MaxInt64} }

// NewMeter returns a meter that allows a number of steps.
func NewMeter(ctx context.Context, steps int64) *Meter {
	return &Meter{ctx: ctx, limit: steps, looked: -lookEvery}
}

// Spent returns the number of steps so far.
func (m *Meter) Spent() int64 { return m.spent }

// Err returns why searches end: a *CostError or the context's error. nil: they go on.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// charge counts steps, and reports whether the search may go on.
func (m *Meter) charge(steps int64) bool {
	if m == nil {
		return true
	}
	m.spent += steps
	if m.err == nil && m.spent > m.limit {
		m.err = &CostError{m.limit}
	}
	if m.err == nil && m.ctx != nil && m.spent-m.looked >= lookEvery {
		m.looked, m.err = m.spent, m.ctx.Err()
	}
	return m.err == nil
}

type meterKey struct{}

// WithMeter returns a context whose work is counted together: a request's.
func WithMeter(ctx context.Context, steps int64) context.Context {
	return context.WithValue(ctx, meterKey{}, NewMeter(ctx, steps))
}

// MeterOf returns the meter of a context, or one of its own that allows MaxSteps.
func MeterOf(ctx context.Context) *Meter {
	if m, ok := ctx.Value(meterKey{}).(*Meter); ok {
		return m
	}
	return NewMeter(ctx, MaxSteps)
}
