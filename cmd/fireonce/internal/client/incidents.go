package client

import (
	"cmp"
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"

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
			if err == nil && !c.out.json && resp.GetIncident() != nil {
				c.out.decided(resp.GetIncident(), req.GetDecision())
			}
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

func getIncident(ctx context.Context, c *call, req *adminv1.GetIncidentRequest) error {
	if c.cmd.Args().Len() != 1 {
		return exit.Usagef("name one incident, as `fireonce incidents` prints it")
	}
	req.IncidentId = c.cmd.Args().First()
	return callAndPrint(ctx, c, c.Incidents.GetIncident, req, func(c *call, resp *adminv1.GetIncidentResponse) { c.out.incident(resp.GetIncident()) })
}

func redeliverJobs(ctx context.Context, c *call, req *adminv1.RedeliverJobsRequest) error {
	resp, err := Ask(ctx, c.Incidents.RedeliverJobs, req)
	if err == nil && !c.out.json && (resp.GetUnprovenCount() > 0 || resp.GetUnprovenIncomplete()) {
		defer func() { c.out.unproven(resp) }()
	}
	return c.planned(ctx, resp, resp.GetPlan(), err, "redeliver")
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
