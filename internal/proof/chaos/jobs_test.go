package main

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
)

// TestJobsOfASeed: all classes and policies come, twins come in pairs, and every
// other subject comes once.
func TestJobsOfASeed(t *testing.T) {
	const jobs = 4000
	subjects, kinds := make(map[string][]spec), make(map[string]int)
	keys := make(map[string]bool)
	for i := range jobs {
		s := specOf(5, i)
		if s != specOf(5, i) {
			t.Fatalf("job %d is two", i)
		}
		keys[s.key] = true
		subjects[s.subject] = append(subjects[s.subject], s)
		kinds[s.class.String()+" "+s.policy.String()]++
		if s.delay != 0 && (s.delay < soonest || s.delay > latest) {
			t.Errorf("job %d is due in %v", i, s.delay)
		}
	}
	if len(keys) != jobs {
		t.Errorf("%d keys for %d jobs", len(keys), jobs)
	}
	twins := 0
	for subject, of := range subjects {
		switch {
		case len(of) == 2 && of[0].class == job.Observable && of[0].account == of[1].account && of[0].key != of[1].key:
			twins++
		case len(of) != 1:
			t.Errorf("%s: %+v", subject, of)
		}
	}
	if twins == 0 {
		t.Error("no twins")
	}
	for _, want := range []string{"KEYED ONCE_OR_ASK", "OBSERVABLE ONCE_OR_ASK", "OPAQUE ONCE_OR_ASK", "OPAQUE AT_MOST_ONCE", "OPAQUE AT_LEAST_ONCE"} {
		if kinds[want] < jobs/50 {
			t.Errorf("%s: %d of %d jobs", want, kinds[want], jobs)
		}
	}
}

// TestRepeatsAskForTheSame: a client that repeats a call must not ask for another time.
func TestRepeatsAskForTheSame(t *testing.T) {
	at := time.Now()
	to := targets{url: "http://127.0.0.1:1", hooks: map[face]string{keyedHook: "a", keyedHTTP: "b", opaqueHook: "c"}, feeds: make([]string, accounts)}
	timed := 0
	for i := range 100 {
		s := specOf(1, i)
		a, b := s.request(to, at), s.request(to, at)
		if a.String() != b.String() {
			t.Errorf("job %d: %v, then %v", i, a, b)
		}
		if got := a.GetScheduleTime(); got != nil {
			timed++
			if !got.AsTime().Equal(at.Add(s.delay)) {
				t.Errorf("job %d is for %v", i, got.AsTime())
			}
		}
	}
	if timed == 0 || timed == 100 {
		t.Errorf("%d of 100 jobs have a time", timed)
	}
}
