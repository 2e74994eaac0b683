package client

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "show one job", ArgsUsage: "JOB",
		Flags: flags(
			keyFlag("job"),
			boolFlag("history", "also every attempt, every look and every event"),
			boolFlag("omit-payload", "leave the content out"),
		),
		Action: action(get),
	}
}

func get(ctx context.Context, c *call) error {
	resp, err := c.job(ctx, c.cmd.Bool("omit-payload"))
	if err != nil {
		return err
	}
	if !c.cmd.Bool("history") {
		return printAnswer(c, resp, nil, func(c *call, resp *fireoncev1.GetJobResponse) {
			c.out.job(resp.GetJob())
		})
	}
	h, err := c.history(ctx, resp.GetJob().GetJobId())
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.merged(resp, &fireoncev1.ListJobAttemptsResponse{Attempts: h.attempts},
			&fireoncev1.ListJobObservationsResponse{Observations: h.looks}, &fireoncev1.ListJobEventsResponse{Events: h.events})
	}
	c.out.job(resp.GetJob())
	c.out.tries(h.attempts, h.looks, h.restored())
	c.out.line("")
	c.out.heading("Events")
	for _, e := range h.events {
		c.out.event(e, false)
	}
	return nil
}

// jobHistory is everything that happened to a job.
type jobHistory struct {
	attempts []*fireoncev1.Attempt
	looks    []*fireoncev1.Observation // newest first
	events   []*fireoncev1.JobEvent
}

// restored returns the event of the database's restore; nil: there was none in the job's time.
func (h *jobHistory) restored() *fireoncev1.JobEvent {
	for _, e := range h.events {
		if e.GetJobChanged().GetCause() == fireoncev1.EventCause_EVENT_CAUSE_RESTORED {
			return e
		}
	}
	return nil
}

// history reads a job's attempts, looks and events, page by page.
func (c *call) history(ctx context.Context, id string) (*jobHistory, error) {
	h := &jobHistory{}
	tries := named(&fireoncev1.ListJobAttemptsRequest{PageSize: maxPage}, "job_id", id, "")
	for page, err := range Pages(ctx, c.Jobs.ListJobAttempts, tries) {
		if err != nil {
			return nil, err
		}
		h.attempts = append(h.attempts, page.GetAttempts()...)
	}
	looks := named(&fireoncev1.ListJobObservationsRequest{PageSize: maxPage}, "job_id", id, "")
	for page, err := range Pages(ctx, c.Jobs.ListJobObservations, looks) {
		if err != nil {
			return nil, err
		}
		h.looks = append(h.looks, page.GetObservations()...)
	}
	events := &fireoncev1.ListJobEventsRequest{Filter: &fireoncev1.EventFilter{JobIds: []string{id}}, PageSize: maxPage}
	for more := true; more; {
		page, err := Ask(ctx, c.Jobs.ListJobEvents, events)
		if err != nil {
			return nil, err
		}
		h.events = append(h.events, page.GetEvents()...)
		events.AfterCursor, more = page.GetNextCursor(), page.GetHasMore()
	}
	return h, nil
}

func listCommand() *cli.Command {
	return lists("", "jobs", jobFilter+" order", fireoncev1connect.JobServiceClient.ListJobs,
		func(c *call, page *fireoncev1.ListJobsResponse) { c.out.jobs(page.GetJobs()) },
		&cli.Command{Name: "list", Usage: "list jobs, latest time first"})
}
