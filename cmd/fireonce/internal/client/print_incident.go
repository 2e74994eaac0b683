package client

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// Rules of this file: what a person decides by is in sentences, with the jobs by their keys. A number
// that is only a lower bound has a plus.

// incidents shows each incident in a few lines.
func (p *printer) incidents(resp *adminv1.ListIncidentsResponse) {
	if len(resp.GetIncidents()) == 0 {
		p.line("No incidents.")
		return
	}
	for i, in := range resp.GetIncidents() {
		if i > 0 {
			p.line("")
		}
		p.heading(in.GetIncidentId() + "  " + incidentHead(in))
		at := ""
		if in.GetDestination() != "" {
			at = "at " + plain(in.GetDestination()) + " "
		}
		p.line("  %sof connection %s", at, plain(connectionName(in)))
		p.line("  since %s%s%s", stamp(in.GetBeginTime()), away(in.GetBeginTime()), incidentNext(in))
		p.line("  keys: %s", keysShown(in))
	}
	p.line("")
	if more := int(resp.GetIncidentCount()) - len(resp.GetIncidents()); more > 0 {
		p.line("There are %d smaller ones: --max-incidents %d", more, resp.GetIncidentCount())
	}
	if resp.GetIncomplete() {
		p.line("Not all jobs were read: numbers with a plus are lower bounds.")
	}
	p.line("To understand one: fireonce incidents get %s", resp.GetIncidents()[0].GetIncidentId())
}

// incidentHead says in a sentence what an incident is.
func incidentHead(in *adminv1.Incident) string {
	jobs := incidentJobs(in)
	one := in.GetJobCount() == 1
	what := map[adminv1.IncidentKind]string{
		adminv1.IncidentKind_INCIDENT_KIND_UNKNOWN: "may have been sent, and there is no proof",
		adminv1.IncidentKind_INCIDENT_KIND_FAILED:  "failed",
		adminv1.IncidentKind_INCIDENT_KIND_HELD:    either(one, "is due, and held", "are due, and held"),
		adminv1.IncidentKind_INCIDENT_KIND_LATE:    either(one, "is late", "are late"),
	}[in.GetKind()]
	return fmt.Sprintf("%s: %s %s: %s", word(in.GetKind()), jobs, cmp.Or(what, "need a person"), plain(in.GetCause().GetSummary()))
}

func either(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

func incidentJobs(in *adminv1.Incident) string {
	if in.GetIncomplete() {
		return strconv.Itoa(int(in.GetJobCount())) + "+ jobs"
	}
	return many(in.GetJobCount(), "job")
}

// incidentNext is what happens next without a person.
func incidentNext(in *adminv1.Incident) string {
	switch in.GetKind() {
	case adminv1.IncidentKind_INCIDENT_KIND_UNKNOWN:
		return "; " + nextLook(in)
	case adminv1.IncidentKind_INCIDENT_KIND_HELD:
		if end := in.GetHoldEndTime(); end != nil {
			return "; held until " + stamp(end) + away(end)
		}
		return "; held until somebody acts"
	default:
		return ""
	}
}

func nextLook(in *adminv1.Incident) string {
	if next := in.GetNextLookTime(); next != nil {
		return "the next look or repeat is at " + stamp(next) + away(next)
	}
	return "no look will come, only a decision settles it"
}

func keysShown(in *adminv1.Incident) string {
	var keys []string
	for _, e := range in.GetExamples() {
		keys = append(keys, plain(cmp.Or(e.GetIdempotencyKey(), e.GetJobId())))
	}
	text := strings.Join(keys, ", ")
	if more := int(in.GetJobCount()) - len(keys); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// incident explains one incident.
func (p *printer) incident(in *adminv1.Incident) {
	p.heading(incidentHead(in))
	p.line("")
	p.incidentFacts(in)
	p.line("")
	rows := [][]string{{"KEY", "STATE", "SINCE", "LAST ERROR"}}
	for _, e := range in.GetExamples() {
		rows = append(rows, []string{
			cmp.Or(e.GetIdempotencyKey(), e.GetJobId()), stateName(e.GetState()), stamp(e.GetBeginTime()), short(e.GetLastError().GetMessage(), 80),
		})
	}
	p.table(rows)
	if more := int(in.GetJobCount()) - len(in.GetExamples()); more > 0 {
		p.line("and %d more", more)
	}
	p.line("")
	p.line("%s", plain(in.GetAdvice()))
	p.risks(in.GetRisks())
	switch in.GetKind() {
	case adminv1.IncidentKind_INCIDENT_KIND_UNKNOWN:
		p.line("\nTo decide: fireonce incidents resolve %s --decision DECISION --note TEXT", in.GetIncidentId())
	case adminv1.IncidentKind_INCIDENT_KIND_FAILED:
		p.line("\nTo try again: fireonce incidents redeliver %s --pace 200ms", in.GetIncidentId())
	default:
	}
}

// incidentFacts shows what is known of all jobs of an incident.
func (p *printer) incidentFacts(in *adminv1.Incident) {
	var parts []string
	part := func(count int32, name string) {
		number := strconv.Itoa(int(count))
		if count == in.GetJobCount() && count > 1 {
			number = "all"
		}
		parts = append(parts, number+" "+name)
	}
	for _, n := range in.GetStateCounts() {
		part(n.GetJobCount(), stateName(n.GetState()))
	}
	for _, n := range in.GetClassCounts() {
		part(n.GetJobCount(), word(n.GetEffectClass()))
	}
	since, next := stamp(in.GetBeginTime())+away(in.GetBeginTime()), ""
	if last := in.GetLastTime(); last != nil && in.GetJobCount() > 1 {
		since += ", the last one at " + stamp(last)
	}
	if in.GetKind() == adminv1.IncidentKind_INCIDENT_KIND_UNKNOWN {
		next = nextLook(in)
	}
	p.fields(
		"Incident", in.GetIncidentId(),
		"Connection", plain(connectionName(in))+" ("+plain(in.GetConnector())+")",
		"Destination", plain(in.GetDestination()),
		"Since", since,
		"Jobs", incidentJobs(in)+": "+strings.Join(parts, ", "),
		"Looks saw", looksSaw(in.GetLooks()),
		"Last look", stamp(in.GetLooks().GetLastLookTime()),
		"Next", next,
		"Held since", stamp(in.GetHoldBeginTime()),
		"Held until", stamp(in.GetHoldEndTime()),
	)
}

// looksSaw is what the looks saw, and of how many jobs.
func looksSaw(looks *adminv1.IncidentLooks) string {
	var saw []string
	for _, n := range []struct {
		count int32
		words string
	}{
		{looks.GetNoneCount(), "no look at %s was made, or is possible"}, {looks.GetInconclusiveCount(), "no look at %s could be completed"},
		{looks.GetAbsentCount(), "nothing of %s was found"}, {looks.GetCandidatesCount(), "several candidates for %s"},
		{looks.GetPresentCount(), "an object or a handle of %s"},
	} {
		if n.count > 0 {
			saw = append(saw, fmt.Sprintf(n.words, many(n.count, "job")))
		}
	}
	return strings.Join(saw, "; ")
}

// risks shows what each decision does, and what if it is wrong.
func (p *printer) risks(list []*adminv1.DecisionRisk) {
	if len(list) == 0 {
		return
	}
	classes := make(map[fireoncev1.EffectClass]bool)
	for _, r := range list {
		classes[r.GetEffectClass()] = true
	}
	p.line("")
	p.heading("What a decision does")
	for _, r := range list {
		of := ""
		if len(classes) > 1 {
			of = " (" + word(r.GetEffectClass()) + ")"
		}
		p.line("  %-9s %s.%s", decisionWord(r.GetDecision())+of, plain(r.GetSummary()), leavesOut(r))
	}
}

func leavesOut(r *adminv1.DecisionRisk) string {
	if n := r.GetLeftOutCount(); n > 0 {
		return " It leaves out " + many(n, "job") + "."
	}
	return ""
}

// decisionWord is a decision as --decision takes it.
func decisionWord(d fireoncev1.Resolution_Decision) string {
	if d == fireoncev1.Resolution_DECISION_UNSPECIFIED {
		return "redeliver"
	}
	return strings.ReplaceAll(strings.ToLower(word(d)), "_", "-")
}

// decided shows what a plan decides about, and what the decision risks.
func (p *printer) decided(in *adminv1.Incident, decision fireoncev1.Resolution_Decision) {
	p.heading(incidentHead(in))
	p.incidentFacts(in)
	var risks []*adminv1.DecisionRisk
	for _, r := range in.GetRisks() {
		if r.GetDecision() == decision {
			risks = append(risks, r)
		}
	}
	p.risks(risks)
	p.line("")
}

// plan shows a plan that was not started.
func (p *printer) plan(plan *adminv1.Plan, verb string) {
	for _, j := range plan.GetPlannedExamples() {
		p.line("  would change: %s", plain(cmp.Or(j.GetIdempotencyKey(), j.GetJobId())))
	}
	if more := int(plan.GetPlannedCount()) - len(plan.GetPlannedExamples()); more > 0 && len(plan.GetPlannedExamples()) > 0 {
		p.line("  and %d more", more)
	}
	out := int(plan.GetJobCount() - plan.GetPlannedCount())
	for _, j := range plan.GetLeftOutExamples() {
		p.line("  left out: %s: %s", plain(cmp.Or(j.GetIdempotencyKey(), j.GetJobId())), outcomeWords(j))
	}
	if more := out - len(plan.GetLeftOutExamples()); more > 0 && len(plan.GetLeftOutExamples()) > 0 {
		p.line("  and %d more are left out", more)
	}
	if plan.GetIncomplete() {
		p.line("More jobs are concerned than one plan can have: plan again when this one is done.")
	}
	p.line("%d of %d jobs would change, %d are left out: fireonce incidents plans %s lists them all.", plan.GetPlannedCount(), plan.GetJobCount(), out, plan.GetPlanId())
	if plan.GetPlannedCount() > 0 {
		p.line("Nothing was changed; to do it: fireonce incidents %s --confirm %s", verb, plan.GetPlanId())
	}
}

func (p *printer) planDone(plan *adminv1.Plan) {
	p.line("%d of %d jobs changed.", plan.GetChangedCount(), plan.GetPlannedCount())
	if plan.GetLeftOutCount() > 0 {
		p.line("Left out after all, because they have changed since or do not allow it: %d; see: fireonce incidents plans %s", plan.GetLeftOutCount(), plan.GetPlanId())
	}
}

// outcomeWords say what becomes of a job of a plan.
func outcomeWords(j *adminv1.PlanJob) string {
	switch j.GetOutcome() {
	case adminv1.PlanOutcome_PLAN_OUTCOME_PLANNED:
		return "to be changed"
	case adminv1.PlanOutcome_PLAN_OUTCOME_CHANGED:
		return "changed"
	case adminv1.PlanOutcome_PLAN_OUTCOME_STALE:
		return "it has changed since"
	case adminv1.PlanOutcome_PLAN_OUTCOME_GONE:
		return "it is no longer stored"
	case adminv1.PlanOutcome_PLAN_OUTCOME_REFUSED:
		return "it does not allow it: " + word(j.GetErrorReason())
	case adminv1.PlanOutcome_PLAN_OUTCOME_CANDIDATES:
		return "looks saw several candidates: decide it alone"
	case adminv1.PlanOutcome_PLAN_OUTCOME_CONTRARY:
		return "what was seen speaks against it: decide it alone"
	case adminv1.PlanOutcome_PLAN_OUTCOME_LOOKING:
		return "it is still being looked for"
	case adminv1.PlanOutcome_PLAN_OUTCOME_UNPROVEN:
		return "an attempt was closed without a proof: it may have been sent"
	case adminv1.PlanOutcome_PLAN_OUTCOME_STOPPED:
		return "the plan stopped before its turn: the API key that started it was revoked, or expired"
	default:
		return word(j.GetOutcome())
	}
}

// unproven lists the jobs that count as sent without a proof.
func (p *printer) unproven(resp *adminv1.RedeliverJobsResponse) {
	p.line("")
	least := ""
	if resp.GetUnprovenIncomplete() {
		least = " or more"
	}
	p.line("Jobs there that count as SUCCEEDED without a proof, by a ruling or their delivery: %d%s. They may be missing, and stay as they are.",
		resp.GetUnprovenCount(), least)
	for _, e := range resp.GetUnprovenExamples() {
		p.line("  %s", plain(cmp.Or(e.GetIdempotencyKey(), e.GetJobId())))
	}
	if more := int(resp.GetUnprovenCount()) - len(resp.GetUnprovenExamples()); more > 0 {
		p.line("  and %d more", more)
	}
}

func (p *printer) plans(list []*adminv1.Plan) {
	rows := [][]string{{"PLAN", "STATE", "DECISION", "INCIDENT", "JOBS", "CHANGED", "LEFT OUT", "MADE", "STARTED", "ENDED", "BY", "NOTE"}}
	for _, plan := range list {
		rows = append(rows, []string{
			plan.GetPlanId(), word(plan.GetState()), decisionWord(plan.GetDecision()), plan.GetIncidentId(), strconv.Itoa(int(plan.GetPlannedCount())),
			strconv.Itoa(int(plan.GetChangedCount())), strconv.Itoa(int(plan.GetLeftOutCount() + plan.GetJobCount() - plan.GetPlannedCount())),
			stamp(plan.GetCreateTime()), stamp(plan.GetStartTime()), stamp(plan.GetEndTime()), cmp.Or(plan.GetStartActor(), plan.GetCreateActor()),
			short(plan.GetNote(), 40),
		})
	}
	p.table(rows)
}

// incidentLine names a job's incident, and how to see it.
func incidentLine(id string) string {
	if id == "" {
		return ""
	}
	return plain(id) + ": see fireonce incidents get " + plain(id)
}
