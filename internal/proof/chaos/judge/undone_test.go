package judge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// many are jobs of a class, of which some end in a way that says that nothing is
// known, or that nothing happened.
func many(class job.Class, policy job.Delivery, jobs, left int, end job.State) *run {
	r := new(run)
	for i := range jobs {
		f := r.submit(fmt.Sprintf("s%d", i), class, policy)
		switch {
		case i >= left:
			r.to(f, job.Claimed, job.Sending)
			id := r.request(f, class, platform.Drop)
			r.to(f, job.Succeeded)
			f.Proof = job.ProofResponse
			if class == job.Observable {
				f.ExternalID = id
			}
		case end == job.NeedsResolution:
			r.to(f, job.Claimed, job.Sending, job.Ambiguous, end)
		default:
			r.to(f, end)
		}
	}
	return r
}

// TestUndone: who sends nothing, or asks a person about everything, has no
// duplicates, and is not acquitted for that.
func TestUndone(t *testing.T) {
	for name, c := range map[string]struct {
		class  job.Class
		policy job.Delivery
		left   int // of 100
		end    job.State
		ok     bool
	}{
		"a few refused":                  {job.Keyed, job.OnceOrAsk, 3, job.Expired, true},
		"keyed ones expire":              {job.Keyed, job.OnceOrAsk, 6, job.Expired, false},
		"keyed ones are left":            {job.Keyed, job.OnceOrAsk, 6, job.NeedsResolution, false},
		"a few doubts":                   {job.Observable, job.OnceOrAsk, 10, job.NeedsResolution, true},
		"too many doubts":                {job.Observable, job.OnceOrAsk, 11, job.NeedsResolution, false},
		"posts expire":                   {job.Observable, job.OnceOrAsk, 11, job.Expired, false},
		"what is never asked":            {job.Opaque, job.AtMostOnce, 1, job.NeedsResolution, false},
		"what cannot be known":           {job.Opaque, job.OnceOrAsk, 60, job.NeedsResolution, true},
		"what was not tried":             {job.Opaque, job.OnceOrAsk, 11, job.Expired, false},
		"what was to be sent until then": {job.Opaque, job.AtLeastOnce, 11, job.Expired, false},
	} {
		report := many(c.class, c.policy, 100, c.left, c.end).judge(t)
		if report.Total.Violations != 0 || report.OK() != c.ok || (len(report.Undone) == 0) != c.ok {
			t.Errorf("%s: %+v", name, report)
		}
		var out bytes.Buffer
		if err := judge.Table(&out, report); err != nil || strings.Contains(out.String(), "No violation") != c.ok ||
			strings.Contains(out.String(), "too much is undone") == c.ok {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestBlind: where outcomes cannot be looked up, doubts are no violation, and a duplicate is.
func TestBlind(t *testing.T) {
	r := many(job.Handle, job.OnceOrAsk, 100, 40, job.NeedsResolution)
	for i := range r.submits {
		r.submits[i].Group, r.submits[i].Blind = "a group", true
	}
	r.finals[0].State = job.Ambiguous
	r.events = nil
	report, err := judge.Judge(judge.Input{Name: "test", Submits: r.submits, Finals: r.finals, Log: each(r.log)})
	if err != nil {
		t.Fatal(err)
	}
	if row := report.Rows[0]; !report.OK() || row.Class != "HANDLE a group" || row.Unknown != 40 || row.Lost != 0 {
		t.Errorf("%+v", report)
	}
	r.log = append(r.log, r.log[len(r.log)-1])
	r.finals[99].ExternalID = "another one"
	if report, err = judge.Judge(judge.Input{Name: "test", Submits: r.submits, Finals: r.finals, Log: each(r.log)}); err != nil {
		t.Fatal(err)
	}
	if row := report.Rows[0]; report.OK() || row.Duplicates != 1 || row.WrongID != 1 || row.FalseSucceeded != 1 {
		t.Errorf("%+v", report)
	}
	r.submits[0].Blind = false
	if report, err = judge.Judge(judge.Input{Name: "test", Submits: r.submits, Finals: r.finals, Log: each(r.log)}); err != nil {
		t.Fatal(err)
	}
	if report.Total.Lost != 1 {
		t.Errorf("a job in doubt that could be asked about is no stuck one: %+v", report)
	}
}

// TestMoreViolations: what a service may not do under a policy, and what a receiver
// that dedupes would not notice.
func TestMoreViolations(t *testing.T) {
	assumed := done(job.Opaque)
	assumed.finals[0].Proof, assumed.log = job.ProofAssumed, assumed.log[:1]
	if got := assumed.judge(t); got.Kinds[judge.FalseSucceeded] != 1 || got.Total.FalseSucceeded != 1 || got.Total.Assumed != 0 {
		t.Errorf("assumed under ONCE_OR_ASK: %+v", got)
	}
	denied := done(job.Opaque)
	denied.submits[0].Delivery, denied.finals[0].Proof = job.AtLeastOnce, 0
	denied.finals[0].State, denied.events[3].To = job.Failed, job.Failed
	if got := denied.judge(t); got.Kinds[judge.FalseFailed] != 1 || got.Total.FalseFailed != 1 {
		t.Errorf("denied after one round: %+v", got)
	}
	denied.finals[0].Attempts = 2 // the first round had the effect, the last had none
	if got := denied.judge(t); !got.OK() {
		t.Errorf("the last of two rounds: %+v", got)
	}
	changed := done(job.Keyed)
	changed.finals[0].Attempts = 2
	changed.log[0].Body, changed.log[1].Body = "one", "one"
	again := changed.log[0]
	changed.log = append(changed.log, again)
	if got := changed.judge(t); !got.OK() {
		t.Errorf("the same bytes again: %+v", got)
	}
	changed.log[2].Body = "another"
	if got := changed.judge(t); got.Kinds[judge.ChangedBody] != 1 || got.Total.Violations != 1 {
		t.Errorf("other bytes: %+v", got)
	}
}

// TestFaultsOfTheAccused: what befell others' requests is not counted.
func TestFaultsOfTheAccused(t *testing.T) {
	r := many(job.Keyed, job.OnceOrAsk, 3, 0, 0)
	r.log = append(r.log, platform.Record{Type: platform.TypeRequest, Subject: "control-1", Fault: platform.Drop})
	report, err := judge.Judge(judge.Input{
		Submits: r.submits, Finals: r.finals, Log: each(r.log), Ignore: func(s string) bool { return strings.HasPrefix(s, "control-") },
	})
	if err != nil || report.Faults[platform.Drop] != 3 || report.Total.Faulted != 3 || report.Total.Requests != 3 {
		t.Errorf("%+v %v", report, err)
	}
}

// TestLineBounds: the bound is that of jobs that may not duplicate, and there is
// none where there are violations.
func TestLineBounds(t *testing.T) {
	held, resent := many(job.Keyed, job.OnceOrAsk, 60, 0, 0).judge(t), many(job.Opaque, job.AtLeastOnce, 40, 0, 0).judge(t)
	bad := done(job.Opaque)
	bad.log = append(bad.log, bad.log[1])
	for _, c := range []struct {
		reports []*judge.Report
		jobs    int
		bound   float64
	}{
		{[]*judge.Report{held, resent}, 100, judge.Bound95(60)}, {[]*judge.Report{resent}, 40, 1}, {[]*judge.Report{held, bad.judge(t)}, 61, 1},
	} {
		line, err := judge.Line(judge.Result{Reports: c.reports})
		var back judge.Result
		if err != nil || json.Unmarshal([]byte(line[strings.Index(line, "{"):]), &back) != nil {
			t.Fatalf("%q %v", line, err)
		}
		if back.Jobs != c.jobs || back.Bound95 != c.bound || back.Effects < c.jobs {
			t.Errorf("%d jobs, %d effects, bound %v; want %+v", back.Jobs, back.Effects, back.Bound95, c)
		}
	}
	if !slices.Contains(judge.Kinds, judge.ChangedBody) {
		t.Error("a kind is not listed")
	}
}
