//go:build unix

package main

import (
	"slices"
	"testing"
)

func names(benchmarks []benchmark) []string {
	var out []string
	for _, h := range benchmarks {
		out = append(out, h.name)
	}
	return out
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-submit", "7", "-quick", "-reps", "2", "-only", "now,submit"})
	if err != nil {
		t.Fatal(err)
	}
	benchmarks, err := o.chosen()
	if err != nil || !slices.Equal(names(benchmarks), []string{"now", "submit"}) {
		t.Errorf("%v, %v", names(benchmarks), err)
	}
	if benchmarks[1].jobs != 7 || o.plan.now != quickPlan().now || o.repetitions != 2 {
		t.Errorf("%+v", o)
	}
	full, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := full.chosen()
	if err != nil || len(all) != len(full.plan.benchmarks())-2 || slices.Contains(names(all), "soak") || slices.Contains(names(all), "burst") || full.repetitions < 5 {
		t.Errorf("a full run has %v in %d repetitions, %v", names(all), full.repetitions, err)
	}
	some, err := parse([]string{"-only", "submit,stream,soak", "-systems", "river,network"})
	if err != nil {
		t.Fatal(err)
	}
	few, err := some.chosen()
	if err != nil || !slices.Equal(names(few), []string{"submit", "stream", "soak"}) || len(few[0].systems) != 3 || few[0].systems[0].name != nameRiver {
		t.Errorf("with two systems: %+v, %v", few, err)
	}
	for _, args := range [][]string{
		{"-reps", "0"}, {"-batch", "501"}, {"-callers", "0"}, {"-only", "nothing"}, {"-limit", "0"}, {"-slow", "0"},
		{"-terminal", "-1"}, {"submit"}, {"-systems", "nobody"}, {"-only", "batch", "-systems", "asynq"}, {"-pace", "0"}, {"-soak", "0"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// TestBarsAreOfWhatIsMeasured: a bar of something that no benchmark measures would
// never report anything.
func TestBarsAreOfWhatIsMeasured(t *testing.T) {
	benchmarks := fullPlan().benchmarks()
	for _, b := range bars() {
		i := slices.IndexFunc(benchmarks, func(h benchmark) bool { return h.name == b.benchmark })
		if i < 0 {
			t.Errorf("%s: no benchmark %q", b.title, b.benchmark)
			continue
		}
		for _, of := range []cell{b.of, b.to} {
			if of == (cell{}) {
				continue
			}
			if !slices.ContainsFunc(benchmarks[i].systems, func(c system) bool { return c.name == of.system }) {
				t.Errorf("%s: nobody is named %q", b.title, of.system)
			}
			if !slices.ContainsFunc(benchmarks[i].metrics, func(m metric) bool { return m.key == of.key }) {
				t.Errorf("%s: nobody measures %q", b.title, of.key)
			}
		}
	}
}

// TestEveryMeasurementIsThere: of Go ones; those of Node are its scripts.
func TestEveryMeasurementIsThere(t *testing.T) {
	used := make(map[string]bool)
	for _, h := range fullPlan().benchmarks() {
		for _, c := range h.systems {
			used[c.measure] = true
			if _, known := measures[c.measure]; !known && c.needs != needNode {
				t.Errorf("%s, %s: no measurement %q", h.name, c.name, c.measure)
			}
		}
	}
	for name := range measures {
		if !used[name] {
			t.Errorf("nobody runs %q", name)
		}
	}
}

func TestNewEnough(t *testing.T) {
	for version, want := range map[string]bool{
		"v22.18.0\n": true, "v24.0.1": true, "v22.17.9": false, "v20.20.2": false, "": false, "v22": false, "node": false,
	} {
		if newEnough(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}
