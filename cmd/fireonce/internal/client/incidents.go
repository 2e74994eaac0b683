package client

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a decision has two steps. Without --confirm a command shows the plan: which jobs,
// by their keys, and which it leaves out and why. With --confirm and the plan's id it does exactly that,
// and waits until the servers are done.

// planPoll is how often a plan that is under way is asked for.
const planPoll = time.Second

func incidentsCommand() *cli.Command {
	type service = adminv1connect.IncidentServiceClient
	list := func(name, usage string) *cli.Command {
		return on("", "kinds connection:KEY=connection_key since=end_time_from max_incidents", service.ListIncidents,
			func(c *call, resp *adminv1.ListIncidentsResponse) { c.out.incidents(resp) }, &cli.Command{Name: name, Usage: usage})
	}
	decide := fieldsOf(&adminv1.ResolveIncidentRequest{}, "decision note:TEXT=note override_reconciler")
	redeliver := fieldsOf(&adminv1.RedeliverJobsRequest{}, "connection:KEY=connection_key destination since=end_time_from pace note:TEXT=note")
	group := list("incidents", "show what needs a person, as one incident in place of many jobs, and decide it once")
	group.Description = "An incident is the jobs that are unknown, failed, held or late for one first cause at one destination.\n" +
		"`fireonce incidents` lists them, `fireonce incidents get` explains one, and `fireonce incidents resolve` or\n" +
		"`fireonce incidents redeliver` decides it."
	group.Commands = []*cli.Command{
		list("list", "list the incidents, the largest first"),
		asks("", fieldsOf(&adminv1.GetIncidentRequest{}, "since=end_time_from"), &cli.Command{
			Name: "get", Usage: "explain an incident: its cause, its keys, what looks saw, and what each decision risks", ArgsUsage: "INCIDENT",
		}, getIncident),
		asks("", decide.and(fieldsOf(&adminv1.ResolveIncidentRequest{}, confirm)), &cli.Command{
			Name: "resolve", Usage: "decide about all jobs of an incident whose outcome is unknown", ArgsUsage: "[INCIDENT]",
			Description: "Without --confirm nothing changes: it lists the jobs by their keys, and those that it leaves out, and prints\n" +
				"what to confirm. Each job is then judged alone; one that has changed since is left out. What the decisions\n" +
				"mean is in `fireonce resolve --help`, and what they risk in `fireonce incidents get INCIDENT`.",
		}, func(ctx context.Context, c *call, req *adminv1.ResolveIncidentRequest) error {
			req.IncidentId = c.cmd.Args().First()
			switch missing := c.cmd.Args().Len() != 1 || req.GetDecision() == 0 || req.GetNote() == ""; {
			case req.GetPlanId() != "" && (c.cmd.Args().Present() || decide.given(c.cmd)):
				return exit.Usagef("--confirm goes alone: the plan has the incident, the decision and the note")
			case req.GetPlanId() == "" && missing:
				return exit.Usagef("name one incident, a --decision and a --note")
			}
			resp, err := Ask(ctx, c.Incidents.ResolveIncident, req)
			return c.planned(ctx, resp, resp.GetPlan(), err, "resolve")
		}),
		asks("", redeliver.and(fieldsOf(&adminv1.RedeliverJobsRequest{}, confirm)), &cli.Command{
			Name: "redeliver", Usage: "try again what failed, under the same keys", ArgsUsage: "[INCIDENT ...]",
			Description: "Of incidents, or with --connection of all that failed there. Without --confirm nothing changes: it lists the\n" +
				"jobs, and apart from them those that were closed without a proof, which no retry touches.",
		}, func(ctx context.Context, c *call, req *adminv1.RedeliverJobsRequest) error {
			req.IncidentIds = c.cmd.Args().Slice()
			switch {
			case req.GetPlanId() != "" && (c.cmd.Args().Present() || redeliver.given(c.cmd)):
				return exit.Usagef("--confirm goes alone: the plan has the jobs and the pace")
			case req.GetPlanId() == "" && !c.cmd.Args().Present() && req.GetConnectionKey() == "":
				return exit.Usagef("name incidents, or a --connection")
			}
			return redeliverJobs(ctx, c, req)
		}),
		asks("", fieldsOf(&adminv1.ListPlanJobsRequest{}, "outcomes"), &cli.Command{
			Name: "plans", Usage: "list what was planned and decided, or the jobs of a plan and what became of them", ArgsUsage: "[PLAN]",
		}, showPlans),
	}
	return group
}

// confirm has the words of the flag that carries out a plan.
const confirm = "confirm:PLAN=plan_id"

// incidents shows a line for each incident. A count that is only a lower bound has a plus.
func (p *printer) incidents(resp *adminv1.ListIncidentsResponse) {
	if len(resp.GetIncidents()) == 0 {
		p.line("No incidents.")
		return
	}
	rows := [][]string{{"INCIDENT", "KIND", "JOBS", "SINCE", "CONNECTION", "DESTINATION", "CAUSE", "NEXT LOOK", "KEYS"}}
	for _, in := range resp.GetIncidents() {
		rows = append(rows, []string{
			in.GetIncidentId(), word(in.GetKind()), incidentJobs(in), stamp(in.GetBeginTime()), cmp.Or(ownKey(in.GetConnectionKey()), in.GetConnectionId()),
			short(in.GetDestination(), 40), short(in.GetCause().GetSummary(), 60), stamp(in.GetNextLookTime()), keysShown(in),
		})
	}
	p.table(rows)
	if more := int(resp.GetIncidentCount()) - len(resp.GetIncidents()); more > 0 {
		p.line("and %d smaller ones: --max-incidents %d", more, resp.GetIncidentCount())
	}
	if resp.GetIncomplete() {
		p.line("Not all jobs were read: numbers with a plus are lower bounds.")
	}
}

func incidentJobs(in *adminv1.Incident) string {
	text := strconv.Itoa(int(in.GetJobCount()))
	if in.GetIncomplete() {
		text += "+"
	}
	return text
}

func keysShown(in *adminv1.Incident) string {
	var keys []string
	for _, e := range in.GetExamples() {
		keys = append(keys, cmp.Or(e.GetIdempotencyKey(), e.GetJobId()))
	}
	text := strings.Join(keys, ", ")
	if int(in.GetJobCount()) > len(keys) {
		text += ", …"
	}
	return text
}

func getIncident(ctx context.Context, c *call, req *adminv1.GetIncidentRequest) error {
	if c.cmd.Args().Len() != 1 {
		return exit.Usagef("name one incident, as `fireonce incidents` prints it")
	}
	req.IncidentId = c.cmd.Args().First()
	return callAndPrint(ctx, c, c.Incidents.GetIncident, req, func(c *call, resp *adminv1.GetIncidentResponse) { c.out.incident(resp.GetIncident()) })
}

func (p *printer) incident(in *adminv1.Incident) {
	looks := in.GetLooks()
	var saw []string
	for _, n := range []struct {
		count int32
		words string
	}{
		{looks.GetNoneCount(), "never looked at"}, {looks.GetInconclusiveCount(), "not readable"}, {looks.GetAbsentCount(), "seen as absent"},
		{looks.GetCandidatesCount(), "with several candidates"}, {looks.GetPresentCount(), "with an object or a handle"},
	} {
		if n.count > 0 {
			saw = append(saw, fmt.Sprintf("%d %s", n.count, n.words))
		}
	}
	var states, classes []string
	for _, n := range in.GetStateCounts() {
		states = append(states, fmt.Sprintf("%d %s", n.GetJobCount(), stateName(n.GetState())))
	}
	for _, n := range in.GetClassCounts() {
		classes = append(classes, fmt.Sprintf("%d %s", n.GetJobCount(), word(n.GetEffectClass())))
	}
	p.fields(
		"Incident", in.GetIncidentId(),
		"Kind", word(in.GetKind()),
		"Cause", in.GetCause().GetSummary(),
		"Connection", cmp.Or(ownKey(in.GetConnectionKey()), in.GetConnectionId()),
		"Connector", in.GetConnector(),
		"Destination", in.GetDestination(),
		"Since", stamp(in.GetBeginTime()),
		"Last", stamp(in.GetLastTime()),
		"Jobs", incidentJobs(in)+": "+strings.Join(states, ", ")+"; "+strings.Join(classes, ", "),
		"Looks", strings.Join(saw, ", "),
		"Last look", stamp(looks.GetLastLookTime()),
		"Next look", stamp(in.GetNextLookTime()),
		"Held since", stamp(in.GetHoldBeginTime()),
		"Held until", stamp(in.GetHoldEndTime()),
	)
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
	p.risks(in)
	p.line("")
	p.line("%s", plain(in.GetAdvice()))
	switch in.GetKind() {
	case adminv1.IncidentKind_INCIDENT_KIND_UNKNOWN:
		p.line("To decide: fireonce incidents resolve %s --decision DECISION --note TEXT", in.GetIncidentId())
	case adminv1.IncidentKind_INCIDENT_KIND_FAILED:
		p.line("To try again: fireonce incidents redeliver %s --pace 200ms", in.GetIncidentId())
	default:
	}
}

// risks shows what each decision risks; classes that risk the same share a line.
func (p *printer) risks(in *adminv1.Incident) {
	if len(in.GetRisks()) == 0 {
		return
	}
	p.line("")
	rows := [][]string{{"DECISION", "CLASS", "RISK", "LEAVES OUT", "WHAT HAPPENS"}}
	for _, r := range in.GetRisks() {
		decision := strings.ReplaceAll(strings.ToLower(word(r.GetDecision())), "_", "-")
		if r.GetDecision() == fireoncev1.Resolution_DECISION_UNSPECIFIED {
			decision = "redeliver"
		}
		out := ""
		if r.GetLeftOutCount() > 0 {
			out = strconv.Itoa(int(r.GetLeftOutCount()))
		}
		rows = append(rows, []string{decision, word(r.GetEffectClass()), word(r.GetRisk()), out, r.GetSummary()})
	}
	p.table(rows)
}

func redeliverJobs(ctx context.Context, c *call, req *adminv1.RedeliverJobsRequest) error {
	resp, err := Ask(ctx, c.Incidents.RedeliverJobs, req)
	if err == nil && !c.out.json && (resp.GetUnprovenCount() > 0 || resp.GetUnprovenIncomplete()) {
		defer func() { c.out.unproven(resp) }()
	}
	return c.planned(ctx, resp, resp.GetPlan(), err, "redeliver")
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

// planned shows a plan that was made, or waits for the end of one that was started.
func (c *call) planned(ctx context.Context, resp message, plan *adminv1.Plan, err error, verb string) error {
	if err != nil {
		return err
	}
	started := c.cmd.IsSet("confirm")
	defer c.out.progress.Clear()
	for started && plan.GetState() == adminv1.PlanState_PLAN_STATE_RUNNING {
		c.out.progress.Show("%d of %d jobs changed", plan.GetChangedCount(), plan.GetPlannedCount())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(planPoll):
		}
		got, err := Ask(ctx, c.Incidents.GetPlan, &adminv1.GetPlanRequest{PlanId: plan.GetPlanId()})
		if err != nil {
			c.tell("the servers go on with plan %s; see: fireonce incidents plans %[1]s", plan.GetPlanId())
			return err
		}
		plan, resp = got.GetPlan(), got
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.progress.Clear()
	if started {
		c.out.planDone(plan)
		return nil
	}
	c.out.plan(plan, verb)
	return nil
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
	default:
		return word(j.GetOutcome())
	}
}

func showPlans(ctx context.Context, c *call, req *adminv1.ListPlanJobsRequest) error {
	if !c.cmd.Args().Present() {
		return callAndPrint(ctx, c, c.Incidents.ListPlans, &adminv1.ListPlansRequest{}, func(c *call, resp *adminv1.ListPlansResponse) { c.out.plans(resp.GetPlans()) })
	}
	req.PlanId = c.cmd.Args().First()
	rows := [][]string{{"KEY", "OUTCOME"}}
	for resp, err := range Pages(ctx, c.Incidents.ListPlanJobs, req) {
		if err != nil {
			return err
		}
		if c.out.json {
			if err := c.out.compact(resp); err != nil {
				return err
			}
			continue
		}
		for _, j := range resp.GetJobs() {
			rows = append(rows, []string{cmp.Or(j.GetIdempotencyKey(), j.GetJobId()), outcomeWords(j)})
		}
	}
	if !c.out.json {
		c.out.table(rows)
	}
	return nil
}

func (p *printer) plans(list []*adminv1.Plan) {
	rows := [][]string{{"PLAN", "STATE", "DECISION", "INCIDENT", "JOBS", "CHANGED", "LEFT OUT", "MADE", "STARTED", "ENDED", "BY", "NOTE"}}
	for _, plan := range list {
		decision := strings.ReplaceAll(strings.ToLower(word(plan.GetDecision())), "_", "-")
		if plan.GetDecision() == fireoncev1.Resolution_DECISION_UNSPECIFIED {
			decision = "redeliver"
		}
		rows = append(rows, []string{
			plan.GetPlanId(), word(plan.GetState()), decision, plan.GetIncidentId(), strconv.Itoa(int(plan.GetPlannedCount())),
			strconv.Itoa(int(plan.GetChangedCount())), strconv.Itoa(int(plan.GetLeftOutCount() + plan.GetJobCount() - plan.GetPlannedCount())),
			stamp(plan.GetCreateTime()), stamp(plan.GetStartTime()), stamp(plan.GetEndTime()), cmp.Or(plan.GetStartActor(), plan.GetCreateActor()),
			short(plan.GetNote(), 40),
		})
	}
	p.table(rows)
}
