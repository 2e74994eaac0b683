package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/submit"
)

// A SpecError lists all faults of a spec or a template. It is never empty.
type SpecError []Violation

// A Violation is one fault of a schedule.
type Violation struct {
	// Field is its path in the message that was checked.
	Field string
	// Message describes the fault to a user.
	Message string
}

func (e SpecError) Error() string {
	texts := make([]string, len(e))
	for i, v := range e {
		texts[i] = strings.TrimPrefix(v.Field+": "+v.Message, ": ")
	}
	return strings.Join(texts, "; ")
}

// Compile compiles a spec. It fails with a SpecError, whose paths begin in the spec.
func Compile(id job.ID, generation int64, spec *schedulesv1.ScheduleSpec, zones *recur.Zones) (*recur.Schedule, error) {
	return compile(id, generation, spec, zones, nil)
}

// CompileFor is Compile for a request: it counts its steps in the context's recur.Meter, and fails
// with the meter's error.
func CompileFor(ctx context.Context, id job.ID, generation int64, spec *schedulesv1.ScheduleSpec, zones *recur.Zones) (*recur.Schedule, error) {
	return compile(id, generation, spec, zones, recur.MeterOf(ctx))
}

func compile(id job.ID, generation int64, spec *schedulesv1.ScheduleSpec, zones *recur.Zones, m *recur.Meter) (*recur.Schedule, error) {
	in, err := specOf(id, generation, spec)
	if err != nil {
		return nil, err
	}
	times, err := recur.CompileCounted(in, zones, m)
	var wrong recur.Errors
	if !errors.As(err, &wrong) {
		return times, err
	}
	var out SpecError
	for _, one := range wrong {
		out = append(out, Violation{Field: pathOf(one), Message: one.Reason})
	}
	return nil, out
}

func specOf(id job.ID, generation int64, spec *schedulesv1.ScheduleSpec) (recur.Spec, error) {
	out := recur.Spec{
		ID: id.String(), Generation: generation, Zone: spec.GetTimeZone(), Cron: spec.GetCronExpressions(),
		RRules: rulesOf(spec.GetRecurrenceRules()), Jitter: submit.Duration(spec.GetJitter()), MaxRuns: spec.GetMaxFirings(),
		Exclude: recur.Exclusions{
			Cron: spec.GetExclusions().GetCronExpressions(), RRules: rulesOf(spec.GetExclusions().GetRecurrenceRules()),
			Calendars: spec.GetExclusions().GetHolidayCalendars(),
		},
	}
	for _, d := range spec.GetExclusions().GetDates() {
		days := d.GetFirst()
		if last := d.GetLast(); last != "" {
			days += ".." + last
		}
		out.Exclude.Dates = append(out.Exclude.Dates, days)
	}
	for _, i := range spec.GetIntervals() {
		out.Intervals = append(out.Intervals, recur.Interval{Every: i.GetEvery().AsDuration(), Phase: i.GetPhase().AsDuration()})
	}
	var err error
	if out.Start, err = instant("start_time", spec.GetStartTime()); err != nil {
		return out, err
	}
	out.End, err = instant("end_time", spec.GetEndTime())
	return out, err
}

func instant(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, SpecError{{Field: field, Message: "must be a time from year 1 to 9999"}}
	}
	return t.AsTime(), nil
}

func rulesOf(rules []*schedulesv1.RecurrenceRule) []recur.RRule {
	var out []recur.RRule
	for _, r := range rules {
		out = append(out, recur.RRule{Rule: r.GetRule(), Start: r.GetStart()})
	}
	return out
}

// contractNames maps fields of a recur.Spec to the contract's names.
var contractNames = map[string]string{
	"zone": "time_zone", "cron": "cron_expressions", "rrules": "recurrence_rules", "intervals": "intervals",
	"exclude": "exclusions", "dates": "dates", "calendars": "holiday_calendars", "start": "start_time", "end": "end_time",
	"jitter": "jitter", "max_runs": "max_firings",
}

// parts are the parts of an element that are fields in the contract's messages too.
var parts = map[string]bool{"every": true, "phase": true, "start": true}

// SourcePath converts a path in a recur.Spec to a path in the contract's spec. Empty: the spec
// as a whole.
func SourcePath(path string) string {
	var out []string
	for part := range strings.SplitSeq(path, ".") {
		name, index, indexed := strings.Cut(part, "[")
		if name = contractNames[name]; name == "" {
			break
		}
		if indexed {
			name += "[" + index
		}
		out = append(out, name)
	}
	return strings.Join(out, ".")
}

func pathOf(e *recur.Error) string {
	path := SourcePath(e.Path)
	switch last := e.Path[strings.LastIndexByte(e.Path, '.')+1:]; {
	case parts[e.Field]:
		path += "." + e.Field
	case strings.HasPrefix(last, "rrules["):
		path += ".rule"
	}
	return path
}

// PoliciesOf returns a schedule's policies. Defaults are not filled in.
func PoliciesOf(p *schedulesv1.SchedulePolicies, spec *schedulesv1.ScheduleSpec) firing.Policies {
	return firing.Policies{
		Overlap: firing.Overlap(p.GetOverlap()), WhileUnresolved: firing.Overlap(p.GetWhileUnresolved()),
		CatchUp: firing.CatchUp(p.GetCatchUp()), CatchUpWindow: submit.Duration(p.GetCatchUpWindow()),
		PauseAfterFailures: int(p.GetPauseAfterFailures()), PauseOnAuthHold: p.GetPauseOnAuthHold(),
		MaxFirings: spec.GetMaxFirings(), MaxPerDay: int64(p.GetMaxPerDay()),
	}
}

// An UnreadableError is returned for a stored schedule that cannot be evaluated, for example
// because its zone is no longer known.
type UnreadableError struct {
	// What is the part that cannot be read: "times", "spec", …
	What string
	Err  error
}

func (e *UnreadableError) Error() string { return fmt.Sprintf("the stored %s: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

func errDamaged(what string, err error) error { return &UnreadableError{what, err} }
