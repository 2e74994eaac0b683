package metrics

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// TestBound95 compares the bound with half the quantiles of the chi-squared distribution.
func TestBound95(t *testing.T) {
	for _, tt := range []struct {
		effects, duplicates int64
		want                float64
	}{
		{0, 0, 1}, {1, 0, 1}, {1000, 0, 2.99573e-3}, {1_000_000, 0, 2.99573e-6},
		{1000, 1, 4.74386e-3}, {1000, 10, 16.9622e-3}, {10_000, 100, 118.079e-4}, {1_000_000, 2000, 2.07573e-3},
	} {
		if got := Bound95(tt.effects, tt.duplicates); math.Abs(got-tt.want) > 1e-3*tt.want {
			t.Errorf("%d of %d: %v, want %v", tt.duplicates, tt.effects, got, tt.want)
		}
	}
}

// TestGuarantee checks that a person's ruling does not count as an observed effect, and that an
// effect counts once.
func TestGuarantee(t *testing.T) {
	m := New("test", "worker")
	open, done := job.Snapshot{}, job.Snapshot{}
	open.State, done.State, done.Class = job.Sending, job.Succeeded, job.Keyed
	had := done
	had.Effect = &job.Effect{}
	for _, p := range []job.Proof{job.ProofResponse, job.ProofObserved, job.ProofKeyReplay, job.ProofOperator, job.ProofAssumed} {
		m.Wrote("x", &open, &done, &job.Decision{Effect: &job.Effect{Proof: p}})
		m.Wrote("x", &had, &done, &job.Decision{Effect: &job.Effect{Proof: p}})
	}
	m.Wrote("x", &had, &done, &job.Decision{Cause: job.CauseDuplicateEffect})
	if g := m.Guarantee(); g.Effects != 3 || g.Duplicates != 1 || g.Bound95 != 1 {
		t.Errorf("%+v", g)
	}
	if g := (*Metrics)(nil).Guarantee(); g.Bound95 != 1 {
		t.Errorf("of nothing: %+v", g)
	}
}

// measured is a database whose measurements take time.
type measured struct {
	Database
	takes time.Duration
	err   error
	asked int
}

func (d *measured) Vitals(ctx context.Context) (store.Vitals, error) {
	d.asked++
	select {
	case <-time.After(d.takes):
	case <-ctx.Done():
		return store.Vitals{}, ctx.Err()
	}
	return store.Vitals{Due: int64(d.asked)}, d.err
}

func (*measured) Meta(context.Context) (store.Meta, error) { return store.Meta{}, nil }

// TestVitalsAreBounded checks that measuring takes a small part of the time, however often
// Vitals is called, and that no caller waits long.
func TestVitalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, d := New("test", "worker"), &measured{takes: 100 * time.Millisecond}
		read := func() (Reading, error) {
			t.Helper()
			begun := time.Now()
			r, err := m.Vitals(t.Context())
			if took := time.Since(begun); took > vitalsPatience {
				t.Fatalf("it took %v", took)
			}
			return r, err
		}
		if r, err := read(); err == nil || !r.At.IsZero() {
			t.Fatalf("before the database is open: %v, %v", r, err)
		}
		m.Watch(d)
		for range 600 {
			if _, err := read(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if d.asked > 600/20+1 {
			t.Errorf("a measurement of 100 ms was made %d times in 10 minutes", d.asked)
		}
		d.takes = 0
		before := d.asked
		time.Sleep(time.Minute)
		for range 10 {
			go func() { _, _ = m.Vitals(t.Context()) }()
		}
		synctest.Wait()
		if d.asked != before+1 {
			t.Errorf("ten concurrent callers caused %d measurements", d.asked-before)
		}

		time.Sleep(time.Minute)
		d.takes = time.Hour
		r, err := read()
		synctest.Wait() // the measurement continues after its caller has returned
		if err == nil || r.Due != int64(d.asked-1) {
			t.Errorf("a database that does not answer: %v, %v", r, err)
		}
		time.Sleep(vitalsTimeout)
		synctest.Wait()
		d.takes, d.err = 0, errors.New("away")
		time.Sleep(keepMost)
		if r, err := read(); !errors.Is(err, d.err) || r.At.IsZero() {
			t.Errorf("a database that fails: %v, %v", r, err)
		}
		d.err = nil
		time.Sleep(keepMost)
		if r, err := read(); err != nil || r.Due != int64(d.asked) {
			t.Errorf("a database that works again: %v, %v", r, err)
		}
	})
}
