package judge_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/judge"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

var dawn = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fired is a schedule that fires each ten seconds for a minute, is paused for another one,
// and fires for a third one; all of it is as it should be.
func fired() *judge.Recurring {
	r := &judge.Recurring{
		Key: "sched-1", ID: "the-id", Prefix: "sched-1/", Class: job.Keyed, Delivery: job.OnceOrAsk, Every: 10 * time.Second, Phase: 3 * time.Second,
		Spans: []judge.Span{
			{Asked: dawn, Begun: dawn, Ending: dawn.Add(time.Minute), Ended: dawn.Add(time.Minute)},
			{Asked: dawn.Add(2 * time.Minute), Begun: dawn.Add(2 * time.Minute)},
		},
		Triggers: []judge.Trigger{{Key: "now", Acks: []judge.Ack{{JobID: "job-now", Created: true}, {JobID: "job-now"}}}, {Key: "unheard"}},
		Healed:   dawn.Add(3 * time.Minute), Read: dawn.Add(3*time.Minute + time.Second), Stopped: dawn.Add(3*time.Minute + 4*time.Second), State: judge.StateActive, Next: dawn.Add(3*time.Minute + 3*time.Second),
		Counts: map[string]int64{judge.OutcomeFired: 13, judge.OutcomeMissed: 0}, Jobs: make(map[string]string),
	}
	for _, minute := range []time.Duration{0, 2 * time.Minute} {
		for n := range 6 {
			at := dawn.Add(minute + time.Duration(10*n+3)*time.Second)
			add(r, fmt.Sprintf("i:%d", at.Add(-r.Phase).Unix()/10), at)
		}
	}
	add(r, "t:now", dawn.Add(time.Second))
	r.Ledger[12].JobID = "job-now"
	r.Jobs = map[string]string{}
	for _, row := range r.Ledger {
		r.Jobs[row.JobID] = "fireonce:schedule/the-id/" + row.Name
	}
	return r
}

func add(r *judge.Recurring, name string, at time.Time) {
	n := len(r.Ledger) + 1
	r.Ledger = append(r.Ledger, judge.LedgerRow{
		Name: name, Nominal: at, Decided: at, Outcome: judge.OutcomeFired, JobID: fmt.Sprintf("job-%d", n), Run: int64(n),
	})
}

// queued is fired with a queue.
func queued() *judge.Recurring {
	r := fired()
	r.Queue, r.Triggers = true, nil
	delete(r.Jobs, "job-now")
	r.Ledger, r.Counts = r.Ledger[:12], map[string]int64{judge.OutcomeFired: 12}
	for n, row := range r.Ledger {
		key := fmt.Sprintf("item-%d", n)
		r.Items = append(r.Items, judge.Item{Key: key, Subject: "sched-1/" + key, IDs: []string{"id-of-" + key, "id-of-" + key}})
		r.Kept = append(r.Kept, judge.ItemFinal{ID: "id-of-" + key, Key: key, Used: true, FiringName: row.Name, JobID: row.JobID})
	}
	r.Items = append(r.Items, judge.Item{Key: "waits", IDs: []string{"w"}}, judge.Item{Key: "never-came"})
	r.Kept = append(r.Kept, judge.ItemFinal{ID: "w", Key: "waits"})
	return r
}

// drop takes a firing out of the ledger, with its job and its count.
func drop(r *judge.Recurring, at int) {
	delete(r.Jobs, r.Ledger[at].JobID)
	r.Ledger = slices.Delete(r.Ledger, at, at+1)
	for i := range r.Ledger {
		r.Ledger[i].Run = int64(i + 1)
	}
	r.Counts[judge.OutcomeFired]--
}

// becomes returns a firing without a job an outcome.
func becomes(r *judge.Recurring, at int, outcome string, late time.Duration) {
	row := r.Ledger[at]
	drop(r, at)
	row.Outcome, row.JobID, row.Run, row.Decided = outcome, "", 0, row.Nominal.Add(late)
	r.Ledger = append(r.Ledger, row)
	r.Counts[outcome]++
}

func noLog(func(platform.Record, error) bool) {}

func logOf(r *judge.Recurring, apart time.Duration) iter.Seq2[platform.Record, error] {
	return func(yield func(platform.Record, error) bool) {
		for n, row := range r.Ledger {
			rec := platform.Record{Type: platform.TypeRequest, Subject: r.Prefix + row.Name, Time: dawn.Add(time.Duration(n) * apart)}
			again := rec
			again.Time = again.Time.Add(time.Second)
			for _, r := range []platform.Record{rec, again} { // a repeat is no job of its own
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func TestSchedulesAsTheyShouldBe(t *testing.T) {
	for name, r := range map[string]*judge.Recurring{
		"plain": fired(), "queue": queued(),
		"one more before it was stopped": func() *judge.Recurring {
			r := fired()
			add(r, "i:177236658", dawn.Add(3*time.Minute+3*time.Second))
			r.Counts[judge.OutcomeFired]++
			r.Jobs["job-14"] = "fireonce:schedule/the-id/i:177236658"
			return r
		}(),
		"what came just before the pause is not caught up": func() *judge.Recurring { r := fired(); drop(r, 5); return r }(),
		"kept by an earlier job": func() *judge.Recurring {
			r := fired()
			r.Blocks = true
			becomes(r, 2, judge.OutcomeSkipped, 0)
			r.Ledger[12].Blocking = "job-2"
			return r
		}(),
		"late":                         func() *judge.Recurring { r := fired(); becomes(r, 2, judge.OutcomeMissed, 2*time.Minute); return r }(),
		"undecided when it was paused": func() *judge.Recurring { r := fired(); becomes(r, 5, judge.OutcomeMissed, 7*time.Second); return r }(),
		"late and undecided when it was paused, with ALL": func() *judge.Recurring {
			r := fired()
			r.CatchesUp = true
			becomes(r, 4, judge.OutcomeMissed, 17*time.Second)
			return r
		}(),
		"waiting while it ended": func() *judge.Recurring {
			r := fired()
			r.Buffers = true
			becomes(r, 5, judge.OutcomeMissed, 0)
			return r
		}(),
		"waiting for minutes until the end": func() *judge.Recurring {
			r := fired()
			r.Buffers, r.CatchesUp = true, true
			becomes(r, 2, judge.OutcomeMissed, 159*time.Second) // decided at 3:02
			return r
		}(),
		"an empty queue": func() *judge.Recurring {
			r := queued()
			r.Kept[2] = judge.ItemFinal{ID: r.Kept[2].ID, Key: r.Kept[2].Key}
			becomes(r, 2, judge.OutcomeNoContent, 0)
			return r
		}(),
	} {
		got, err := judge.JudgeRecurring([]judge.Recurring{*r}, noLog)
		if err != nil || got.Total != 0 || got.Times < 9 || got.Pauses != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		for _, s := range r.Submits() {
			if s.Key == "" || s.Subject == "" || s.Class != job.Keyed {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

// TestForgedSchedulesAreRefused: each thing that may go wrong with a schedule is found, under
// its name.
func TestForgedSchedulesAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		kind judge.Kind
		of   func() *judge.Recurring
		do   func(r *judge.Recurring)
	}{
		"a time without a firing":      {judge.Unfired, fired, func(r *judge.Recurring) { drop(r, 2) }},
		"the last times without one":   {judge.Unfired, fired, func(r *judge.Recurring) { drop(r, 11); drop(r, 10) }},
		"skipped where nothing blocks": {judge.Unfired, fired, func(r *judge.Recurring) { becomes(r, 2, judge.OutcomeSkipped, 0) }},
		"missed in time":               {judge.Unfired, fired, func(r *judge.Recurring) { becomes(r, 2, judge.OutcomeMissed, time.Second) }},
		"waiting ones missed too often": {judge.Unfired, fired, func(r *judge.Recurring) {
			r.Buffers = true
			for range 3 {
				becomes(r, 2, judge.OutcomeMissed, 0)
			}
		}},
		"missed with ALL": {judge.Unfired, fired, func(r *judge.Recurring) { r.CatchesUp = true; becomes(r, 2, judge.OutcomeMissed, time.Hour) }},
		"dropped while nothing paused it": {judge.Unfired, fired, func(r *judge.Recurring) {
			r.Buffers, r.CatchesUp = true, true
			becomes(r, 2, judge.OutcomeMissed, 2*time.Minute)
		}},
		"coalesced with ALL":              {judge.Unfired, fired, func(r *judge.Recurring) { r.CatchesUp = true; becomes(r, 2, judge.OutcomeCoalesced, time.Hour) }},
		"refused":                         {judge.Unfired, fired, func(r *judge.Recurring) { becomes(r, 2, "REFUSED", 0) }},
		"no content without a queue":      {judge.Unfired, fired, func(r *judge.Recurring) { becomes(r, 2, judge.OutcomeNoContent, 0) }},
		"a job that is not there":         {judge.Unfired, fired, func(r *judge.Recurring) { delete(r.Jobs, "job-3") }},
		"a name twice":                    {judge.FiredTwice, fired, func(r *judge.Recurring) { add(r, r.Ledger[0].Name, r.Ledger[0].Nominal) }},
		"one job for two times":           {judge.FiredTwice, fired, func(r *judge.Recurring) { r.Ledger[1].JobID = r.Ledger[0].JobID }},
		"a job of no firing":              {judge.FiredTwice, fired, func(r *judge.Recurring) { r.Jobs["another"] = "fireonce:schedule/the-id/i:1" }},
		"a key without the name":          {judge.FiredTwice, fired, func(r *judge.Recurring) { r.Jobs["job-1"] = "fireonce:schedule/the-id/" }},
		"a trigger told of two jobs":      {judge.FiredTwice, fired, func(r *judge.Recurring) { r.Triggers[0].Acks[1].JobID = "job-1" }},
		"a trigger stored twice":          {judge.FiredTwice, fired, func(r *judge.Recurring) { r.Triggers[0].Acks[1].Created = true }},
		"a trigger that is lost":          {judge.LostContent, fired, func(r *judge.Recurring) { drop(r, 12) }},
		"a firing while it is paused":     {judge.Unasked, fired, func(r *judge.Recurring) { add(r, "i:177236649", dawn.Add(93*time.Second)) }},
		"a firing after it was stopped":   {judge.Unasked, fired, func(r *judge.Recurring) { add(r, "i:177236659", dawn.Add(3*time.Minute+13*time.Second)) }},
		"a trigger that nobody asked for": {judge.Unasked, fired, func(r *judge.Recurring) { add(r, "t:then", dawn) }},
		"a name at another time":          {judge.Unasked, fired, func(r *judge.Recurring) { r.Ledger[0].Nominal = dawn }},
		"a count too many":                {judge.Miscounted, fired, func(r *judge.Recurring) { r.Counts[judge.OutcomeFired]++ }},
		"a count too few":                 {judge.Miscounted, fired, func(r *judge.Recurring) { r.Counts[judge.OutcomeFired]-- }},
		"an outcome that is not counted":  {judge.Miscounted, fired, func(r *judge.Recurring) { delete(r.Counts, judge.OutcomeFired) }},
		"a number twice":                  {judge.Miscounted, fired, func(r *judge.Recurring) { r.Ledger[1].Run = 1 }},
		"paused by itself":                {judge.Stalled, fired, func(r *judge.Recurring) { r.State = "PAUSED" }},
		"no next time":                    {judge.Stalled, fired, func(r *judge.Recurring) { r.Next = time.Time{} }},
		"a next time that has passed":     {judge.Stalled, fired, func(r *judge.Recurring) { r.Next = r.Healed.Add(-time.Second) }},
		"a next time too far away":        {judge.Stalled, fired, func(r *judge.Recurring) { r.Next = r.Read.Add(time.Minute) }},
		"an item twice":                   {judge.FiredTwice, queued, func(r *judge.Recurring) { r.Kept = append(r.Kept, r.Kept[0]) }},
		"an item of another job":          {judge.FiredTwice, queued, func(r *judge.Recurring) { r.Kept[0].JobID = r.Kept[1].JobID }},
		"a job of no item":                {judge.FiredTwice, queued, func(r *judge.Recurring) { r.Kept[0].Used = false }},
		"an item with two ids":            {judge.FiredTwice, queued, func(r *judge.Recurring) { r.Items[0].IDs[1] = "other" }},
		"an item that is lost":            {judge.LostContent, queued, func(r *judge.Recurring) { r.Kept = r.Kept[:12] }},
		"an item that nobody added":       {judge.Unasked, queued, func(r *judge.Recurring) { r.Kept[12].Key = "whose" }},
	} {
		r := c.of()
		c.do(r)
		got, err := judge.JudgeRecurring([]judge.Recurring{*r}, noLog)
		if err != nil || got.Kinds[c.kind] == 0 {
			t.Errorf("%s: %v, %v, want %q", name, slices.Collect(maps.Keys(got.Kinds)), err, c.kind)
		}
	}
}

// TestFiringIsMissedWhenTheNextHasCome: of the times that are decided together, only the newest
// can be in time.
func TestFiringIsMissedWhenTheNextHasCome(t *testing.T) {
	every := fired().Every
	for late, want := range map[time.Duration]int{every - time.Millisecond: 1, every: 0, every + time.Second: 0} {
		r := fired()
		becomes(r, 2, judge.OutcomeCoalesced, late)
		r.Counts[judge.OutcomeFired]--
		got, err := judge.JudgeRecurring([]judge.Recurring{*r}, noLog)
		if err != nil || got.Kinds[judge.Unfired] != want {
			t.Errorf("decided %v after its time: %+v, %v", late, got, err)
		}
	}
}

func TestCoolDownIsJudgedByRequests(t *testing.T) {
	for apart, want := range map[time.Duration]int{15 * time.Second: 0, 9 * time.Second: 0, 7 * time.Second: 12} {
		r := fired()
		r.CoolDown, r.Act = 15*time.Second, 5*time.Second
		got, err := judge.JudgeRecurring([]judge.Recurring{*r}, logOf(r, apart))
		if err != nil || got.Kinds[judge.Crowded] != want {
			t.Errorf("%v apart: %+v, %v", apart, got, err)
		}
	}
	// The log has two requests of each job. The second job's first one never arrived, and what
	// came is 7 s after the first job's: its first attempt decides.
	for name, tt := range map[string]struct {
		attempts int
		arm      time.Duration
		want     int
	}{
		"all requests arrived":                {2, 15 * time.Second, 1},
		"one is missing, armed in good time":  {3, 15 * time.Second, 0},
		"one is missing, armed early as well": {3, 3 * time.Second, 1},
	} {
		r := fired()
		r.CoolDown, r.Act = 15*time.Second, 5*time.Second
		r.Retried = map[string]judge.Retried{r.Ledger[1].JobID: {Attempts: tt.attempts, FirstArm: dawn.Add(tt.arm)}}
		log := func(yield func(platform.Record, error) bool) {
			n := 0
			for rec, err := range logOf(r, 15*time.Second) {
				if n++; n == 3 || n == 4 { // the second job's
					rec.Time = rec.Time.Add(-8 * time.Second)
				}
				if !yield(rec, err) {
					return
				}
			}
		}
		got, err := judge.JudgeRecurring([]judge.Recurring{*r}, log)
		if err != nil || got.Kinds[judge.Crowded] != tt.want {
			t.Errorf("%s: %d crowded, want %d; %v", name, got.Kinds[judge.Crowded], tt.want, err)
		}
	}
}
