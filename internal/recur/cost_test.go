package recur

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// apartSpec has sources that are apart in time, and RRULEs among the exclusions: searches go from one source's time to the
// other's and back, and each exclusion with them.
func apartSpec() Spec {
	hours := "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23"
	spec := Spec{ID: "x", Generation: 1, Zone: "UTC", Cron: []string{"* * * * *", "0 0 31 12 *"}, Jitter: 30 * time.Second}
	for range maxRRules {
		spec.Exclude.RRules = append(spec.Exclude.RRules, RRule{Rule: "FREQ=DAILY;BYSECOND=30;BYHOUR=" + hours, Start: "1970-01-01T00:00:30"})
	}
	return spec
}

// take returns the beats after an instant, at most n.
func take(t testing.TB, s *Schedule, from time.Time, n int, m *Meter) []Beat {
	t.Helper()
	var beats []Beat
	for c := s.After(from); len(beats) < n; {
		b, next, ok := s.NextCounted(c, m)
		if m.Err() != nil || !ok && next.Done() {
			break
		}
		if c = next; ok {
			beats = append(beats, b)
		}
	}
	return beats
}

// TestSourcesApart bounds the steps of a spec that once cost a quarter of an hour.
func TestSourcesApart(t *testing.T) {
	t.Parallel()
	zones, _ := embeddedZones(t)
	for _, year := range []int{2026, 2150} {
		m := NewMeter(t.Context(), MaxSteps)
		s, err := CompileCounted(apartSpec(), zones, m)
		if err != nil {
			t.Fatal(err)
		}
		beats := take(t, s, time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC), 1000, m)
		if len(beats) != 1000 || m.Err() != nil || m.Spent() > 200_000 {
			t.Errorf("%d: %d firings, %d steps, %v", year, len(beats), m.Spent(), m.Err())
		}
		t.Logf("%d: %d steps", year, m.Spent())
	}
}

// TestMeterEndsASearch: a search ends with the steps that it may take, and with its context, and no result of it is wrong.
func TestMeterEndsASearch(t *testing.T) {
	t.Parallel()
	zones, _ := embeddedZones(t)
	s, err := Compile(apartSpec(), zones)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	all := take(t, s, from, 100, nil)
	ended := 0
	for steps := range int64(400) {
		fresh, err := Compile(apartSpec(), zones)
		if err != nil {
			t.Fatal(err)
		}
		m := NewMeter(t.Context(), steps*5)
		got := take(t, fresh, from, 100, m)
		if fmt.Sprint(got) != fmt.Sprint(all[:len(got)]) {
			t.Fatalf("%d steps: %v", m.Spent(), got)
		}
		if m.Err() != nil {
			ended++
			if !errors.Is(m.Err(), ErrTooCostly) || len(got) == len(all) {
				t.Errorf("%d firings: %v", len(got), m.Err())
			}
		}
	}
	if ended == 0 || ended == 400 {
		t.Errorf("%d of 400 searches ended early", ended)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := NewMeter(ctx, MaxSteps)
	if got := take(t, s, from, 100_000, m); !errors.Is(m.Err(), context.Canceled) || len(got) > 0 {
		t.Errorf("%d firings after the caller left: %v", len(got), m.Err())
	}
	if _, err := CompileCounted(apartSpec(), zones, NewMeter(ctx, MaxSteps)); !errors.Is(err, context.Canceled) {
		t.Errorf("compile after the caller left: %v", err)
	}
}
