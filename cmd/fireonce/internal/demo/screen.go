package demo

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

const (
	redraw   = 100 * time.Millisecond // on a terminal
	report   = 2 * time.Second        // elsewhere
	barWidth = 16
)

// screen shows the progress of the trials.
type screen struct {
	show *show
	quit chan struct{}
	gone sync.WaitGroup
	once sync.Once

	mu    sync.Mutex
	drawn bool // the terminal shows a progress line
}

func newScreen(s *show) *screen {
	return &screen{show: s, quit: make(chan struct{})}
}

func (c *screen) intro() {
	s := c.show
	fmt.Fprintf(s.Out, `Fireonce demo: %d orders, three times, each to be delivered once.

Each receiver acts on a request and then loses %.0f %% of its answers (never more than %d in a row for
one order; seed %d). Half way, the server is killed with SIGKILL in mid-send.

  keyed   Fireonce; the receiver drops a webhook-id that it has seen before
  blind   Fireonce; the receiver drops nothing, so what is unknown is left to a person
  naive   a client with a timeout of %v that tries %d times; it is not killed

`, s.Jobs, s.Loss*100, mostLost, s.Seed, attemptTimeout, tries)
}

// start draws until stop is called.
func (c *screen) start() {
	every := report
	if c.show.Terminal {
		every = redraw
	}
	c.gone.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.draw()
			case <-c.quit:
				c.draw()
				c.clear()
				return
			}
		}
	})
}

func (c *screen) stop() {
	c.once.Do(func() {
		close(c.quit)
		c.gone.Wait()
	})
}

// say prints a line that stays.
func (c *screen) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wipe()
	fmt.Fprintln(c.show.Out, text)
}

func (c *screen) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wipe()
}

func (c *screen) wipe() {
	if c.drawn {
		fmt.Fprint(c.show.Out, "\r\x1b[2K")
		c.drawn = false
	}
}

func (c *screen) draw() {
	s := c.show
	keyed, blind, naive := s.keyed.progress(), s.blind.progress(), s.naive.receiver.Totals()
	// Short enough for 80 columns: a line that wraps could not be wiped.
	line := fmt.Sprintf("keyed %d, %d dup · blind %d, %d dup · naive %d, %d dup",
		keyed.atRest, keyed.duplicates, blind.atRest, blind.duplicates, s.naive.done.Load(), naive.Duplicates)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.Terminal {
		fmt.Fprintln(s.Out, line)
		return
	}
	c.wipe()
	fmt.Fprint(s.Out, bar(keyed.atRest+blind.atRest, 2*s.Jobs)+" "+line)
	c.drawn = true
}

func bar(done, all int) string {
	full := barWidth * done / all
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

type progress struct{ atRest, duplicates int }

func (l *trial) progress() progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return progress{atRest: l.atRest(), duplicates: l.receiver.Totals().Duplicates}
}

// table prints the results. It fails if Fireonce broke its promise.
func (s *show) table() error {
	keyed, blind, naive := s.keyed.result(), s.blind.result(), s.naive.result(s.Jobs)
	fmt.Fprintln(s.Out)
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tscheduled\trequests\teffects\tduplicates\tlost\tunknown\t")
	row := func(name string, r result) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, r.scheduled, r.Requests, r.Effects, r.Duplicates, r.lost, r.unknown)
	}
	row("Fireonce, keyed", keyed)
	row("Fireonce, blind", blind)
	row("naive client", naive)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "\nunknown: held for a person's decision, because it is unknown whether they took effect; never sent again automatically.\n")
	switch {
	case keyed.Duplicates+blind.Duplicates > 0:
		return fmt.Errorf("%w: an effect took place twice", errBroken)
	case keyed.lost+blind.lost > 0:
		return fmt.Errorf("%w: a job was lost", errBroken)
	case keyed.wrong+blind.wrong > 0:
		return fmt.Errorf("%w: a job ended in a wrong state", errBroken)
	case keyed.unknown > 0:
		return fmt.Errorf("%w: an outcome stayed unknown although the receiver dedupes", errBroken)
	}
	return nil
}

func (n *naive) result(jobs int) result {
	r := result{scheduled: jobs, Totals: n.receiver.Totals()}
	r.lost = jobs - r.Subjects
	return r
}
