// Package column has the types of columns that both SQL engines read and write the same way,
// where the domain's own type does not say enough. Other columns have the domain's types:
// job.ID, and time.Time, whose zero value is NULL.
package column

import (
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// OptionalID is an id whose column may be NULL: the zero id.
type OptionalID job.ID

// Micros is a duration in microseconds.
type Micros int64

// MicrosOf returns a duration, rounded down.
func MicrosOf(d time.Duration) Micros { return Micros(d.Microseconds()) }

// Duration returns the duration.
func (m Micros) Duration() time.Duration { return time.Duration(m) * time.Microsecond }

// Labels are a job's, connection's, item's or schedule's labels as store.EncodeLabels has
// them: jsonb in PostgreSQL, TEXT in SQLite.
type Labels []byte

// ScanBytes implements pgtype.BytesScanner.
func (l *Labels) ScanBytes(text []byte) error {
	*l = append(Labels{}, text...)
	return nil
}
