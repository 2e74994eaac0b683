package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
)

func (p *printer) schedule(s *schedulesv1.Schedule) {
	terms := s.GetPolicies()
	p.fields(
		"Key", s.GetIdempotencyKey(),
		"Name", s.GetDisplayName(),
		"Labels", labelsLine(s.GetLabels()),
		"State", word(s.GetState()),
		"Cause", word(s.GetPauseCause()),
		"Note", s.GetNote(),
		"Times", specLine(s.GetSpec()),
		"Zone", s.GetSpec().GetTimeZone(),
		"Except", exclusionsLine(s.GetSpec().GetExclusions()),
		"From", stamp(s.GetSpec().GetStartTime()),
		"Until", stamp(s.GetSpec().GetEndTime()),
		"Connection", connectionName(s),
		"Content", contentSource(s.GetJobTemplate()),
		"Callback", s.GetJobTemplate().GetCallback(),
		"Overlap", word(terms.GetOverlap())+unlessSame(terms),
		"Catch up", word(terms.GetCatchUp())+within(terms.GetCatchUpWindow()),
		"Next", stamp(s.GetNextFireTime())+away(s.GetNextFireTime()),
		"Waits", waits(s.GetBufferedFiring()),
		"Skipped", strings.Join(s.GetSkippedNames(), " "),
		"So far", countsLine(s.GetCounts()),
		"Created", stamp(s.GetCreateTime()),
		"Schedule", s.GetScheduleId(),
		"Etag", s.GetEtag(),
	)
}

// contentSource returns where a schedule's content comes from; empty: from the schedule itself.
func contentSource(t *schedulesv1.JobTemplate) string {
	if t.GetQueue() != nil {
		return "from its queue: see fireonce schedules items"
	}
	return ""
}

func unlessSame(p *schedulesv1.SchedulePolicies) string {
	if p.GetOverlap() == p.GetWhileUnresolved() {
		return ""
	}
	return ", while an outcome is unknown " + word(p.GetWhileUnresolved())
}

func within(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return ", within " + duration.Format(d.AsDuration())
}

// ruleWords describe the rules that a spec and its exclusions may have.
func ruleWords(of interface {
	GetCronExpressions() []string
	GetRecurrenceRules() []*schedulesv1.RecurrenceRule
}) (out []string) {
	for _, c := range of.GetCronExpressions() {
		out = append(out, "cron "+c)
	}
	for _, r := range of.GetRecurrenceRules() {
		out = append(out, r.GetRule()+" from "+r.GetStart())
	}
	return out
}

func specLine(s *schedulesv1.ScheduleSpec) string {
	out := ruleWords(s)
	for _, i := range s.GetIntervals() {
		out = append(out, "every "+duration.Format(i.GetEvery().AsDuration()))
	}
	if n := s.GetMaxFirings(); n > 0 {
		out = append(out, "at most "+strconv.FormatInt(n, 10))
	}
	if d := s.GetJitter().AsDuration(); d > 0 {
		out = append(out, "jitter "+duration.Format(d))
	}
	return strings.Join(out, "; ")
}

func exclusionsLine(x *schedulesv1.ScheduleExclusions) string {
	out := ruleWords(x)
	for _, d := range x.GetDates() {
		days := d.GetFirst()
		if d.GetLast() != "" {
			days += ".." + d.GetLast()
		}
		out = append(out, days)
	}
	for _, c := range x.GetHolidayCalendars() {
		out = append(out, "holidays of "+c)
	}
	return strings.Join(out, "; ")
}

// countsLine omits counts of zero.
func countsLine(c *schedulesv1.FiringCounts) string {
	var out []string
	for _, one := range []struct {
		n    int64
		what string
	}{
		{c.GetFired(), "fired"}, {c.GetSkippedByOverlap(), "skipped by overlap"}, {c.GetSkippedByRequest(), "skipped by request"},
		{c.GetMissed(), "missed"}, {c.GetCoalesced(), "coalesced"}, {c.GetRefused(), "refused"}, {c.GetHeld(), "held"},
		{c.GetNoContent(), "without content"}, {c.GetSkippedByLimit(), "skipped by the day's limit"},
	} {
		if one.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	return strings.Join(out, ", ")
}

func (p *printer) schedules(list []*schedulesv1.Schedule) {
	rows := [][]string{{"KEY", "STATE", "CONNECTION", "TIMES", "ZONE", "NEXT", "SO FAR", "NAME", "SCHEDULE"}}
	for _, s := range list {
		rows = append(rows, []string{
			short(s.GetIdempotencyKey(), 40), word(s.GetState()), short(connectionName(s), 40), short(specLine(s.GetSpec()), 40),
			s.GetSpec().GetTimeZone(), stamp(s.GetNextFireTime()), countsLine(s.GetCounts()), short(s.GetDisplayName(), 30), s.GetScheduleId(),
		})
	}
	p.table(rows)
}

// section writes a heading above a table that does not stand alone.
func (p *printer) section(heading string) {
	if heading != "" {
		p.line("")
		p.heading(heading)
	}
}

// waits returns what a buffered firing waits for.
func waits(f *fireoncev1.Firing) string {
	if f.GetBlockingJobId() == "" {
		return f.GetName()
	}
	return f.GetName() + ", for job " + f.GetBlockingJobId() + ". " + f.GetReason()
}

// planned shows local times in the schedule's zone, as its user wrote them.
func (p *printer) planned(heading string, list []*schedulesv1.PlannedFiring) {
	if len(list) == 0 {
		return
	}
	p.section(heading)
	rows := [][]string{{"NAME", "LOCAL TIME", "STARTS", "NOT AFTER", "MARK", ""}}
	if slices.ContainsFunc(list, func(f *schedulesv1.PlannedFiring) bool { return f.GetItemId() != "" }) {
		rows[0][5] = "ITEM"
	}
	for _, f := range list {
		mark := word(f.GetMark())
		if f.GetSkipped() {
			mark = strings.TrimSpace(mark + " SKIPPED")
		}
		rows = append(rows, []string{f.GetName(), f.GetLocalTime(), stamp(f.GetFireTime()), stamp(f.GetStartDeadline()), mark, f.GetItemId()})
	}
	if !slices.ContainsFunc(list, func(f *schedulesv1.PlannedFiring) bool { return f.GetStartDeadline() != nil }) {
		for i, row := range rows {
			rows[i] = slices.Delete(row, 3, 4)
		}
	}
	p.table(rows)
}

func (p *printer) firings(heading string, list []*fireoncev1.Firing) {
	if len(list) == 0 {
		return
	}
	p.section(heading)
	rows := [][]string{{"NAME", "LOCAL TIME", "OUTCOME", "DECIDED", "NOTE", "JOB"}}
	for _, f := range list {
		note := f.GetReason()
		if origin := f.GetOrigin(); origin != fireoncev1.FiringOrigin_FIRING_ORIGIN_TIME {
			note = strings.TrimSpace(word(origin) + " " + note)
		}
		rows = append(rows, []string{
			f.GetName(), f.GetLocalTime(), word(f.GetOutcome()), stamp(f.GetDecideTime()), short(note, 60), f.GetJobId(),
		})
	}
	p.table(rows)
}
