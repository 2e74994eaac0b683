package client

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/timestamppb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// Rules of this file: a call on many jobs has a preview. Without --confirm it prints what would
// happen, and the time of that; with --confirm and that time it changes no job that has changed
// since.

func bulkCommand() *cli.Command {
	return &cli.Command{
		Name: "bulk", Usage: "cancel, retry or resolve every job that a filter selects",
		Description: "Without --confirm nothing changes: it counts what would, and prints the time to confirm it with.\n" +
			"With --confirm TIME only jobs that have not changed since that time are touched.",
		Commands: []*cli.Command{
			{
				Name: "cancel", Usage: "stop further sends",
				Flags:  flags(append(bulkFlags(), reasonFlag())...),
				Action: action(func(ctx context.Context, c *call) error { return c.bulk(ctx, bulkCancel) }),
			},
			{
				Name: "retry", Usage: "give jobs that FAILED or EXPIRED another chance",
				Flags:  flags(bulkFlags()...),
				Action: action(func(ctx context.Context, c *call) error { return c.bulk(ctx, bulkRetry) }),
			},
			{
				Name: "resolve", Usage: "decide about jobs whose outcome is unknown",
				Flags:  flags(append(bulkFlags(), resolveFlags()...)...),
				Action: action(func(ctx context.Context, c *call) error { return c.bulk(ctx, bulkResolve) }),
			},
		},
	}
}

func bulkFlags() []cli.Flag {
	return append(filterFlags(),
		textFlag("confirm", "do it, for jobs unchanged since this `TIME`, as printed without this flag"),
	)
}

// bulkPage makes one call of a kind.
type bulkPage func(ctx context.Context, c *call, p bulkQuery) (*fireoncev1.BulkResult, error)

type bulkQuery struct {
	filter *fireoncev1.JobFilter
	asOf   *timestamppb.Timestamp
	dry    bool
	token  string
}

func bulkCancel(ctx context.Context, c *call, q bulkQuery) (*fireoncev1.BulkResult, error) {
	resp, err := c.Jobs.BulkCancelJobs(ctx, &fireoncev1.BulkCancelJobsRequest{
		Filter: q.filter, AsOfTime: q.asOf, DryRun: q.dry, PageToken: q.token, Reason: c.cmd.String("reason"),
	})
	return resp.GetResult(), err
}

func bulkRetry(ctx context.Context, c *call, q bulkQuery) (*fireoncev1.BulkResult, error) {
	resp, err := c.Jobs.BulkRetryJobs(ctx, &fireoncev1.BulkRetryJobsRequest{
		Filter: q.filter, AsOfTime: q.asOf, DryRun: q.dry, PageToken: q.token,
	})
	return resp.GetResult(), err
}

func bulkResolve(ctx context.Context, c *call, q bulkQuery) (*fireoncev1.BulkResult, error) {
	req := &fireoncev1.BulkResolveJobsRequest{Filter: q.filter, AsOfTime: q.asOf, DryRun: q.dry, PageToken: q.token}
	if err := setFromFlags(c.cmd, req); err != nil {
		return nil, err
	}
	resp, err := c.Jobs.BulkResolveJobs(ctx, req)
	return resp.GetResult(), err
}

// bulk runs through all pages and sums them up.
func (c *call) bulk(ctx context.Context, page bulkPage) error {
	filter, err := c.jobFilter()
	if err != nil {
		return err
	}
	q := bulkQuery{filter: filter, dry: !c.cmd.IsSet("confirm")}
	if !q.dry {
		if q.asOf, err = parseTime("confirm", c.cmd.String("confirm")); err != nil {
			return err
		}
	}
	total := &fireoncev1.BulkResult{}
	defer c.out.progress.Clear()
	for {
		one, cancel := unary(ctx)
		result, err := page(one, c, q)
		cancel()
		if err != nil {
			if total.GetChanged() > 0 && !q.dry {
				c.out.progress.Clear()
				fmt.Fprintf(c.cmd.Root().ErrWriter, "fireonce: %d jobs were changed before this failed; the same call goes on\n", total.GetChanged())
			}
			return err
		}
		if total.GetAsOfTime() == nil {
			total.AsOfTime = result.GetAsOfTime()
		}
		total.Matched += result.GetMatched()
		total.Changed += result.GetChanged()
		c.out.progress.Show("%d jobs looked at, %d of them to change", total.GetMatched(), total.GetChanged())
		if c.out.json {
			if err := c.out.compact(result); err != nil {
				return err
			}
		} else {
			c.out.failures(result.GetFailures())
		}
		if q.token = result.GetNextPageToken(); q.token == "" {
			break
		}
	}
	if !c.out.json {
		c.out.bulk(total, q.dry)
	}
	return nil
}

func (p *printer) failures(list []*fireoncev1.BulkFailure) {
	for _, f := range list {
		p.line("  %s: %s", plain(f.GetJobId()), plain(f.GetError().GetMessage()))
	}
}

func (p *printer) bulk(r *fireoncev1.BulkResult, dry bool) {
	if !dry {
		p.line("%d of %d jobs changed.", r.GetChanged(), r.GetMatched())
		return
	}
	p.line("%d of %d jobs would change. Nothing was changed; to do it: --confirm %s",
		r.GetChanged(), r.GetMatched(), r.GetAsOfTime().AsTime().Format(time.RFC3339Nano))
}

func resolveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "decision", Usage: "a `DECISION`: sent, not-sent, resend or cancel", Required: true},
		&cli.StringFlag{Name: "note", Usage: "how you know, as `TEXT` for the record", Required: true},
		boolFlag("override-reconciler", "decide although the outcome is still being looked for"),
	}
}
