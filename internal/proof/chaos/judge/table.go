package judge

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
)

// sum orders the rows and adds them up.
func (t *trial) sum() {
	t.report.Total.Class = "total"
	for _, class := range slices.Sorted(maps.Keys(t.rows)) {
		r := *t.rows[class]
		t.report.Rows = append(t.report.Rows, r)
		t.report.Total.Add(r)
	}
}

// Add counts another row's jobs too.
func (r *Row) Add(other Row) {
	r.Jobs += other.Jobs
	r.Unanswered += other.Unanswered
	r.Requests += other.Requests
	r.Faulted += other.Faulted
	r.Effects += other.Effects
	r.Duplicates += other.Duplicates
	r.Surplus += other.Surplus
	r.Resent += other.Resent
	r.Lost += other.Lost
	r.FalseSucceeded += other.FalseSucceeded
	r.WrongID += other.WrongID
	r.FalseFailed += other.FalseFailed
	r.Succeeded += other.Succeeded
	r.NoEffect += other.NoEffect
	r.Unknown += other.Unknown
	r.UnknownEffect += other.UnknownEffect
	r.Assumed += other.Assumed
	r.AssumedEffect += other.AssumedEffect
	r.Violations += other.Violations
}

// Table prints reports for a person: a row for each class, the violations with
// their stories, and what a zero is worth.
func Table(w io.Writer, reports ...*Report) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "\tclass\tjobs\trequests\tfaulted\teffects\tduplicates\tlost\tfalse SUCCEEDED (id)\tfalse FAILED\tSUCCEEDED\tno effect\tunknown (effect)\tassumed (effect)\tresent\tviolations\tbound 95 %\t")
	total := Row{Class: "total"}
	sound := true
	for _, r := range reports {
		for _, row := range r.Rows {
			row.print(out, r.Name)
		}
		total.Add(r.Total)
		sound = sound && r.OK()
	}
	total.print(out, "all")
	if err := out.Flush(); err != nil {
		return err
	}
	if n := Bounded(reports...); sound && n > 0 {
		fmt.Fprintf(w, "No violation in %d jobs. %d of them must not take effect twice: with 95 %% confidence fewer than 1 in %.0f does.\n",
			total.Jobs, n, 1/Bound95(n))
	}
	for _, r := range reports {
		for _, why := range r.Undone {
			fmt.Fprintf(w, "\n%s: too much is undone: %s\n", r.Name, why)
		}
		for _, v := range r.Violations {
			fmt.Fprintf(w, "\n%s: %s: %s: %s\n", r.Name, v.Kind, v.Subject, v.Detail)
			for _, line := range v.Story {
				fmt.Fprintf(w, "    %s\n", line)
			}
		}
		for _, k := range Kinds {
			if n := r.Kinds[k]; n > 0 {
				fmt.Fprintf(w, "%s: %d × %s\n", r.Name, n, k)
			}
		}
	}
	return nil
}

func (r Row) print(w io.Writer, name string) {
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d (%d)\t%d\t%d\t%d\t%d (%d)\t%d (%d)\t%d\t%d\t%s\t\n", name, r.Class, r.Jobs, r.Requests, r.Faulted, r.Effects,
		r.Duplicates, r.Lost, r.FalseSucceeded, r.WrongID, r.FalseFailed, r.Succeeded, r.NoEffect, r.Unknown, r.UnknownEffect, r.Assumed, r.AssumedEffect, r.Resent, r.Violations, r.bound())
}

// bound returns what a row's zeros are worth; "-": it has something else.
func (r Row) bound() string {
	if r.Violations > 0 || r.Jobs == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1e", Bound95(r.Jobs))
}

// Result is a campaign's result for programs.
type Result struct {
	OK      bool      `json:"ok"`
	Seed    uint64    `json:"seed"`
	Seconds float64   `json:"seconds"`
	Reports []*Report `json:"reports"`
	// Jobs and Effects are those of all reports. Bound95 is the bound of the rate of
	// duplicates, by the jobs that must not have one; 1 where there are violations.
	Jobs    int     `json:"jobs"`
	Effects int     `json:"effects"`
	Bound95 float64 `json:"bound_95"`
	// Asked are the jobs that were to be submitted, Calls what clients needed for those
	// that were, and Repeats those calls that repeated one without an answer.
	Asked   int `json:"asked"`
	Calls   int `json:"calls"`
	Repeats int `json:"repeats"`
	// FaultsPlanned are process faults; ProcessFaults and the platform's are those that
	// were delivered to the service. LostCommits are answers to COMMIT that were
	// swallowed, by what the transaction was for.
	FaultsPlanned  int                    `json:"faults_planned"`
	ProcessFaults  map[string]int         `json:"process_faults"`
	LostCommits    map[string]int         `json:"lost_commits"`
	PlatformFaults map[platform.Fault]int `json:"platform_faults"`
	LookFaults     map[platform.Fault]int `json:"look_faults"`
	// Controls are clients that must be seen to duplicate.
	Controls map[string]Tally `json:"controls,omitempty"`
	// Recurring is what was found of schedules, in the order of Reports.
	Recurring []*RecurringReport `json:"recurring,omitempty"`
	// Told is what was found of subscriptions, in the same order.
	Told []*ToldReport `json:"told,omitempty"`
	// Wrong is why the campaign has failed, Ends which servers ended by themselves.
	Wrong []string `json:"wrong,omitempty"`
	Ends  []string `json:"ends,omitempty"`
}

// Line returns a result as the last line of a campaign's output.
func Line(r Result) (string, error) {
	violations := 0
	r.Jobs, r.Effects, r.Bound95 = 0, 0, 1
	for _, report := range r.Reports {
		r.Jobs += report.Total.Jobs
		r.Effects += report.Total.Effects
		violations += report.Total.Violations
	}
	if violations == 0 {
		r.Bound95 = Bound95(Bounded(r.Reports...))
	}
	text, err := json.Marshal(r)
	return "CHAOS RESULT " + string(text), err
}

// Tally counts what happened, for every client.
type Tally struct {
	Subjects   int `json:"subjects"` // with a request
	Requests   int `json:"requests"`
	Effects    int `json:"effects"`
	Duplicates int `json:"duplicates"` // subjects with more than one effect
}

// Count counts the subjects in a log that are wanted.
func Count(log iter.Seq2[platform.Record, error], want func(subject string) bool) (Tally, error) {
	var t Tally
	effects := make(map[string]int)
	for r, err := range log {
		if err != nil {
			return Tally{}, err
		}
		if r.Type == platform.TypeLook || !want(r.Subject) {
			continue
		}
		n, known := effects[r.Subject]
		if !known {
			t.Subjects++
		}
		if r.Type == platform.TypeRequest {
			t.Requests++
			effects[r.Subject] = n
			continue
		}
		t.Effects++
		if n == 1 {
			t.Duplicates++
		}
		effects[r.Subject] = n + 1
	}
	return t, nil
}
