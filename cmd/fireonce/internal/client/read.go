package client

import (
	"context"
	"strings"

	"github.com/urfave/cli/v3"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/job"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
)

func getCommand() *cli.Command {
	return &cli.Command{
		Name: "get", Usage: "show one job", ArgsUsage: "[JOB_ID]",
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
	events, err := c.history(ctx, resp.GetJob())
	if err != nil {
		return err
	}
	tries, err := c.tries(ctx, resp.GetJob())
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.messages(append(append([]message{resp}, asMessages(tries)...), asMessages(events)...))
	}
	c.out.job(resp.GetJob())
	c.out.tries(tries)
	c.out.line("")
	c.out.heading("Events")
	for _, e := range events {
		c.out.event(e, false)
	}
	return nil
}

// tries reads a job's attempts, page by page, and the newest looks.
func (c *call) tries(ctx context.Context, j *fireoncev1.Job) ([]*fireoncev1.ListJobAttemptsResponse, error) {
	var pages []*fireoncev1.ListJobAttemptsResponse
	ctx, cancel := unary(ctx)
	defer cancel()
	req := &fireoncev1.ListJobAttemptsRequest{JobId: j.GetJobId(), PageSize: job.MaxAttempts}
	for {
		page, err := c.Jobs.ListJobAttempts(ctx, req)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return pages, nil
		}
	}
}

// history reads a job's events up to the one that the job was read with.
func (c *call) history(ctx context.Context, j *fireoncev1.Job) ([]*fireoncev1.JobEvent, error) {
	var events []*fireoncev1.JobEvent
	ctx, cancel := unary(ctx)
	defer cancel()
	o := follow.Options{Filter: &fireoncev1.EventFilter{JobIds: []string{j.GetJobId()}}, Beginning: true}
	err := follow.Events(ctx, c.Jobs, o, func(e *fireoncev1.JobEvent) error {
		if n := len(events); n > 0 && e.GetJobChanged().GetSequence() <= events[n-1].GetJobChanged().GetSequence() {
			return nil // delivered again
		}
		events = append(events, e)
		if e.GetJobChanged().GetSequence() >= j.GetSequence() {
			return follow.ErrStop
		}
		return nil
	})
	return events, err
}

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list jobs, latest time first",
		Flags: flags(append(filterFlags(),
			&cli.StringFlag{Name: "order", Usage: "`scheduled-for-desc`, scheduled-for-asc or create-time-desc"},
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
	req, err := listRequest(c.cmd)
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

func listRequest(cmd *cli.Command) (*fireoncev1.ListJobsRequest, error) {
	filter, err := jobFilter(cmd)
	if err != nil {
		return nil, err
	}
	req := &fireoncev1.ListJobsRequest{
		Filter: filter, PageSize: int32(cmd.Int("page-size")), PageToken: cmd.String("page-token"),
	}
	if text := cmd.String("order"); text != "" {
		order, ok := fireoncev1.JobOrder_value["JOB_ORDER_"+enumName(text)]
		if !ok || order == 0 {
			return nil, exit.Usagef("--order %q: must be scheduled-for-desc, scheduled-for-asc or create-time-desc", text)
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
