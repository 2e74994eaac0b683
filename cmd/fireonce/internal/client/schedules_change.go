package client

import (
	"context"
	"slices"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// asSeen is the present state of the schedule that a change is about.
func (c *call) asSeen(ctx context.Context) (*schedulesv1.Schedule, error) {
	req := &schedulesv1.GetScheduleRequest{}
	if err := c.setName("schedule", req); err != nil {
		return nil, err
	}
	resp, err := Ask(ctx, c.Schedules.GetSchedule, req)
	return resp.GetSchedule(), err
}

func updateSchedule(ctx context.Context, c *call) error {
	if !specGiven(c.cmd) && !changedSchedule.given(c.cmd) && !payloadGiven(c.cmd) && !c.cmd.IsSet("queue") {
		return exit.Usagef("name what to change: times, content, policies, --name or --label")
	}
	seen, err := c.asSeen(ctx)
	if err != nil {
		return err
	}
	req, err := c.scheduleUpdate(seen)
	if err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetJobTemplate().GetPayload(), c.Schedules.UpdateSchedule, req)
	return printAnswer(c, resp, err, func(c *call, resp *schedulesv1.UpdateScheduleResponse) {
		c.out.schedule(resp.GetSchedule())
		c.out.planned("Next firings", resp.GetNextFirings())
	})
}

// scheduleUpdate makes the change that flags describe, from a schedule's present state. Policies
// and template fields without a flag stay.
func (c *call) scheduleUpdate(seen *schedulesv1.Schedule) (*schedulesv1.UpdateScheduleRequest, error) {
	req := named(&schedulesv1.UpdateScheduleRequest{
		Etag: seen.GetEtag(), JobTemplate: seen.GetJobTemplate(), Policies: seen.GetPolicies(),
	}, "schedule_id", seen.GetScheduleId(), "")
	listWaits(c.cmd, req.GetJobTemplate().GetRetryPolicy())
	err := changedSchedule.set(c.cmd, req)
	if err != nil {
		return nil, err
	}
	if specGiven(c.cmd) {
		change(req, "spec")
		if req.Spec, err = spec(c.cmd); err != nil {
			return nil, err
		}
	}
	if payloadGiven(c.cmd) || c.cmd.Bool("queue") {
		change(req, "job_template")
		if err := setContent(c.cmd, req.GetJobTemplate()); err != nil {
			return nil, err
		}
	} else if seen.GetJobTemplate().GetContentWithheld() && slices.Contains(req.GetUpdateMask().GetPaths(), "job_template") {
		return nil, exit.Usagef("the API key lacks the scope payloads:read, so the content must be given, too")
	}
	return req, nil
}

// showSchedule prints the schedule of an answer.
func showSchedule[R interface{ GetSchedule() *schedulesv1.Schedule }](c *call, resp R) {
	c.out.schedule(resp.GetSchedule())
}

// pauseOrResume makes the command that pauses or resumes one schedule, or all that its filter selects.
func pauseOrResume[Q message, R interface {
	message
	GetSchedule() *schedulesv1.Schedule
}, BQ message, BR interface {
	GetResult() *schedulesv1.BulkScheduleResult
}](
	name, usage string, one func(schedulesv1connect.ScheduleServiceClient, context.Context, Q) (R, error),
	many func(schedulesv1connect.ScheduleServiceClient, context.Context, BQ) (BR, error),
) *cli.Command {
	const note = "note:TEXT=note"
	cmd := on("schedule", note, one, showSchedule, &cli.Command{
		Name: name, Usage: usage, ArgsUsage: "[SCHEDULE]",
		Description: "Without SCHEDULE: every schedule that the filter's flags select; without --confirm it only says which.",
	})
	filter, all, single := fieldsOf(newOf[BQ](), scheduleFilter), fieldsOf(newOf[BQ](), note, scheduleFilter), cmd.Action
	cmd.Flags = slices.Concat(filter.flags(), []cli.Flag{confirmFlag()}, cmd.Flags)
	several := action(func(ctx context.Context, c *call) error {
		req := newOf[BQ]()
		if err := all.set(c.cmd, req); err != nil {
			return err
		}
		return bulkSchedules(ctx, c, bound(c, many), req)
	})
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		if cmd.Args().Len() == 0 && !cmd.IsSet("key") && filter.given(cmd) {
			return several(ctx, cmd)
		}
		return single(ctx, cmd)
	}
	return cmd
}

// bulkSchedules makes a call on the schedules that the filter selects, and sums its pages up.
func bulkSchedules[Q proto.Message, R interface {
	GetResult() *schedulesv1.BulkScheduleResult
}](ctx context.Context, c *call, method func(context.Context, Q) (R, error), req Q) error {
	dry, all := !c.cmd.Bool("confirm"), &schedulesv1.BulkScheduleResult{}
	defer c.out.progress.Clear()
	for got, err := range bulkPages(ctx, dry, method, req) {
		if err != nil {
			return err
		}
		all.Matched, all.Changed = all.GetMatched()+got.GetMatched(), all.GetChanged()+got.GetChanged()
		c.out.progress.Show("%d schedules looked at", all.GetMatched())
		all.ChangedScheduleIds = append(all.ChangedScheduleIds, got.GetChangedScheduleIds()...)
		all.ChangedKeys = append(all.ChangedKeys, got.GetChangedKeys()...)
		all.Failures = append(all.Failures, got.GetFailures()...)
	}
	if c.out.json {
		return c.out.message(all)
	}
	for _, key := range all.GetChangedKeys() {
		c.out.line("%s", plain(key))
	}
	for _, f := range all.GetFailures() {
		c.out.line("%s  refused: %s", plain(f.GetIdempotencyKey()), plain(f.GetError().GetMessage()))
	}
	if dry {
		c.out.line("%d of %d schedules would be changed. To do it: --confirm", all.GetChanged(), all.GetMatched())
	} else {
		c.out.line("%d of %d schedules were changed.", all.GetChanged(), all.GetMatched())
	}
	return nil
}

func triggerSchedule(ctx context.Context, c *call, req *schedulesv1.TriggerScheduleRequest) (err error) {
	if req.TriggerKey, err = keyOrNew(c.cmd, "trigger-key"); err != nil {
		return err
	}
	resp, err := Ask(ctx, c.Schedules.TriggerSchedule, req)
	if err != nil {
		return c.tellRepeat(err, "job", "trigger-key", req.GetTriggerKey())
	}
	err = printAnswer(c, resp, nil, func(c *call, resp *schedulesv1.TriggerScheduleResponse) {
		c.out.firings("", []*fireoncev1.Firing{resp.GetFiring()})
	})
	if err != nil || !c.cmd.Bool("watch") {
		return err
	}
	return c.watchJob(ctx, resp.GetFiring().GetJobId())
}

func backfillSchedule(ctx context.Context, c *call, req *schedulesv1.BackfillScheduleRequest) error {
	req.DryRun = !c.cmd.Bool("confirm")
	all := &schedulesv1.BackfillScheduleResponse{}
	defer c.out.progress.Clear()
	for resp, err := range Pages(ctx, c.Schedules.BackfillSchedule, req) {
		if err != nil {
			return err
		}
		c.out.progress.Show("%d times looked at", len(all.GetFirings())+int(all.GetPresent()))
		all.Firings, all.Present = append(all.Firings, resp.GetFirings()...), all.GetPresent()+resp.GetPresent()
		all.WithoutContent = append(all.WithoutContent, resp.GetWithoutContent()...)
	}
	if c.out.json {
		return c.out.message(all)
	}
	c.out.firings("", all.GetFirings())
	if req.GetDryRun() {
		c.out.line("To make: %s. Times that have one already: %d. To do it: --confirm", many(len(all.GetFirings()), "job"), all.GetPresent())
	} else {
		c.out.line("Made: %s. Times that had one already: %d.", many(len(all.GetFirings()), "job"), all.GetPresent())
	}
	if n := len(all.GetWithoutContent()); n > 0 {
		c.out.line("Times that find no item in the queue: %d. The first one is %s.", n, plain(all.GetWithoutContent()[0].GetLocalTime()))
	}
	return nil
}
