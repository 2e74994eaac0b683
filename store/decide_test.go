package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// versions is a store of versions: a change of another version is stale. racing jobs move
// before each write.
type versions struct {
	now    map[job.ID]int64
	racing map[job.ID]int // how often the job still moves before a write
	calls  int
	err    error
}

func (v *versions) Apply(_ context.Context, items []store.Change) ([]store.Applied, error) {
	v.calls++
	if v.err != nil {
		return nil, v.err
	}
	out := make([]store.Applied, len(items))
	for i, c := range items {
		if v.racing[c.Job] > 0 {
			v.racing[c.Job]--
			v.now[c.Job]++
		}
		if c.Version != v.now[c.Job] {
			out[i].Err = store.ErrStale
			continue
		}
		v.now[c.Job]++
	}
	return out, nil
}

func (v *versions) read(ids []job.ID) []store.Change {
	out := make([]store.Change, 0, len(ids))
	for _, id := range ids {
		out = append(out, store.Change{Job: id, Version: v.now[id]})
	}
	return out
}

// write judges that a job has to be changed, unless it is the one that is left alone.
func write(except job.ID) func(store.Change, *store.Change) (bool, error) {
	return func(read store.Change, c *store.Change) (bool, error) {
		*c = read
		return read.Job != except, nil
	}
}

func ignored(store.Change, *store.Change, *store.Applied) error { return nil }

func TestDecide(t *testing.T) {
	a, b, c := job.ID{1}, job.ID{2}, job.ID{3}
	v := &versions{now: map[job.ID]int64{a: 1, b: 1, c: 1}, racing: map[job.ID]int{b: 1}}
	var written []job.ID
	moved, err := store.Decide(t.Context(), v, v.read([]job.ID{a, b, c}), write(a), func(j store.Change, c *store.Change, _ *store.Applied) error {
		if j.Job != c.Job {
			t.Errorf("the verdict on job %s was reported for job %s", c.Job, j.Job)
		}
		written = append(written, j.Job)
		return nil
	})
	if err != nil || !slices.Equal(written, []job.ID{c}) || len(moved) != 1 || moved[0].Job != b {
		t.Errorf("wrote %v, moved %v, %v; want %s written and %s moved", written, moved, err, c, b)
	}
}

func TestDecideEndsWithAnError(t *testing.T) {
	a, failed := job.ID{1}, errors.New("failed")
	fails := func(store.Change, *store.Change) (bool, error) { return false, failed }
	v := &versions{now: map[job.ID]int64{a: 1}}
	if _, err := store.Decide(t.Context(), v, v.read([]job.ID{a}), fails, ignored); !errors.Is(err, failed) || v.calls != 0 {
		t.Errorf("judge failed: %v after %d writes, want its error and no write", err, v.calls)
	}
	if _, err := store.Decide(t.Context(), v, v.read([]job.ID{a}), write(a), ignored); err != nil || v.calls != 0 {
		t.Errorf("nothing to change: %v after %d writes", err, v.calls)
	}
	_, err := store.Decide(t.Context(), v, v.read([]job.ID{a}), write(job.ID{}),
		func(store.Change, *store.Change, *store.Applied) error { return failed })
	if !errors.Is(err, failed) {
		t.Errorf("report failed: %v", err)
	}
	v.err = failed
	if _, err := store.Decide(t.Context(), v, v.read([]job.ID{a}), write(job.ID{}), ignored); !errors.Is(err, failed) {
		t.Errorf("Apply failed: %v", err)
	}
}

// A job that moved is read and decided again, alone, and no more than MaxDecisions times.
func TestDecideAgain(t *testing.T) {
	a, b := job.ID{1}, job.ID{2}
	for _, tc := range []struct {
		name  string
		races int
		calls int
		fails error
	}{
		{"nothing moves", 0, 1, nil},
		{"one moves twice", 2, 3, nil},
		{"one moves whenever it is read", store.MaxDecisions + 1, store.MaxDecisions, store.ErrStale},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := &versions{now: map[job.ID]int64{a: 1, b: 1}, racing: map[job.ID]int{b: tc.races}}
			written := make(map[job.ID]int)
			moved, err := store.DecideAgain(t.Context(), v, func(moved []store.Change) ([]store.Change, error) {
				if moved == nil {
					return v.read([]job.ID{a, b}), nil
				}
				if len(moved) != 1 || moved[0].Job != b {
					t.Errorf("job %v moved, want %s", moved, b)
				}
				return v.read([]job.ID{b}), nil
			}, write(job.ID{}), func(j store.Change, _ *store.Change, _ *store.Applied) error {
				written[j.Job]++
				return nil
			})
			if !errors.Is(err, tc.fails) || v.calls != tc.calls {
				t.Errorf("%v after %d writes, want %v after %d", err, v.calls, tc.fails, tc.calls)
			}
			want := map[job.ID]int{a: 1, b: 1}
			if tc.fails != nil {
				delete(want, b)
			}
			if len(written) != len(want) || written[a] != want[a] || (len(moved) == 1) != (tc.fails != nil) {
				t.Errorf("wrote %v, moved %v; want %v", written, moved, want)
			}
		})
	}
}

// Pages are read until nothing has to be changed; pages on which everything moved count.
func TestDecidePages(t *testing.T) {
	ids := []job.ID{{1}, {2}, {3}, {4}}
	v := &versions{now: map[job.ID]int64{ids[0]: 1, ids[1]: 1, ids[2]: 1, ids[3]: 1}, racing: map[job.ID]int{ids[3]: 3}}
	left := slices.Clone(ids)
	read := func() ([]store.Change, error) { return v.read(left[:min(2, len(left))]), nil }
	report := func(j store.Change, _ *store.Change, _ *store.Applied) error {
		left = slices.DeleteFunc(left, func(id job.ID) bool { return id == j.Job })
		return nil
	}
	if err := store.DecidePages(t.Context(), v, read, write(job.ID{}), report); err != nil || len(left) > 0 {
		t.Errorf("%v, and %v are left", err, left)
	}
	left, v.racing[ids[0]] = ids[:1], store.MaxDecisions
	if err := store.DecidePages(t.Context(), v, read, write(job.ID{}), report); !errors.Is(err, store.ErrStale) {
		t.Errorf("pages on which everything moves end with %v, want ErrStale", err)
	}
}
