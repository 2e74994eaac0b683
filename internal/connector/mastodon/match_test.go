package mastodon

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/lookup"
	"github.com/fireonce/fireonce/internal/job"
)

const fenceAfter = time.Minute

var start = time.Unix(1_700_000_000, 0)

// searchAt is a search whose first page is read at a time after the watermark, by both clocks.
func searchAt(t *testing.T, at time.Duration) *search {
	t.Helper()
	s := newSearch(watermark{Clocks: lookup.Clocks{At: start, Local: start}}, content{Text: "ours"}, connector.Look{
		First: job.Attempt{ArmedAt: start}, Fence: start.Add(fenceAfter), Now: start.Add(at),
	})
	if _, err := s.add(listing{now: start.Add(at)}, start.Add(at)); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLateByTheServersClock: a list from before the fence, which a cache may give, proves
// nothing.
func TestLateByTheServersClock(t *testing.T) {
	for at, want := range map[time.Duration]bool{fenceAfter - 2*time.Second - 1: false, fenceAfter - 2*time.Second: true, fenceAfter: true} {
		if late := searchAt(t, at).Late(); late != want {
			t.Errorf("%v after the watermark: late %t", at, late)
		}
	}
}

// TestMadeBetweenWatermarkAndFence: the watermark is taken a little before the arm, from
// which the fence is counted.
func TestMadeBetweenWatermarkAndFence(t *testing.T) {
	s := searchAt(t, time.Hour)
	for at, want := range map[time.Duration]lookup.Fit{
		-time.Minute - 1: lookup.Other, -time.Minute: lookup.Uncertain, -1: lookup.Uncertain, 0: lookup.Sure, time.Second: lookup.Sure,
		fenceAfter: lookup.Sure, fenceAfter + 15*time.Second: lookup.Sure, fenceAfter + 15*time.Second + 1: lookup.Uncertain,
	} {
		if fit := s.fit(status{id: "1", created: start.Add(at)}); fit != want {
			t.Errorf("made %v after the watermark: fit %v, want %v", at, fit, want)
		}
	}
}
