// Package stats has the arithmetic of the tables.
package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Spread is the middle of some values and their bounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// Of summarises values; of none it is zero.
func Of(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(values))
	mid := len(s) / 2
	median := s[mid]
	if len(s)%2 == 0 {
		median = (s[mid-1] + s[mid]) / 2
	}
	return Spread{Median: median, Min: s[0], Max: s[len(s)-1], N: len(s)}
}

// Ratios divides values by those of the same repetition. A repetition that lacks
// one of the two, as NaN, has none.
func Ratios(values, base []float64) []float64 {
	var out []float64
	for i := range min(len(values), len(base)) {
		if r := values[i] / base[i]; !math.IsNaN(r) && !math.IsInf(r, 0) {
			out = append(out, r)
		}
	}
	return out
}

// Quantile returns the value that a part q of all values does not exceed: the
// nearest rank. Of none it is zero.
func Quantile[T cmp.Ordered](values []T, q float64) T {
	var none T
	if len(values) == 0 {
		return none
	}
	s := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q * float64(len(s))))
	return s[min(max(rank, 1), len(s))-1]
}

// Bar is what a value has to reach: at least Least, or at most Most. Zero fields
// ask for nothing.
type Bar struct {
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most,omitempty"`
}

// Met reports whether a value reaches the bar.
func (b Bar) Met(v float64) bool {
	return (b.Least == 0 || v >= b.Least) && (b.Most == 0 || v <= b.Most)
}

// Set reports whether there is a bar.
func (b Bar) Set() bool { return b.Least != 0 || b.Most != 0 }

func (b Bar) String() string {
	switch {
	case b.Least != 0 && b.Most != 0:
		return fmt.Sprintf("%s to %s", Short(b.Least), Short(b.Most))
	case b.Least != 0:
		return ">= " + Short(b.Least)
	case b.Most != 0:
		return "<= " + Short(b.Most)
	default:
		return ""
	}
}

// Missing is how far a value is from the bar, as a factor; 1: it is met.
func (b Bar) Missing(v float64) float64 {
	switch {
	case b.Met(v) || v <= 0:
		return 1
	case b.Least != 0 && v < b.Least:
		return b.Least / v
	default:
		return v / b.Most
	}
}

// Short writes a number with as many digits as mean something.
func Short(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
