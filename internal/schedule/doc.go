// Package schedule makes recurring schedules fire. It reads their contract messages and fills
// in their templates; internal/firing decides about due firings, and the store writes the
// decisions.
package schedule
