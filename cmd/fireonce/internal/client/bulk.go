package client

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a call on many jobs has a preview. Without --confirm it prints what would
// happen, and the time of that; with --confirm and that time it changes no job that has changed
// since.

// shownKeys bounds the keys that a preview prints.
const shownKeys = 20

func bulkCommand() *cli.Command {
	type service = adminv1connect.BulkServiceClient
	return &cli.Command{
		Name: "bulk", Usage: "cancel, retry, move or resolve every job that a filter selects",
		Description: "Without --confirm nothing changes: it counts what would, and prints the time to confirm it with.\n" +
			"With --confirm TIME only jobs that have not changed since that time are touched.",
		Commands: []*cli.Command{
			bulkOn(service.BulkCancelJobs, "reason:TEXT=reason", "", &cli.Command{Name: "cancel", Usage: "stop further sends"}),
			bulkOn(service.BulkRetryJobs, "", "", &cli.Command{Name: "retry", Usage: "give jobs that FAILED or EXPIRED another chance"}),
			bulkOn(service.BulkRescheduleJobs, "delay", "window=start_window", &cli.Command{
				Name: "reschedule", Usage: "move jobs that wait for their time: to one time, or all by one delay", Flags: append(whenFlags(""), zoneFlag()),
			}, bulkWhen),
			bulkOn(service.BulkResolveJobs, decision, "", &cli.Command{Name: "resolve", Usage: "decide about jobs whose outcome is unknown"}),
		},
	}
}

// bulkOn makes the command of a call on many jobs. Words are the fields that its flags set, kept those
// that stay as they were without their flag.
func bulkOn[Q message, R interface{ GetResult() *adminv1.BulkResult }](
	method func(adminv1connect.BulkServiceClient, context.Context, Q) (R, error), words, kept string, cmd *cli.Command,
	complete ...func(*call, Q) error,
) *cli.Command {
	cmd.Flags = append(cmd.Flags,
		textFlag("confirm", "`TIME` apply the change: paste the time that the preview prints; jobs that changed after it stay as they are"),
		boolFlag("dry-run", "only count, which is the default"),
	)
	f := fieldsOf(newOf[Q](), words).and(fieldsOf(newOf[Q](), kept).otherwise("as it was")).and(fieldsOf(newOf[Q](), jobFilter))
	return asks("", f, cmd, func(ctx context.Context, c *call, req Q) error {
		for _, more := range complete {
			if err := more(c, req); err != nil {
				return err
			}
		}
		return bulk(ctx, c, bound(c, method), req)
	})
}

// bulkWhen reads when jobs are moved to.
func bulkWhen(c *call, req *adminv1.BulkRescheduleJobsRequest) (err error) {
	if req.ScheduleTime, req.LocalTime, err = when(c.cmd, time.Now()); err != nil {
		return err
	}
	if (req.GetScheduleTime() != nil || req.GetLocalTime() != nil) == c.cmd.IsSet("delay") {
		return exit.Usagef("say when: with one of --at, --in and --delay")
	}
	return nil
}

// bulkPages makes a call on many objects, page by page. dry: nothing is changed.
func bulkPages[Q proto.Message, R interface{ GetResult() T }, T interface{ GetNextPageToken() string }](
	ctx context.Context, dry bool, method func(context.Context, Q) (R, error), req Q,
) iter.Seq2[T, error] {
	set(req, "dry_run", dry)
	filter := req.ProtoReflect().Descriptor().Fields().ByName("filter")
	req.ProtoReflect().Mutable(filter) // an empty one is refused with the reason
	return Pages(ctx, func(ctx context.Context, req Q) (T, error) {
		resp, err := method(ctx, req)
		return resp.GetResult(), err
	}, req)
}

// bulk makes a call on the jobs that the filter selects, and sums its pages up.
func bulk[Q proto.Message, R interface {
	GetResult() *adminv1.BulkResult
}](ctx context.Context, c *call, method func(context.Context, Q) (R, error), req Q) error {
	if c.cmd.IsSet("confirm") {
		asOf, err := parseTime("confirm", c.cmd.String("confirm"))
		if err != nil {
			return err
		}
		set(req, "as_of_time", asOf.ProtoReflect())
	}
	dry, total := !c.cmd.IsSet("confirm"), &adminv1.BulkResult{}
	if !dry && c.cmd.Bool("dry-run") {
		return exit.Usagef("--dry-run only counts, and --confirm changes; leave one of the two out")
	}
	defer c.out.progress.Clear()
	for result, err := range bulkPages(ctx, dry, method, req) {
		if err != nil {
			if total.GetChanged() > 0 && !dry {
				c.tell("%s changed before this failed; the same call goes on", many(total.GetChanged(), "job"))
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
