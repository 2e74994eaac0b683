package client

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "show one job", ArgsUsage: "[JOB]",
		Flags: flags(
			keyFlag(),
			&cli.BoolFlag{Name: "history", Usage: "also every attempt and every event"},
			&cli.BoolFlag{Name: "omit-payload", Usage: "leave the content out"},
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
		return c.out.messages(append([]message{resp}, h.pages...))
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
	// pages are the answers that it came in.
	pages []message
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
		h.attempts, h.pages = append(h.attempts, page.GetAttempts()...), append(h.pages, page)
		tries.PageToken = page.GetNextPageToken()
	}
	looks := &fireoncev1.ListJobObservationsRequest{Job: &fireoncev1.ListJobObservationsRequest_JobId{JobId: id}, PageSize: historyPage}
	for more := true; more; more = looks.GetPageToken() != "" {
		page, err := c.Jobs.ListJobObservations(ctx, looks)
		if err != nil {
			return nil, err
		}
		h.looks, h.pages = append(h.looks, page.GetObservations()...), append(h.pages, page)
		looks.PageToken = page.GetNextPageToken()
	}
	events := &fireoncev1.ListJobEventsRequest{Filter: &fireoncev1.EventFilter{JobIds: []string{id}}, PageSize: historyPage}
	for more := true; more; {
		page, err := c.Jobs.ListJobEvents(ctx, events)
		if err != nil {
			return nil, err
		}
		h.events, h.pages = append(h.events, page.GetEvents()...), append(h.pages, page)
		events.AfterCursor, more = page.GetNextCursor(), page.GetHasMore()
	}
	return h, nil
}

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list jobs, latest time first",
		Flags: flags(append(filterFlags(),
			&cli.StringFlag{Name: "order", Usage: "`schedule-time-desc`, schedule-time-asc or create-time-desc"},
			&cli.IntFlag{Name: "page-size", Usage: "jobs in one page, up to 500", Value: 50},
			&cli.StringFlag{Name: "page-token", Usage: "go on where a page with the same filter ended"},
		)...),
		Action: action(list),
	}
}

func list(ctx context.Context, c *call) error {
	if err := c.noArgs(); err != nil {
		return err
	}
	req, err := c.listRequest()
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Jobs.ListJobs(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.jobs(resp.GetJobs())
	if resp.GetNextPageToken() != "" {
		c.out.line("\nThere are more: --page-token %s", resp.GetNextPageToken())
	}
	return nil
}

func (c *call) listRequest() (*fireoncev1.ListJobsRequest, error) {
	cmd := c.cmd
	filter, err := c.jobFilter()
	if err != nil {
		return nil, err
	}
	req := &fireoncev1.ListJobsRequest{
		Filter: filter, PageSize: int32(cmd.Int("page-size")), PageToken: cmd.String("page-token"),
	}
	if text := cmd.String("order"); text != "" {
		order, ok := fireoncev1.JobOrder_value["JOB_ORDER_"+enumName(text)]
		if !ok || order == 0 {
			return nil, exit.Usagef("--order %q: must be schedule-time-desc, schedule-time-asc or create-time-desc", text)
		}
		req.Order = fireoncev1.JobOrder(order)
	}
	return req, nil
}

func stateNames() string {
	names := make([]string, 0, len(fireoncev1.JobState_name))
	for i := int32(1); i < int32(len(fireoncev1.JobState_name)); i++ {
		names = append(names, strings.ToLower(strings.ReplaceAll(stateName(fireoncev1.JobState(i)), "_", "-")))
	}
	return strings.Join(names, ", ")
}
