package tally_test

import (
	"errors"
	"iter"
	"maps"
	"testing"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

func request(subject string, fault platform.Fault) platform.Record {
	return platform.Record{Type: platform.TypeRequest, Subject: subject, Fault: fault}
}

func effect(subject string) platform.Record {
	return platform.Record{Type: platform.TypeEffect, Subject: subject}
}

// log is a log that ends with an error, if there is one.
func log(err error, records ...platform.Record) iter.Seq2[platform.Record, error] {
	return func(yield func(platform.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
		if err != nil {
			yield(platform.Record{}, err)
		}
	}
}

func TestCount(t *testing.T) {
	one := []platform.Record{request("a", platform.None), effect("a")}
	two := append(one, request("a", platform.None), effect("a"))
	none := []platform.Record{request("a", platform.ResetBefore)}
	for name, tt := range map[string]struct {
		records []platform.Record
		verdict tally.Verdict
		want    tally.Counts
	}{
		"as it should be":       {one, tally.Succeeded, tally.Counts{Requests: 1, Effects: 1}},
		"twice":                 {two, tally.Succeeded, tally.Counts{Requests: 2, Effects: 2, Duplicated: 1, Surplus: 1}},
		"believed, never there": {none, tally.Succeeded, tally.Counts{Requests: 1, Lost: 1}},
		"never asked for":       {nil, tally.Forgotten, tally.Counts{Lost: 1}},
		"forgotten, but there":  {one, tally.Forgotten, tally.Counts{Requests: 1, Effects: 1}},
		"failed":                {none, tally.Failed, tally.Counts{Requests: 1, Failed: 1}},
		"failed, but there":     {one, tally.Failed, tally.Counts{Requests: 1, Effects: 1, FalseFailed: 1}},
		"unknown, there":        {one, tally.Unknown, tally.Counts{Requests: 1, Effects: 1, Unknown: 1, UnknownEffect: 1}},
		"unknown, not there":    {none, tally.Unknown, tally.Counts{Requests: 1, Unknown: 1}},
		"unfinished":            {none, tally.Unfinished, tally.Counts{Requests: 1, Unfinished: 1}},
		"unfinished, and twice": {two, tally.Unfinished, tally.Counts{Requests: 2, Effects: 2, Duplicated: 1, Surplus: 1, Unfinished: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tally.Count([]string{"a"}, log(nil, tt.records...), map[string]tally.Verdict{"a": tt.verdict})
			if err != nil {
				t.Fatal(err)
			}
			faults := got.Faults
			got.Faults, tt.want.Jobs = nil, 1
			if !equal(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			hit := len(tt.records) > 0 && tt.records[0].Fault != platform.None
			if hit != (faults[string(platform.ResetBefore)] == 1) {
				t.Errorf("faults: %v", faults)
			}
		})
	}
}

func equal(a, b tally.Counts) bool {
	same := maps.Equal(a.Faults, b.Faults)
	a.Faults, b.Faults = nil, nil
	return same && a.Jobs == b.Jobs && a.Requests == b.Requests && a.Effects == b.Effects &&
		a.Duplicated == b.Duplicated && a.Surplus == b.Surplus && a.Lost == b.Lost &&
		a.Unknown == b.Unknown && a.UnknownEffect == b.UnknownEffect &&
		a.Failed == b.Failed && a.FalseFailed == b.FalseFailed && a.Unfinished == b.Unfinished
}

// TestSurplus: a job that happened four times is one duplicated job with three
// effects too many, and others' effects are not mixed with its own.
func TestSurplus(t *testing.T) {
	records := []platform.Record{effect("a"), effect("b"), effect("a"), effect("a"), effect("a")}
	got, err := tally.Count([]string{"a", "b", "c", "d"}, log(nil, records...), map[string]tally.Verdict{
		"a": tally.Succeeded, "b": tally.Succeeded, "c": tally.Unknown, "d": tally.Unknown,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Duplicated != 1 || got.Surplus != 3 || got.Lost != 0 || got.DuplicatesPerThousand() != 250 {
		t.Errorf("got %+v, %v in a thousand", got, got.DuplicatesPerThousand())
	}
}

// TestUnreadableLog: half a log is no result.
func TestUnreadableLog(t *testing.T) {
	broken := errors.New("broken")
	if _, err := tally.Count([]string{"a"}, log(broken, effect("a")), nil); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
