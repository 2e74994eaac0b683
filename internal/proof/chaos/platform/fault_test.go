package platform

import (
	"fmt"
	"math"
	"testing"
)

// plan returns the faults of some requests.
func plan(seed uint64, f Faults, n int) (out []Fault) {
	for i := range n {
		out = append(out, f.of(FaceOpaque).pick(Kinds, draw(seed, FaceOpaque, fmt.Sprint("s", i/2), 1+i%2, drawFault)))
	}
	return out
}

// TestRatesAreKept: each fault comes as often as its rate says, whatever the seed.
func TestRatesAreKept(t *testing.T) {
	const n = 40_000
	f := DefaultFaults()
	for _, seed := range []uint64{0, 1, 2, 1 << 60} {
		counts := make(map[Fault]int)
		for _, fault := range plan(seed, f, n) {
			counts[fault]++
		}
		for _, k := range Kinds {
			rate := f.Rates[k]
			if sigma := math.Sqrt(n * rate * (1 - rate)); math.Abs(float64(counts[k])-n*rate) > 5*sigma {
				t.Errorf("seed %d: %d times %s, not %.0f", seed, counts[k], k, n*rate)
			}
		}
	}
}

// TestSeedIsAll: a seed draws the same faults again, another seed others; a
// request's faults, times and its repeat's faults have nothing to do with each
// other.
func TestSeedIsAll(t *testing.T) {
	const n = 2000
	f := Faults{Rates: Rates{Drop: 0.5}}
	first, again, other := plan(1, f, n), plan(1, f, n), plan(2, f, n)
	same, pairs := 0, 0
	for i := range n {
		if first[i] != again[i] {
			t.Fatalf("request %d: %s, then %s", i, first[i], again[i])
		}
		if first[i] == other[i] {
			same++
		}
		if i%2 == 1 && first[i] == first[i-1] {
			pairs++
		}
	}
	if math.Abs(float64(same)-n/2) > 5*math.Sqrt(n/4) || math.Abs(float64(pairs)-n/4) > 5*math.Sqrt(n/8) {
		t.Errorf("%d of %d are the same with another seed, %d of %d repeats are like their firsts", same, n, pairs, n/2)
	}
	sum := 0.0
	for i := range n {
		subject := fmt.Sprint("s", i)
		if draw(1, FaceOpaque, subject, 1, drawFault) < 0.5 {
			sum += draw(1, FaceOpaque, subject, 1, drawTime)
		}
	}
	if math.Abs(sum/(n/2)-0.5) > 0.05 {
		t.Errorf("the time of faults is %v on average", sum/(n/2))
	}
}

func TestCheckFaults(t *testing.T) {
	if err := DefaultFaults().Check(); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]Faults{
		"too much":        {Rates: Rates{Drop: 0.6, Silence: 0.5}},
		"negative":        {Rates: Rates{Drop: -0.1}},
		"no number":       {Rates: Rates{Drop: math.NaN()}},
		"unknown":         {Rates: Rates{"dorp": 0.1}},
		"not for looks":   {Looks: Rates{Late: 0.1}},
		"not for posts":   {Rates: Rates{Stale: 0.1}},
		"no face":         {Faces: map[string]Rates{"feed/a": {}}},
		"of one face":     {Faces: map[string]Rates{FaceFeed: {Drop: 2}}},
		"before its time": {LateBy: -1},
	} {
		if f.Check() == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestFaultsOfOneFace(t *testing.T) {
	f := Faults{Rates: Rates{Drop: 1}, Faces: map[string]Rates{FaceFeed: {Silence: 1}}}
	if got := f.of("feed/a").pick(Kinds, 0.5); got != Silence {
		t.Errorf("%s", got)
	}
	if got := f.of(FaceKeyed).pick(Kinds, 0.5); got != Drop {
		t.Errorf("%s", got)
	}
	if got := (Faults{}).of(FaceKeyed).pick(Kinds, 0); got != None {
		t.Errorf("%s", got)
	}
}
