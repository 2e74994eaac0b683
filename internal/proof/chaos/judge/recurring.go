package judge

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// Rules of this file: when a schedule should have fired follows from what its client asked
// for and from docs/schedules.md, never from the service's own evaluation. What the service
// says of its firings is weighed against that; how often their jobs took effect is Judge's.

// Kinds of violations of schedules.
const (
	// FiredTwice: one nominal time, trigger or item of a queue has two firings or two jobs.
	FiredTwice Kind = "fired twice"
	// Unfired: a time that nothing has decided about, or that made no job without a reason
	// that its schedule's policies allow.
	Unfired Kind = "not fired"
	// Stalled: a schedule that no client has stopped does not fire.
	Stalled Kind = "stalled"
	// Miscounted: counters, run numbers, or the schedule's firings and jobs do not agree.
	Miscounted Kind = "miscounted"
	// Unasked: a firing at a time that the schedule does not have.
	Unasked Kind = "firing at no time"
	// LostContent: an item or a trigger that was acknowledged, and that the service does not know.
	LostContent Kind = "lost content"
	// Crowded: two jobs were begun within the schedule's cool-down.
	Crowded Kind = "cool-down broken"
)

// RecurringKinds lists the kinds of violations of schedules.
var RecurringKinds = []Kind{FiredTwice, Unfired, Stalled, Miscounted, Unasked, LostContent, Crowded}

// Outcomes of firings, as the contract names them.
const (
	OutcomeFired     = "FIRED"
	OutcomeSkipped   = "SKIPPED_BY_OVERLAP"
	OutcomeMissed    = "MISSED"
	OutcomeCoalesced = "COALESCED"
	OutcomeNoContent = "NO_CONTENT"
)

const (
	// lateFiring is from when on a firing counts as missed in any case, see isLate.
	lateFiring = time.Minute
	// clockSlack is how far the time by which servers decide may be from the clients' clock.
	clockSlack = 2 * time.Second
	// scheduledGroup is what jobs of schedules are counted under, beside their class.
	scheduledGroup = "scheduled"
)

// Span is a time in which a schedule fires. A call that begins or ends it took effect at an
// unknown moment between the call and its answer.
type Span struct {
	Asked, Begun time.Time // the call that begins it, and its answer
	// Ending and Ended are those of the call that ends it; zero: the campaign's end does.
	Ending, Ended time.Time
}

// Trigger is a trigger key that a client used, and the answers to it.
type Trigger struct {
	Key  string
	Acks []Ack
}

// Item is a key under which a client added content to a queue.
type Item struct {
	Key     string
	Subject string
	// IDs are what the answers called it. None: the service may or may not have it.
	IDs []string
}

// LedgerRow is a firing as the service told it.
type LedgerRow struct {
	Name     string
	Nominal  time.Time
	Outcome  string
	JobID    string
	Blocking string
	Run      int64
	Decided  time.Time
}

// ItemFinal is an item as the service told it at the end.
type ItemFinal struct {
	ID, Key    string
	Used       bool
	FiringName string
	JobID      string
}

// Recurring is a schedule: what its clients asked for, and what the service said at the end.
type Recurring struct {
	Key, ID string
	// Prefix begins its jobs' subjects; the firing's name follows, but for those of a queue.
	Prefix   string
	Class    job.Class
	Delivery job.Delivery
	// It fires every Every, at Phase of it. Cron: each minute, and Every is a minute.
	Every, Phase time.Duration
	Cron         bool
	Jitter       time.Duration
	// CoolDown keeps its jobs apart; zero: nothing does. A request comes within Act of its
	// attempt's begin, or never.
	CoolDown, Act time.Duration
	Queue         bool
	// Blocks is set if an earlier job may keep a firing from making one, Buffers if such
	// a firing may wait, CatchesUp that each late firing makes a job.
	Blocks, Buffers, CatchesUp bool

	Spans    []Span
	Triggers []Trigger
	Items    []Item

	// Healed is when all faults were over, and Read when it was read, at the latest then
	// with everything decided up to Healed. State and Next are those of that time, before
	// the campaign ended its firing.
	Healed, Read time.Time
	State        string
	Next         time.Time
	// Stopped is when it had stopped firing for certain.
	Stopped time.Time
	// The rest was read when it fired no more.
	Counts map[string]int64
	Ledger []LedgerRow
	Jobs   map[string]string // keys by job
	// Retried has the jobs with more than one attempt.
	Retried map[string]Retried
	Kept    []ItemFinal
}

// Retried is what the service reports of a job with more than one attempt.
type Retried struct {
	Attempts int
	// FirstArm is when the first attempt's intent became durable.
	FirstArm time.Time
}

// StateActive is the state of a schedule that fires.
const StateActive = "ACTIVE"

// jobKey is the idempotency key of a firing's job, as the contract says it.
func (r *Recurring) jobKey(name string) string { return "fireonce:schedule/" + r.ID + "/" + name }

const triggerPrefix = "t:"

// name is that of the firing at one of the schedule's times.
func (r *Recurring) name(t time.Time) string {
	if r.Cron {
		return t.UTC().Format("2006-01-02T15:04:05") + "/1"
	}
	return fmt.Sprintf("i:%d", t.Add(-r.Phase).Unix()/int64(r.Every.Seconds()))
}

// times are those of the schedule from one time up to another, both included.
func (r *Recurring) times(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		every, phase := int64(r.Every.Seconds()), int64(r.Phase.Seconds())
		n := (from.Unix() - phase) / every
		for t := time.Unix(n*every+phase, 0).UTC(); !t.After(to); t = t.Add(r.Every) {
			if !t.Before(from) && !yield(t) {
				return
			}
		}
	}
}

// possible are the firings that there may be by time: in each span and at its edges.
func (r *Recurring) possible() map[string]time.Time {
	out := make(map[string]time.Time)
	for _, s := range r.Spans {
		end := s.Ended
		if end.IsZero() {
			end = r.Stopped
		}
		for t := range r.times(s.Asked.Add(-clockSlack), end.Add(clockSlack)) {
			out[r.name(t)] = t
		}
	}
	return out
}

// Submits are the jobs that the schedule may make, as Judge takes them: who makes any other
// one, or one of them twice, is found by it.
func (r *Recurring) Submits() []Submit {
	submit := func(name, subject string, acks []Ack) Submit {
		return Submit{Key: r.jobKey(name), Subject: subject, Class: r.Class, Delivery: r.Delivery, Group: scheduledGroup, Acks: acks}
	}
	var out []Submit
	if r.Queue {
		subjects := make(map[string]string)
		for _, i := range r.Items {
			subjects[i.Key] = i.Subject
		}
		for _, k := range r.Kept {
			if k.Used {
				out = append(out, submit(k.FiringName, subjects[k.Key], nil))
			}
		}
		return out
	}
	for name := range r.possible() {
		out = append(out, submit(name, r.Prefix+name, nil))
	}
	for _, t := range r.Triggers {
		name := triggerPrefix + t.Key
		out = append(out, submit(name, r.Prefix+name, t.Acks))
	}
	slices.SortFunc(out, func(a, b Submit) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// RecurringReport is the judgement of a campaign's schedules.
type RecurringReport struct {
	Schedules int `json:"schedules"`
	// Times are those at which schedules must have been decided.
	Times int `json:"times"`
	// Firings counts those of the ledgers by outcome, triggers too.
	Firings map[string]int `json:"firings"`
	Jobs    int            `json:"jobs"`
	// Triggers are the keys that made a job, TriggerAnswers how often clients were answered so.
	Triggers       int `json:"triggers"`
	TriggerAnswers int `json:"trigger_answers"`
	// Items are those that were acknowledged, Used those that are jobs.
	Items int `json:"items"`
	Used  int `json:"used"`
	// Pauses are those by hand.
	Pauses int `json:"pauses"`
	// Total counts the violations, Kinds by kind; Violations has the first ones of each.
	Total      int          `json:"total_violations"`
	Kinds      map[Kind]int `json:"kinds,omitempty"`
	Violations []Violation  `json:"violations,omitempty"`
}

type recurringTrial struct {
	*Recurring
	report  *RecurringReport
	stories int
	byName  map[string]LedgerRow
}

// JudgeRecurring weighs what the service says of schedules against what was asked for, and
// against when the platform's log has their first requests. It fails only if that cannot be
// read.
func JudgeRecurring(all []Recurring, log iter.Seq2[platform.Record, error]) (*RecurringReport, error) {
	out := &RecurringReport{Schedules: len(all), Firings: make(map[string]int), Kinds: make(map[Kind]int)}
	first, requests := make(map[string]time.Time), make(map[string]int)
	for rec, err := range log {
		if err != nil {
			return nil, err
		}
		if rec.Type != platform.TypeRequest {
			continue
		}
		if requests[rec.Subject]++; requests[rec.Subject] == 1 {
			first[rec.Subject] = rec.Time
		}
	}
	for i := range all {
		t := &recurringTrial{Recurring: &all[i], report: out, stories: 5, byName: make(map[string]LedgerRow)}
		t.weighLedger()
		t.weighJobs()
		t.weighCounts()
		t.weighTimes()
		t.weighTriggers()
		t.weighItems()
		t.weighCoolDown(first, requests)
	}
	return out, nil
}

func (t *recurringTrial) blame(k Kind, format string, args ...any) {
	t.report.Total++
	if t.report.Kinds[k]++; t.report.Kinds[k] <= t.stories {
		t.report.Violations = append(t.report.Violations, Violation{Kind: k, Subject: t.Key, Detail: fmt.Sprintf(format, args...)})
	}
}

// weighLedger compares each firing with the times and triggers that there are.
func (t *recurringTrial) weighLedger() {
	possible := t.possible()
	triggers := make(map[string]bool)
	for _, trigger := range t.Triggers {
		triggers[triggerPrefix+trigger.Key] = true
	}
	left := len(t.Spans) // firings that waited when the schedule was paused
	for _, row := range t.Ledger {
		if _, known := t.byName[row.Name]; known {
			t.blame(FiredTwice, "two firings are called %s", row.Name)
		}
		t.byName[row.Name] = row
		t.report.Firings[row.Outcome]++
		at, known := possible[row.Name]
		switch {
		case triggers[row.Name]:
			if row.Outcome != OutcomeFired {
				t.blame(Unfired, "trigger %s is %s", row.Name, row.Outcome)
			}
			continue
		case !known:
			t.blame(Unasked, "%s at %v", row.Name, row.Nominal)
			continue
		case !row.Nominal.Equal(at):
			t.blame(Unasked, "%s is at %v, and not at %v", row.Name, row.Nominal, at)
		}
		// A firing waits for as long as the job before it is undecided, until a pause drops it.
		if row.Outcome == OutcomeMissed && t.Buffers && left > 0 && (row.Decided.Sub(at) <= lateFiring || t.pausedAt(row.Decided) || t.stoppedAt(row.Decided)) {
			left--
			continue
		}
		if why := t.without(row, at); why != "" {
			t.blame(Unfired, "%s is %s, decided %v after its time: %s", row.Name, row.Outcome, row.Decided.Sub(at).Round(time.Millisecond), why)
		}
	}
}

// pausedAt reports whether a person paused the schedule at a time.
func (t *recurringTrial) pausedAt(at time.Time) bool {
	return slices.ContainsFunc(t.Spans, func(s Span) bool {
		return !s.Ended.IsZero() && !at.Before(s.Ending.Add(-clockSlack)) && !at.After(s.Ended.Add(clockSlack))
	})
}

// stoppedAt reports whether the campaign paused the schedule, in its end, at a time.
func (t *recurringTrial) stoppedAt(at time.Time) bool {
	return !at.Before(t.Read.Add(-clockSlack)) && !at.After(t.Stopped.Add(clockSlack))
}

// isLate reports whether a firing was missed, by the rule of docs/schedules.md: it was decided
// more than a minute late, or not before the next time had come.
func (t *recurringTrial) isLate(row LedgerRow, at time.Time) bool {
	after := row.Decided.Sub(at)
	return after > lateFiring || after >= t.Every
}

// without returns why a firing's outcome is none that its schedule's policies allow; empty: it is.
func (t *recurringTrial) without(row LedgerRow, at time.Time) string {
	late := t.isLate(row, at)
	switch row.Outcome {
	case OutcomeFired:
	case OutcomeSkipped:
		if !t.Blocks || row.Blocking == "" {
			return "no earlier job may be in its way"
		}
	case OutcomeMissed, OutcomeCoalesced:
		if row.Outcome == OutcomeMissed && t.pausedAt(row.Decided) {
			return "" // it was undecided when the schedule was paused, however late that was
		}
		if !late || t.CatchesUp {
			return "it was in time, or every firing is caught up"
		}
	case OutcomeNoContent:
		if !t.Queue {
			return "it has content of its own"
		}
	default:
		return "nothing in the campaign leads to that"
	}
	return ""
}

// weighJobs compares firings and jobs.
func (t *recurringTrial) weighJobs() {
	t.report.Jobs += len(t.Jobs)
	made := make(map[string]string) // firings by job
	for _, row := range t.Ledger {
		if row.Outcome != OutcomeFired {
			continue
		}
		if other := made[row.JobID]; other != "" {
			t.blame(FiredTwice, "%s and %s are one job, %s", other, row.Name, row.JobID)
		}
		made[row.JobID] = row.Name
		if key, known := t.Jobs[row.JobID]; !known {
			t.blame(Unfired, "%s made job %q, which is not there", row.Name, row.JobID)
		} else if key != t.jobKey(row.Name) {
			t.blame(FiredTwice, "%s made job %s, whose key is %s", row.Name, row.JobID, key)
		}
	}
	for id, key := range t.Jobs {
		if made[id] == "" {
			t.blame(FiredTwice, "no firing made job %s with the key %s", id, key)
		}
	}
}

// weighCounts compares the counters with the firings, and looks at the numbers of the jobs.
func (t *recurringTrial) weighCounts() {
	counts, runs := make(map[string]int64), make(map[int64]bool)
	for _, row := range t.Ledger {
		counts[row.Outcome]++
		if row.Outcome != OutcomeFired {
			continue
		}
		if runs[row.Run] {
			t.blame(Miscounted, "two firings have the number %d", row.Run)
		}
		runs[row.Run] = true
	}
	for n := int64(1); n <= int64(len(runs)); n++ {
		if !runs[n] {
			t.blame(Miscounted, "of %d jobs none has the number %d", len(runs), n)
			break
		}
	}
	for outcome, n := range t.Counts {
		if counts[outcome] != n {
			t.blame(Miscounted, "the schedule counts %d firings that are %s, and there are %d", n, outcome, counts[outcome])
		}
	}
	for outcome, n := range counts {
		if _, known := t.Counts[outcome]; !known {
			t.blame(Miscounted, "%d firings are %s, which the schedule does not count", n, outcome)
		}
	}
}

// weighTimes returns which times nothing was decided about, and whether the schedule goes on.
func (t *recurringTrial) weighTimes() {
	for _, s := range t.Spans {
		reached := t.Healed.Add(-t.Jitter - clockSlack)
		if !s.Ended.IsZero() {
			t.report.Pauses++
			reached = t.newest(s)
		}
		for at := range t.times(s.Begun.Add(clockSlack), reached) {
			t.report.Times++
			if _, known := t.byName[t.name(at)]; !known {
				t.blame(Unfired, "nothing was decided about %s at %v", t.name(at), at)
			}
		}
	}
	switch {
	case t.State != StateActive:
		t.blame(Stalled, "it is %s", t.State)
	case t.Next.IsZero():
		t.blame(Stalled, "it has no next time")
	case t.Next.Before(t.Healed):
		t.blame(Stalled, "at %v its next time was still %v", t.Read, t.Next)
	case t.Next.After(t.Read.Add(t.Every + t.Jitter + clockSlack)):
		t.blame(Stalled, "at %v its next time was %v", t.Read, t.Next)
	}
}

// newest is the latest time of a span that was decided. What came between it and the pause
// may be left out: it is not caught up.
func (t *recurringTrial) newest(s Span) time.Time {
	var out time.Time
	for name, row := range t.byName {
		if !strings.HasPrefix(name, triggerPrefix) && !row.Nominal.Before(s.Asked) && !row.Nominal.After(s.Ended) && row.Nominal.After(out) {
			out = row.Nominal
		}
	}
	return out
}

// weighTriggers checks that each trigger key is one job.
func (t *recurringTrial) weighTriggers() {
	for _, trigger := range t.Triggers {
		row, known := t.byName[triggerPrefix+trigger.Key]
		if known {
			t.report.Triggers++
		}
		created := 0
		for _, ack := range trigger.Acks {
			t.report.TriggerAnswers++
			if ack.Created {
				created++
			}
			if known && ack.JobID != row.JobID {
				t.blame(FiredTwice, "trigger %s was answered with job %s, and it is job %s", trigger.Key, ack.JobID, row.JobID)
			}
		}
		if created > 1 {
			t.blame(FiredTwice, "trigger %s was said to have made a job %d times", trigger.Key, created)
		}
		if !known && len(trigger.Acks) > 0 {
			t.blame(LostContent, "trigger %s was acknowledged as job %s, and there is no such firing", trigger.Key, trigger.Acks[0].JobID)
		}
	}
}

// weighItems checks that each item is at most one job, and each job of a queue one item.
func (t *recurringTrial) weighItems() {
	if !t.Queue {
		return
	}
	kept, byJob, asked := make(map[string]ItemFinal), make(map[string]string), make(map[string]bool)
	for _, k := range t.Kept {
		if other, known := kept[k.Key]; known {
			t.blame(FiredTwice, "item %s is %s and %s", k.Key, other.ID, k.ID)
		}
		kept[k.Key] = k
		if !k.Used {
			continue
		}
		t.report.Used++
		if row := t.byName[k.FiringName]; row.Outcome != OutcomeFired || row.JobID != k.JobID {
			t.blame(FiredTwice, "item %s is job %s of %s, which made job %q", k.Key, k.JobID, k.FiringName, row.JobID)
		}
		if other := byJob[k.JobID]; other != "" {
			t.blame(FiredTwice, "items %s and %s are one job, %s", other, k.Key, k.JobID)
		}
		byJob[k.JobID] = k.Key
	}
	for _, item := range t.Items {
		asked[item.Key] = true
		if len(item.IDs) == 0 {
			continue
		}
		t.report.Items++
		k, known := kept[item.Key]
		if !known {
			t.blame(LostContent, "item %s was acknowledged as %s, and is not there", item.Key, item.IDs[0])
		}
		for _, id := range item.IDs {
			if known && id != k.ID {
				t.blame(FiredTwice, "item %s was stored as %s, and is %s", item.Key, id, k.ID)
			}
		}
	}
	for key := range kept {
		if !asked[key] {
			t.blame(Unasked, "nobody has added item %s", key)
		}
	}
	for id := range t.Jobs {
		if byJob[id] == "" {
			t.blame(FiredTwice, "job %s has the content of no item", id)
		}
	}
}

// weighCoolDown checks that the first attempts of the schedule's jobs are as far apart as the
// cool-down keeps them. A job's first request stands for its first attempt, unless a request of
// it never arrived, for example because its server died: then the request may be a later
// attempt's, which the cool-down does not delay, and the first attempt began when the service
// reports it.
func (t *recurringTrial) weighCoolDown(first map[string]time.Time, requests map[string]int) {
	if t.CoolDown == 0 {
		return
	}
	armed := make(map[string]time.Time)
	for _, row := range t.Ledger {
		subject := t.Prefix + row.Name
		if r, ok := t.Retried[row.JobID]; ok && r.Attempts > requests[subject] {
			armed[subject] = r.FirstArm
		}
	}
	var begun []time.Time
	for subject, at := range first {
		if !strings.HasPrefix(subject, t.Prefix) {
			continue
		}
		if arm, ok := armed[subject]; ok {
			at = arm
		}
		begun = append(begun, at)
	}
	slices.SortFunc(begun, time.Time.Compare)
	for i := 1; i < len(begun); i++ {
		if apart := begun[i].Sub(begun[i-1]); apart < t.CoolDown-t.Act-clockSlack {
			t.blame(Crowded, "two jobs began %v apart, with a cool-down of %v", apart.Round(time.Millisecond), t.CoolDown)
		}
	}
}
