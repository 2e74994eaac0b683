package client

import (
	"context"

	"github.com/urfave/cli/v3"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "show one job", ArgsUsage: "[JOB]",
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
		if c.out.json {
			return c.out.message(resp)
		}
		c.out.job(resp.GetJob())
		return nil
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
	c.out.tries(h.attempts, h.looks)
	c.out.line("")
	c.out.heading("Events")
	for _, e := range h.events {
		c.out.event(e, false)
	}
	return nil
}

// historyPage is what one call of a history reads at most.
const historyPage = 500

// jobHistory is everything that happened to a job.
type jobHistory struct {
	attempts []*fireoncev1.Attempt
	looks    []*fireoncev1.Observation // newest first
	events   []*fireoncev1.JobEvent
}

// history reads a job's attempts, looks and events, page by page.
func (c *call) history(ctx context.Context, id string) (*jobHistory, error) {
	ctx, cancel := unary(ctx)
	defer cancel()
	h := &jobHistory{}
	tries := &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: id}, PageSize: historyPage}
	for more := true; more; more = tries.GetPageToken() != "" {
		page, err := c.Jobs.ListJobAttempts(ctx, tries)
		if err != nil {
			return nil, err
		}
		h.attempts = append(h.attempts, page.GetAttempts()...)
		tries.PageToken = page.GetNextPageToken()
	}
	looks := &fireoncev1.ListJobObservationsRequest{Job: &fireoncev1.ListJobObservationsRequest_JobId{JobId: id}, PageSize: historyPage}
	for more := true; more; more = looks.GetPageToken() != "" {
		page, err := c.Jobs.ListJobObservations(ctx, looks)
		if err != nil {
			return nil, err
		}
		h.looks = append(h.looks, page.GetObservations()...)
		looks.PageToken = page.GetNextPageToken()
	}
	events := &fireoncev1.ListJobEventsRequest{Filter: &fireoncev1.EventFilter{JobIds: []string{id}}, PageSize: historyPage}
	for more := true; more; {
		page, err := c.Jobs.ListJobEvents(ctx, events)
		if err != nil {
			return nil, err
		}
		h.events = append(h.events, page.GetEvents()...)
		events.AfterCursor, more = page.GetNextCursor(), page.GetHasMore()
	}
	return h, nil
}

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list jobs, latest time first",
		Flags: flags(append(append(filterFlags(), pageFlags("jobs")...),
			textFlag("order", "the `ORDER`: schedule-time-desc, schedule-time-asc or create-time-desc"),
		)...),
		Action: action(list),
	}
}

func list(ctx context.Context, c *call) error {
	req, err := c.listRequest()
	if err != nil {
		return err
	}
	return pages(ctx, c, func(ctx context.Context, token string) (*fireoncev1.ListJobsResponse, error) {
		req.PageToken = token
		return c.Jobs.ListJobs(ctx, req)
	}, func(page *fireoncev1.ListJobsResponse) { c.out.jobs(page.GetJobs()) })
}

func (c *call) listRequest() (*fireoncev1.ListJobsRequest, error) {
	filter, err := c.jobFilter()
	if err != nil {
		return nil, err
	}
	req := &fireoncev1.ListJobsRequest{Filter: filter, PageSize: pageSize(c.cmd)}
	return req, setFromFlags(c.cmd, req)
}
