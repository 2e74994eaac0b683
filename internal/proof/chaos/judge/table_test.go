package judge_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// TestStories: every violation is counted, the first of a kind are printed whole.
func TestStories(t *testing.T) {
	r := new(run)
	for i := range 9 {
		name := string(rune('a' + i))
		r.submit(name, job.Opaque, job.OnceOrAsk)
		f := &r.finals[i]
		r.to(f, job.Claimed, job.Sending)
		r.request(f, job.Opaque, platform.Drop)
		r.request(f, job.Opaque, platform.None)
		f.Attempts, f.Proof = 2, job.ProofResponse
		r.to(f, job.Succeeded)
	}
	got := r.judge(t)
	if got.Kinds[judge.Duplicate] != 9 || got.Total.Duplicates != 9 || len(got.Violations) != 5 {
		t.Fatalf("%+v", got)
	}
	story := strings.Join(got.Violations[0].Story, "\n")
	for _, want := range []string{
		"under key key of a: OPAQUE, ONCE_OR_ASK", "acknowledged as job id-of-a", "job id-of-a (key key of a) is SUCCEEDED after 2 attempts",
		"platform 12:00:00.000000: request 1 at opaque under key id-of-a, fault: drop", "as effect of a", "CLAIMED to SENDING",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("no %q in\n%s", want, story)
		}
	}
	if strings.Contains(story, "id-of-b") {
		t.Errorf("another's story:\n%s", story)
	}
}

func TestTableAndLine(t *testing.T) {
	good, bad := done(job.Keyed).judge(t), done(job.Opaque)
	bad.log = append(bad.log, bad.log[1])
	report := bad.judge(t)
	var out bytes.Buffer
	if err := judge.Table(&out, good, report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"KEYED", "OPAQUE", "total", "test: duplicate: s: 2 effects of 1 jobs", "1 × duplicate", "1.0e+00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "No violation") {
		t.Errorf("acquitted:\n%s", out.String())
	}
	out.Reset()
	if err := judge.Table(&out, good); err != nil || !strings.Contains(out.String(), "No violation in 1 jobs") {
		t.Errorf("%v\n%s", err, out.String())
	}
	line, err := judge.Line(judge.Result{Seed: 7, Reports: []*judge.Report{good, report}, ProcessFaults: map[string]int{"kill": 3}})
	text, found := strings.CutPrefix(line, "CHAOS RESULT ")
	var back judge.Result
	if err != nil || !found || strings.Contains(text, "\n") || json.Unmarshal([]byte(text), &back) != nil {
		t.Fatalf("%q %v", line, err)
	}
	if back.Bound95 != 1 || back.Reports[1].Total.Duplicates != 1 || back.Reports[1].Violations[0].Kind != judge.Duplicate || back.ProcessFaults["kill"] != 3 {
		t.Errorf("%+v", back)
	}
}

func TestBound95(t *testing.T) {
	for n, want := range map[int]float64{0: 1, 1: 1, 3: 1, 1000: 0.003, 300_000: 0.00001} {
		if got := judge.Bound95(n); math.Abs(got-want) > 1e-12 {
			t.Errorf("%d: %v, not %v", n, got, want)
		}
	}
	// The rule of three is near to the exact bound: (1-p)^n = 5 %.
	if p := judge.Bound95(1000); math.Pow(1-p, 1000) > 0.05 {
		t.Errorf("%v is no 95 %% bound", p)
	}
}

func TestCount(t *testing.T) {
	r := done(job.Opaque)
	r.log = append(r.log, r.log[1], r.log[1], platform.Record{Type: platform.TypeRequest, Subject: "other"}, platform.Record{Type: platform.TypeLook})
	all := func(string) bool { return true }
	got, err := judge.Count(each(r.log), all)
	if err != nil || got != (judge.Tally{Subjects: 2, Requests: 2, Effects: 3, Duplicates: 1}) {
		t.Errorf("%+v %v", got, err)
	}
	got, err = judge.Count(each(r.log), func(s string) bool { return s == "other" })
	if err != nil || got != (judge.Tally{Subjects: 1, Requests: 1}) {
		t.Errorf("%+v %v", got, err)
	}
}
