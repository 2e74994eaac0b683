package stats

import (
	"math"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 1}},
		{[]float64{9, 1, 5}, Spread{5, 1, 9, 3}},
		{[]float64{4, 1, 2, 8}, Spread{3, 1, 8, 4}},
	} {
		in := slices.Clone(tt.in)
		if got := Of(tt.in); got != tt.want {
			t.Errorf("%v: %+v", tt.in, got)
		}
		if !slices.Equal(in, tt.in) {
			t.Errorf("%v was put in order in place: repetitions are no longer paired", in)
		}
	}
}

// TestRatiosArePaired: each value is compared with that of its own repetition.
func TestRatiosArePaired(t *testing.T) {
	nan := math.NaN()
	got := Ratios([]float64{10, 40, nan, 7, 5}, []float64{5, 80, 1, nan, 0, 3})
	if want := []float64{2, 0.5}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestQuantile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for q, want := range map[float64]int{0: 1, 0.5: 50, 0.99: 99, 0.991: 100, 1: 100} {
		if got := Quantile(hundred, q); got != want {
			t.Errorf("%v: %d, want %d", q, got, want)
		}
	}
	if hundred[0] != 100 {
		t.Error("the values were put in order in place")
	}
	if got := Quantile([]int(nil), 0.5); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		bar     Bar
		value   float64
		met     bool
		missing float64
	}{
		{Bar{Least: 5}, 5, true, 1},
		{Bar{Least: 5}, 2.5, false, 2},
		{Bar{Most: 0.75}, 0.75, true, 1},
		{Bar{Most: 0.75}, 1.5, false, 2},
		{Bar{Least: 0.5, Most: 2}, 4, false, 2},
		{Bar{}, 0.001, true, 1},
	} {
		if got := tt.bar.Met(tt.value); got != tt.met {
			t.Errorf("%v met by %v: %v", tt.bar, tt.value, got)
		}
		if got := tt.bar.Missing(tt.value); got != tt.missing {
			t.Errorf("%v is missed by %v by %v", tt.bar, tt.value, got)
		}
	}
	for bar, want := range map[Bar]string{{Least: 5}: ">= 5", {Most: 0.75}: "<= 0.75", {}: "", {Least: 1, Most: 2}: "1 to 2"} {
		if got := bar.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if (Bar{}).Set() || !(Bar{Most: 1}).Set() {
		t.Error("what is set is not told apart")
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{1234.5: "1234", 99.94: "99.9", 9.876: "9.88", 3: "3", 0.5: "0.50", 0: "0"} {
		if got := Short(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}
