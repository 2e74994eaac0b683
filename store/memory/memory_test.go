package memory_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
	"github.com/fireonce/fireonce/store/memory"
	"github.com/fireonce/fireonce/store/storetest"
)

func TestClockConformance(t *testing.T) {
	engine := storetest.Clocked{
		Open: func(_ *testing.T, clock store.ClockOptions) store.Store {
			return memory.Open(memory.Options{Clock: clock})
		},
		Restart: func(_ *testing.T, s store.Store, clock store.ClockOptions) store.Store {
			m, _ := s.(*memory.Store)
			m.Restart(clock)
			return m
		},
	}
	storetest.RunClock(t, engine)
	storetest.RunClockLimits(t, engine)
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, now func() time.Time) store.Store {
		return memory.Open(memory.Options{Now: now})
	})
}

// counted returns a function that makes the ids 1, 2, 3 and so on.
func counted() func() job.ID {
	n := uint64(0)
	return func() job.ID {
		var id job.ID
		n++
		binary.BigEndian.PutUint64(id[8:], n)
		return id
	}
}

func alike(t *testing.T, seed uint64, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		var g, w string
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("seed %d, answer %d:\ngot  %s\nwant %s", seed, i, g, w)
		}
	}
}

// TestRepeats: the same seed has the same answers and leaves the same records, including
// tokens and the order of writes.
func TestRepeats(t *testing.T) {
	for seed := range uint64(20) {
		var said [2][]string
		for i := range said {
			var s *memory.Store
			p := &script{t: t}
			p.run(func(now func() time.Time) store.Store {
				s = memory.Open(memory.Options{Now: now, NewID: counted()})
				return s
			}, seed, 200)
			changed := s.Changed(0)
			if len(changed) != len(p.jobs) {
				t.Fatalf("%d jobs changed, of %d", len(changed), len(p.jobs))
			}
			for _, id := range changed {
				p.note("record", nil, s.Inspect(id))
			}
			p.note("effects", nil, s.Effects(), s.Version())
			said[i] = p.said
		}
		if !slices.Equal(said[0], said[1]) {
			alike(t, seed, said[0], said[1])
		}
	}
}
