package main

import (
	"iter"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// TestRates: trials are the late requests for posts, duplicates the subjects with two
// effects.
func TestRates(t *testing.T) {
	var log iter.Seq2[platform.Record, error] = func(yield func(platform.Record, error) bool) {
		for i, r := range []platform.Record{
			{Type: platform.TypeRequest, Face: "feed/0", Subject: "a", Fault: platform.Late},
			{Type: platform.TypeEffect, Face: "feed/0", Subject: "a", ID: "1"},
			{Type: platform.TypeRequest, Face: "feed/0", Subject: "a"},
			{Type: platform.TypeEffect, Face: "feed/0", Subject: "a", ID: "2"},
			{Type: platform.TypeRequest, Face: "feed/0", Subject: "b", Fault: platform.Late},
			{Type: platform.TypeEffect, Face: "feed/0", Subject: "b", ID: "3"},
			{Type: platform.TypeRequest, Face: "keyed", Subject: "c", Key: "job-c", Fault: platform.Late},
			{Type: platform.TypeEffect, Face: "keyed", Subject: "c", Key: "job-c", ID: "4"},
		} {
			if r.N = int64(i + 1); !yield(r, nil) {
				return
			}
		}
	}
	in := judge.Input{Name: "late", Log: log}
	for subject, class := range map[string]job.Class{"a": job.Observable, "b": job.Observable, "c": job.Keyed} {
		in.Submits = append(in.Submits, judge.Submit{Key: subject, Subject: subject, Class: class, Acks: []judge.Ack{{JobID: "job-" + subject, Created: true}}})
		id := map[string]string{"a": "2", "b": "3"}[subject]
		in.Finals = append(in.Finals, judge.Final{JobID: "job-" + subject, Key: subject, State: job.Succeeded, Attempts: 2, ExternalID: id, Proof: job.ProofResponse})
	}
	r := rate{What: "late"}
	if err := r.weigh(in); err != nil {
		t.Fatal(err)
	}
	if r.Trials != 2 {
		t.Errorf("%d trials", r.Trials)
	}
	for _, want := range []string{"2 trials", "KEYED: of 1 jobs 0 twice", "OBSERVABLE: of 2 jobs 1 twice", "500 duplicates in 1,000 trials"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("%q does not say %q", r, want)
		}
	}
}

func TestTrialsHaveTheirClasses(t *testing.T) {
	for only, want := range map[job.Class]map[job.Class]int{
		0: {job.Observable: 5, job.Keyed: 5}, job.Observable: {job.Observable: 10}, job.Keyed: {job.Keyed: 10},
	} {
		got := make(map[job.Class]int)
		for i := range 10 {
			s := trial{name: "t", only: only}.specs(i)
			got[s.class]++
			if s.window == 0 || s.account >= accounts || (s.face == feedPosts) != (s.class == job.Observable) {
				t.Errorf("%+v", s)
			}
		}
		if got[job.Observable] != want[job.Observable] || got[job.Keyed] != want[job.Keyed] {
			t.Errorf("only %v: %v", only, got)
		}
	}
}
