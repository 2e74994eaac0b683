package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

func someResults() []result {
	return []result{
		{
			System: "peer", Face: platform.FaceOpaque, Kills: 3, Duplicates: 250,
			Counts: tally.Counts{Jobs: 8, Requests: 11, Effects: 10, Duplicated: 2, Faults: map[string]int{"drop": 3, "silence": 1}},
		},
		{System: "absent", Face: platform.FaceOpaque, Skipped: "no server"},
		{
			System: "ours", Face: platform.FaceKeyed, ours: true,
			Counts: tally.Counts{Jobs: 8, Requests: 9, Effects: 8, Unknown: 2, UnknownEffect: 1, Faults: map[string]int{"drop": 1}},
		},
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	if err := report(&out, settings{jobs: 8, timeout: time.Second}, someResults()); err != nil {
		t.Fatal(err)
	}
	var fields []string
	var read []result
	for line := range strings.Lines(out.String()) {
		if text, ok := strings.CutPrefix(line, resultPrefix); ok {
			var r result
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			read = append(read, r)
			continue
		}
		fields = append(fields, strings.Join(strings.Fields(line), " "))
	}
	for _, want := range []string{
		"peer 8 11 4 10 250.0 0 0 0 0 3 0", "ours 8 9 1 8 0.0 0 2 (1 there) 0 0 0 0",
		"faults: drop 4, silence 1", "SKIPPED absent: no server",
	} {
		found := false
		for _, line := range fields {
			found = found || line == want
		}
		if !found {
			t.Errorf("no line %q in:\n%s", want, out.String())
		}
	}
	if len(read) != 3 || read[0].Duplicated != 2 || read[0].Duplicates != 250 || read[1].Skipped == "" || read[2].UnknownEffect != 1 {
		t.Errorf("for machines: %+v", read)
	}
}

func TestVerdict(t *testing.T) {
	if err := verdict(someResults()); err != nil {
		t.Errorf("as it should be: %v", err)
	}
	for name, spoil := range map[string]func(peer, ours *result){
		"ours acts twice":       func(_, ours *result) { ours.Duplicated = 1 },
		"ours loses a job":      func(_, ours *result) { ours.Lost = 1 },
		"ours denies an effect": func(_, ours *result) { ours.FalseFailed = 1 },
		"ours does nothing":     func(_, ours *result) { ours.Failed = 4 },
		"ours only asks":        func(_, ours *result) { ours.Unknown = 4 },
		"faults without teeth":  func(peer, _ *result) { peer.Duplicated = 0 },
	} {
		results := someResults()
		spoil(&results[0], &results[2])
		if verdict(results) == nil {
			t.Errorf("%s: nobody minds", name)
		}
	}
	blind := someResults()
	blind[2].Face, blind[2].Unknown = platform.FaceOpaque, 4
	if err := verdict(blind); err != nil {
		t.Errorf("what cannot be known may be said to be unknown: %v", err)
	}
	if err := verdict(someResults()[2:]); err != nil {
		t.Errorf("ours alone has nothing to be compared with: %v", err)
	}
}
