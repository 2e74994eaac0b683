package rollup

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// scripted returns its answers one after the other, and then that nothing is left to count.
type scripted struct {
	answers []func() (store.Rolled, error)
	calls   []time.Time
	sizes   []int
	owner   job.ID
}

func (s *scripted) Roll(_ context.Context, p store.RollParams) (store.Rolled, error) {
	s.calls, s.sizes, s.owner = append(s.calls, time.Now()), append(s.sizes, p.Size), p.Owner
	if len(s.answers) == 0 {
		return store.Rolled{}, nil
	}
	next := s.answers[0]
	s.answers = s.answers[1:]
	return next()
}

func more() (store.Rolled, error) { return store.Rolled{Events: 1, More: true}, nil }

func taking(d time.Duration) func() (store.Rolled, error) {
	return func() (store.Rolled, error) {
		time.Sleep(d)
		return more()
	}
}

func run(t *testing.T, s *scripted, d time.Duration) string {
	t.Helper()
	var log bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	Run(ctx, Config{Store: s, Owner: job.ID{7}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	return log.String()
}

// TestSteps checks that steps follow each other with pauses while there is more to count, and
// that the loop then waits.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []func() (store.Rolled, error){taking(time.Millisecond), taking(100 * time.Millisecond)}}
		begun := time.Now()
		run(t, s, 5*time.Second)
		var at []time.Duration
		for _, c := range s.calls {
			at = append(at, c.Sub(begun))
		}
		first := every
		second := first + time.Millisecond + leastPause
		third := second + 100*time.Millisecond + rest*100*time.Millisecond
		want := []time.Duration{first, second, third, third + every}
		if len(at) != len(want) {
			t.Fatalf("calls at %v, want %v", at, want)
		}
		for i := range want {
			if at[i] != want[i] {
				t.Errorf("calls at %v, want %v", at, want)
			}
		}
		if s.owner != (job.ID{7}) {
			t.Errorf("owner %v", s.owner)
		}
	})
}

// TestHurry checks that a loop that does not catch up pauses for a shorter time.
func TestHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = time.Second
		s := &scripted{}
		for range 20 {
			s.answers = append(s.answers, taking(took))
		}
		run(t, s, time.Minute)
		for i, c := range s.calls[1:20] {
			want := took + rest*took
			if s.calls[i].Sub(s.calls[0]) > behind {
				want = took + hurry*took
			}
			if got := c.Sub(s.calls[i]); got != want {
				t.Errorf("step %d came %v after the one before, want %v", i+1, got, want)
			}
		}
	})
}

// TestSizes checks that steps grow up to a bound while they are quick, shrink when they are
// slow, and start with the smallest size again after the loop has caught up.
func TestSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		for range 6 {
			s.answers = append(s.answers, taking(quick/2))
		}
		for range 6 {
			s.answers = append(s.answers, taking(2*slow))
		}
		s.answers = append(s.answers, taking(quick), taking(quick/2), func() (store.Rolled, error) { return store.Rolled{}, nil })
		run(t, s, time.Minute)
		want := []int{1, 2, 4, 8, 16, 16, 16, 8, 4, 2, 1, 1, 1, 1, 2, 1}
		if got := s.sizes[:len(want)]; !slices.Equal(got, want) {
			t.Errorf("steps of %v, want %v", got, want)
		}
	})
}

// TestFailures checks that a failure and its end are each logged once, and that a step that
// another server has done does not count as a failure.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := func() (store.Rolled, error) { return store.Rolled{}, errors.New("broken") }
		stale := func() (store.Rolled, error) { return store.Rolled{}, store.ErrStale }
		s := &scripted{answers: []func() (store.Rolled, error){stale, broken, broken, more}}
		log := run(t, s, 10*time.Second)
		if got := strings.Count(log, "could not be counted"); got != 1 {
			t.Errorf("%d failures in the log, want 1:\n%s", got, log)
		}
		if got := strings.Count(log, "counted again"); got != 1 {
			t.Errorf("%d recoveries in the log, want 1:\n%s", got, log)
		}
	})
}
