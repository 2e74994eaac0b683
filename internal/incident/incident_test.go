package incident

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func saw(verdicts ...job.Verdict) (out store.Verdicts) {
	for _, v := range verdicts {
		out |= 1 << v
	}
	return out
}

func results(all ...job.Result) (out store.Results) {
	for _, r := range all {
		out |= 1 << r
	}
	return out
}

func TestKeyOf(t *testing.T) {
	no503 := store.TroubleCause{Kind: job.FailAmbiguous, HTTPStatus: 503}
	for name, c := range map[string]struct {
		in   store.Trouble
		want Kind // 0: none
		with func(Key) bool
	}{
		"waits for a person":              {in: store.Trouble{State: job.NeedsResolution, Open: true, Attempts: 1, First: no503}, want: Unknown, with: func(k Key) bool { return k.Cause.HTTPStatus == 503 }},
		"before its second look":          {in: store.Trouble{State: job.Ambiguous, Open: true, Attempts: 1, Looks: 1}},
		"after its second look":           {in: store.Trouble{State: job.Ambiguous, Open: true, Attempts: 1, Looks: 2}, want: Unknown},
		"after one repeat":                {in: store.Trouble{State: job.Ambiguous, Open: true, Attempts: 2}},
		"after two repeats":               {in: store.Trouble{State: job.Ambiguous, Open: true, Attempts: 3}, want: Unknown},
		"after a restore":                 {in: store.Trouble{State: job.NeedsResolution, Attempts: 1, First: no503}, want: Unknown, with: func(k Key) bool { return k.Cause.Restored && k.Cause.HTTPStatus == 0 }},
		"candidates for a closed attempt": {in: store.Trouble{State: job.NeedsResolution, Attempts: 1, Seen: saw(job.SawCandidates)}, want: Unknown, with: func(k Key) bool { return !k.Cause.Restored }},
		"refused":                         {in: store.Trouble{State: job.Failed, Results: results(job.ResultRejected)}, want: Failed},
		"expired":                         {in: store.Trouble{State: job.Expired, First: store.TroubleCause{Kind: job.FailWindowOver}}, want: Failed},
		"ruled not sent":                  {in: store.Trouble{State: job.Failed, Ruled: true}},
		"refused, after an unproven one":  {in: store.Trouble{State: job.Failed, Results: results(job.ResultSuperseded, job.ResultRejected)}, want: Failed},
		"held":                            {in: store.Trouble{State: job.Scheduled, Since: now, Hold: store.HoldPaused}, want: Held},
		"due for less than a minute":      {in: store.Trouble{State: job.Retrying, Since: now.Add(-LateAfter + 1)}},
		"due for a minute":                {in: store.Trouble{State: job.Retrying, Since: now.Add(-LateAfter)}, want: Late},
		"sent":                            {in: store.Trouble{State: job.Succeeded}},
	} {
		t.Run(name, func(t *testing.T) {
			k, ok := KeyOf(&c.in, now)
			if ok != (c.want != 0) || k.Kind != c.want {
				t.Fatalf("in an incident: %t, of kind %d; want kind %d", ok, k.Kind, c.want)
			}
			if c.with != nil && !c.with(k) {
				t.Errorf("cause %+v", k.Cause)
			}
		})
	}
}

func TestGroup(t *testing.T) {
	one := func(n byte, since time.Duration, edit func(*store.Trouble)) store.Trouble {
		out := store.Trouble{
			Job: job.ID{n}, State: job.NeedsResolution, Connection: job.ID{9}, HoldKey: "https://a", Class: job.Opaque, Open: true, Attempts: 1,
			Since: now.Add(since), First: store.TroubleCause{Kind: job.FailAmbiguous},
		}
		if edit != nil {
			edit(&out)
		}
		return out
	}
	got := Group(now, []store.Trouble{
		one(1, 0, func(t *store.Trouble) { t.HoldKey = "https://b" }),
		one(2, time.Second, nil),
		one(3, -time.Second, func(t *store.Trouble) { t.Seen, t.SeenAt = saw(job.SawInconclusive, job.SawAbsent), now }),
		one(4, 0, func(t *store.Trouble) { t.State, t.Looks, t.NextAt = job.Ambiguous, 5, now.Add(time.Hour) }),
	}, []store.Trouble{one(5, 0, func(t *store.Trouble) { t.First.HTTPStatus = 503 })})
	if len(got) != 3 {
		t.Fatalf("%d incidents, want 3", len(got))
	}
	in := got[0]
	if len(in.Jobs) != 3 || in.Jobs[0].Job != (job.ID{3}) || !in.Since.Equal(now.Add(-time.Second)) || !in.Last.Equal(now.Add(time.Second)) {
		t.Errorf("largest: %+v", in)
	}
	if want := (Looks{None: 2, Absent: 1, Last: now}); in.Looks() != want {
		t.Errorf("looks %+v, want %+v", in.Looks(), want)
	}
	if next := in.NextLook(); !next.Equal(now.Add(time.Hour)) {
		t.Errorf("next look %v", next)
	}
	ids := make(map[string]bool)
	for _, in := range got {
		ids[in.ID("default")], ids[in.ID("other")] = true, true
	}
	if len(ids) != 6 {
		t.Errorf("%d ids, want 6", len(ids))
	}
	if id := in.ID("default"); id != "inc_"+id[4:] || len(id) != 20 {
		t.Errorf("id %q", id)
	}
}

// TestResolve: each decision leaves out what was seen against it, and what a person must look at.
func TestResolve(t *testing.T) {
	const acts, candidates, contrary = store.PlanActs, store.PlanCandidates, store.PlanContrary
	for name, c := range map[string]struct {
		in                            store.Trouble
		sent, notSent, resend, cancel store.PlanOutcome
	}{
		"nothing seen":    {store.Trouble{}, acts, acts, acts, acts},
		"not readable":    {store.Trouble{Seen: saw(job.SawInconclusive)}, acts, acts, acts, acts},
		"an absence":      {store.Trouble{Seen: saw(job.SawAbsent, job.SawInconclusive)}, contrary, acts, acts, acts},
		"an object":       {store.Trouble{Seen: saw(job.SawPresent)}, acts, contrary, contrary, contrary},
		"both":            {store.Trouble{Seen: saw(job.SawPresent, job.SawAbsent)}, contrary, contrary, contrary, contrary},
		"a handle":        {store.Trouble{Seen: saw(job.SawHandle)}, acts, contrary, contrary, contrary},
		"an accepted one": {store.Trouble{Results: results(job.ResultAccepted)}, acts, contrary, contrary, contrary},
		"candidates":      {store.Trouble{Seen: saw(job.SawCandidates, job.SawAbsent)}, candidates, candidates, candidates, candidates},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.State = job.NeedsResolution
			for ruling, want := range map[job.Ruling]store.PlanOutcome{
				job.RuleSent: c.sent, job.RuleNotSent: c.notSent, job.RuleResend: c.resend, job.RuleCancel: c.cancel,
			} {
				if got := Resolve(&c.in, ruling, false); got != want {
					t.Errorf("%v: %d, want %d", ruling, got, want)
				}
			}
			c.in.State = job.Ambiguous
			if got := Resolve(&c.in, job.RuleResend, false); got != store.PlanLooking {
				t.Errorf("while it is looked for: %d", got)
			}
			if got := Resolve(&c.in, job.RuleResend, true); got != c.resend {
				t.Errorf("with override: %d, want %d", got, c.resend)
			}
		})
	}
}

// TestRedeliver: a job of which an attempt may have had an effect is left out.
func TestRedeliver(t *testing.T) {
	for _, c := range []struct {
		in   store.Trouble
		want store.PlanOutcome
	}{
		{store.Trouble{State: job.Failed, Results: results(job.ResultRejected, job.ResultNotSent, job.ResultAbsent)}, store.PlanActs},
		{store.Trouble{State: job.Expired}, store.PlanActs},
		{store.Trouble{State: job.Failed, Results: results(job.ResultSuperseded, job.ResultRejected)}, store.PlanUnproven},
		{store.Trouble{State: job.Failed, Ruled: true}, store.PlanUnproven},
	} {
		if got := Redeliver(&c.in); got != c.want {
			t.Errorf("%+v: %d, want %d", c.in, got, c.want)
		}
	}
}

// TestRisks: each class that is there has a risk for each decision, with words, and only RESEND
// sends.
func TestRisks(t *testing.T) {
	in := &Incident{Key: Key{Kind: Unknown}}
	for class := job.Keyed; class <= job.Opaque; class++ {
		in.Jobs = append(in.Jobs, store.Trouble{State: job.NeedsResolution, Class: class, Seen: saw(job.SawAbsent)})
	}
	risks := in.Risks()
	if len(risks) != 4*len(Rulings) {
		t.Fatalf("%d risks", len(risks))
	}
	for _, r := range risks {
		if r.Summary == "" || (r.Risk == RiskDuplicate) != (r.Ruling == job.RuleResend) {
			t.Errorf("%v of %v: risk %d, %q", r.Ruling, r.Class, r.Risk, r.Summary)
		}
		if want := r.Ruling == job.RuleSent; (r.LeftOut == 1) != want {
			t.Errorf("%v of %v leaves %d out", r.Ruling, r.Class, r.LeftOut)
		}
	}
	in.Kind = Failed
	if risks := in.Risks(); len(risks) != 4 || risks[0].Ruling != 0 || risks[0].Risk != RiskNone {
		t.Errorf("of failures: %+v", risks)
	}
	in.Kind = Held
	if risks := in.Risks(); len(risks) != 0 {
		t.Errorf("of holds: %+v", risks)
	}
}

// TestWords: each kind and cause has words.
func TestWords(t *testing.T) {
	for _, kind := range Kinds {
		for failure := job.FailAuth; failure <= job.FailPredecessorEnded; failure++ {
			for _, hold := range []store.HoldCause{store.HoldAuth, store.HoldPaused, store.HoldRateLimit} {
				in := &Incident{Key: Key{Kind: kind, Cause: Cause{Kind: failure, Hold: hold, Auth: job.AuthExpired}}, Jobs: make([]store.Trouble, 1)}
				if in.Summary() == "" || in.Advice() == "" {
					t.Errorf("kind %d, %v, %s: %q, %q", kind, failure, hold, in.Summary(), in.Advice())
				}
			}
		}
	}
}
