// Package progress shows the progress of long work on a terminal, in one line that disappears
// when something is printed.
package progress

import (
	"fmt"
	"io"
	"time"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/terminal"
)

const (
	// quiet is how long work shows no progress: quick work needs none.
	quiet = 500 * time.Millisecond
	// pause is the time between two lines.
	pause = 100 * time.Millisecond
	// wipe moves to the beginning of the line and clears it (ECMA-48).
	wipe = "\r\x1b[K"
)

// Line is one line of progress. A nil Line shows nothing.
type Line struct {
	w     io.Writer
	next  time.Time
	shown bool
	now   func() time.Time
}

// New returns a line on w; nil: w is not a terminal.
func New(w io.Writer) *Line {
	if !terminal.Is(w) {
		return nil
	}
	return line(w, time.Now)
}

func line(w io.Writer, now func() time.Time) *Line {
	return &Line{w: w, next: now().Add(quiet), now: now}
}

// Show replaces the line, unless it was replaced less than pause ago.
func (l *Line) Show(format string, args ...any) {
	if l == nil || l.now().Before(l.next) {
		return
	}
	fmt.Fprintf(l.w, wipe+format, args...)
	l.shown, l.next = true, l.now().Add(pause)
}

// Clear removes the line, because something else is printed or the work is done.
func (l *Line) Clear() {
	if l == nil || !l.shown {
		return
	}
	fmt.Fprint(l.w, wipe)
	l.shown = false
}
