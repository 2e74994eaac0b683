package client

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/adminv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a call on many jobs has a preview. Without --confirm it prints what would
// happen, and the time of that; with --confirm and that time it changes no job that has changed
// since.

// shownKeys bounds the keys that a preview prints.
const shownKeys = 20

func bulkCommand() *cli.Command {
	return &cli.Command{
		Name: "bulk", Usage: "cancel, retry, move or resolve every job that a filter selects",
		Description: "Without --confirm nothing changes: it counts what would, and prints the time to confirm it with.\n" +
			"With --confirm TIME only jobs that have not changed since that time are touched.",
		Commands: []*cli.Command{
			{
				Name: "cancel", Usage: "stop further sends",
				Flags: flags(append(bulkFlags(), reasonFlag())...),
				Action: action(func(ctx context.Context, c *call) error {
					return bulk(ctx, c, c.Bulk.BulkCancelJobs, &adminv1.BulkCancelJobsRequest{})
				}),
			},
			{
				Name: "retry", Usage: "give jobs that FAILED or EXPIRED another chance",
				Flags: flags(bulkFlags()...),
				Action: action(func(ctx context.Context, c *call) error {
					return bulk(ctx, c, c.Bulk.BulkRetryJobs, &adminv1.BulkRetryJobsRequest{})
				}),
			},
			{
				Name: "reschedule", Usage: "move jobs that wait for their time: to one time, or all by one delay",
				Flags: flags(append(bulkFlags(), append(whenFlags(""), zoneFlag(),
					&duration.Flag{Name: "delay", HideDefault: true, Usage: "instead of --at and --in: each job later by this `DURATION`; -1h is earlier"},
					&duration.Flag{Name: "window", Usage: "how late they may start, as a `DURATION`", DefaultText: "as it was"},
				)...)...),
				Action: action(bulkReschedule),
			},
			{
				Name: "resolve", Usage: "decide about jobs whose outcome is unknown",
				Flags: flags(append(bulkFlags(), resolveFlags()...)...),
				Action: action(func(ctx context.Context, c *call) error {
					return bulk(ctx, c, c.Bulk.BulkResolveJobs, &adminv1.BulkResolveJobsRequest{})
				}),
			},
		},
	}
}

func bulkReschedule(ctx context.Context, c *call) error {
	at, local, err := when(c.cmd, time.Now())
	if err != nil {
		return err
	}
	if (at != nil || local != nil) == c.cmd.IsSet("delay") {
		return exit.Usagef("say when: with one of --at, --in and --delay")
	}
	req := &adminv1.BulkRescheduleJobsRequest{ScheduleTime: at, LocalTime: local}
	if err := setFromFlags(c.cmd, req, "window", "start_window"); err != nil {
		return err
	}
	return bulk(ctx, c, c.Bulk.BulkRescheduleJobs, req)
}

func bulkFlags() []cli.Flag {
	return append(filterFlags(),
		textFlag("confirm", "apply the change, to jobs that are unchanged since this `TIME`: paste the one that is printed without this flag"),
		boolFlag("dry-run", "only count, which is the default"),
	)
}

// bulkPages makes a call on many objects, page by page. dry: nothing is changed.
func bulkPages[Q proto.Message, R interface{ GetResult() T }, T interface{ GetNextPageToken() string }](
	ctx context.Context, filter proto.Message, dry bool, method func(context.Context, Q) (R, error), req Q,
) iter.Seq2[T, error] {
	set(req, "filter", filter.ProtoReflect())
	set(req, "dry_run", dry)
	return Pages(ctx, func(ctx context.Context, req Q) (T, error) {
		resp, err := method(ctx, req)
		return resp.GetResult(), err
	}, req)
}

// bulk makes a call on the jobs that the filter selects, and sums its pages up.
func bulk[Q proto.Message, R interface {
	GetResult() *adminv1.BulkResult
}](ctx context.Context, c *call, method func(context.Context, Q) (R, error), req Q) error {
	filter, err := c.jobFilter()
	if err != nil {
		return err
	}
	if err := setFromFlags(c.cmd, req, "confirm", "as_of_time"); err != nil {
		return err
	}
	dry, total := !c.cmd.IsSet("confirm"), &adminv1.BulkResult{}
	if !dry && c.cmd.Bool("dry-run") {
		return exit.Usagef("--dry-run only counts, and --confirm changes; leave one of the two out")
	}
	defer c.out.progress.Clear()
	for result, err := range bulkPages(ctx, filter, dry, method, req) {
		if err != nil {
			if total.GetChanged() > 0 && !dry {
				c.tell("%d jobs were changed before this failed; the same call goes on", total.GetChanged())
			}
			return err
		}
		if total.GetAsOfTime() == nil {
			total.AsOfTime = result.GetAsOfTime()
		}
		total.Matched += result.GetMatched()
		total.Changed += result.GetChanged()
		if len(total.GetChangedKeys()) < shownKeys {
			total.ChangedKeys = append(total.GetChangedKeys(), result.GetChangedKeys()...)
		}
		c.out.progress.Show("%d jobs looked at, %d of them to change", total.GetMatched(), total.GetChanged())
		if c.out.json {
			if err := c.out.compact(result); err != nil {
				return err
			}
		} else {
			for _, f := range result.GetFailures() {
				c.out.line("  %s: %s", plain(cmp.Or(f.GetIdempotencyKey(), f.GetJobId())), plain(f.GetError().GetMessage()))
			}
		}
	}
	if !c.out.json {
		c.out.bulk(total, dry)
	}
	return nil
}

func (p *printer) bulk(r *adminv1.BulkResult, dry bool) {
	if !dry {
		p.line("%d of %d jobs changed.", r.GetChanged(), r.GetMatched())
		return
	}
	keys := r.GetChangedKeys()[:min(len(r.GetChangedKeys()), shownKeys)]
	for _, key := range keys {
		p.line("  would change: %s", plain(key))
	}
	if more := int(r.GetChanged()) - len(keys); more > 0 && len(keys) > 0 {
		p.line("  and %d more", more)
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
