package client

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// asSeen is the present state of the schedule that a change is about.
func (c *call) asSeen(ctx context.Context) (*schedulesv1.Schedule, error) {
	req, err := withName(c, "schedule", &schedulesv1.GetScheduleRequest{})
	if err != nil {
		return nil, err
	}
	resp, err := Ask(ctx, c.Schedules.GetSchedule, req)
	return resp.GetSchedule(), err
}

func updateSchedule(ctx context.Context, c *call) error {
	if !specGiven(c.cmd) && !templateGiven(c.cmd) && !anySet(c.cmd, policyFlags()) && !c.cmd.IsSet("name") && !c.cmd.IsSet("label") {
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
		Etag: seen.GetEtag(), UpdateMask: &fieldmaskpb.FieldMask{}, JobTemplate: seen.GetJobTemplate(), Policies: seen.GetPolicies(),
	}, "schedule_id", seen.GetScheduleId(), "")
	change := func(field string) { req.UpdateMask.Paths = append(req.UpdateMask.Paths, field) }
	err := setFromFlags(c.cmd, req, "name", "display_name", "label", "labels")
	if err != nil {
		return nil, err
	}
	if specGiven(c.cmd) {
		change("spec")
		if req.Spec, err = spec(c.cmd); err != nil {
			return nil, err
		}
	}
	if templateGiven(c.cmd) {
		change("job_template")
		if seen.GetJobTemplate().GetContentWithheld() && !payloadGiven(c.cmd) && !c.cmd.Bool("queue") {
			return nil, exit.Usagef("the API key lacks the scope payloads:read, so the content must be given, too")
		}
		if err := setTemplate(c.cmd, req.GetJobTemplate()); err != nil {
			return nil, err
		}
	}
	if anySet(c.cmd, policyFlags()) {
		change("policies")
		if err := setFromFlags(c.cmd, req.GetPolicies()); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// showSchedule prints the schedule of an answer.
func showSchedule[R interface{ GetSchedule() *schedulesv1.Schedule }](c *call, resp R) {
	c.out.schedule(resp.GetSchedule())
}

func pauseSchedule(ctx context.Context, c *call) error {
	if c.many() {
		return bulkSchedules(ctx, c, c.Schedules.BulkPauseSchedules, &schedulesv1.BulkPauseSchedulesRequest{})
	}
	return callOn(ctx, c, "schedule", c.Schedules.PauseSchedule, &schedulesv1.PauseScheduleRequest{}, showSchedule)
}

func resumeSchedule(ctx context.Context, c *call) error {
	if c.many() {
		return bulkSchedules(ctx, c, c.Schedules.BulkResumeSchedules, &schedulesv1.BulkResumeSchedulesRequest{})
	}
	return callOn(ctx, c, "schedule", c.Schedules.ResumeSchedule, &schedulesv1.ResumeScheduleRequest{}, showSchedule)
}

// many reports whether a command is about all schedules that its filter selects.
func (c *call) many() bool {
	return c.cmd.Args().Len() == 0 && !c.cmd.IsSet("key") && anySet(c.cmd, scheduleFilterFlags())
}

// bulkSchedules makes a call on the schedules that the filter selects, and sums its pages up.
func bulkSchedules[Q proto.Message, R interface {
	GetResult() *schedulesv1.BulkScheduleResult
}](ctx context.Context, c *call, method func(context.Context, Q) (R, error), req Q) error {
	filter, err := c.scheduleFilter()
	if err != nil {
		return err
	}
	if err := setFromFlags(c.cmd, req); err != nil { // --note
		return err
	}
	dry, all := !c.cmd.Bool("confirm"), &schedulesv1.BulkScheduleResult{}
	defer c.out.progress.Clear()
	for got, err := range bulkPages(ctx, filter, dry, method, req) {
		if err != nil {
			return err
		}
		all.Matched, all.Changed = all.GetMatched()+got.GetMatched(), all.GetChanged()+got.GetChanged()
		c.out.progress.Show("%d schedules looked at", all.GetMatched())
		all.ChangedScheduleIds = append(all.ChangedScheduleIds, got.GetChangedScheduleIds()...)
		all.Failures = append(all.Failures, got.GetFailures()...)
	}
	if c.out.json {
		return c.out.message(all)
	}
	for _, id := range all.GetChangedScheduleIds() {
		c.out.line("%s", plain(id))
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

func triggerSchedule(ctx context.Context, c *call) error {
	req, err := withName(c, "schedule", &schedulesv1.TriggerScheduleRequest{AllowOverlap: c.cmd.Bool("allow-overlap")})
	if err != nil {
		return err
	}
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

func skipFiring(ctx context.Context, c *call) error {
	req := &schedulesv1.SkipFiringRequest{Name: c.cmd.String("firing")}
	return callOn(ctx, c, "schedule", c.Schedules.SkipFiring, req, func(c *call, resp *schedulesv1.SkipFiringResponse) {
		c.out.planned("Next firings", resp.GetNextFirings())
	})
}

func backfillSchedule(ctx context.Context, c *call) error {
	req, err := withName(c, "schedule", &schedulesv1.BackfillScheduleRequest{DryRun: !c.cmd.Bool("confirm")})
	if err != nil {
		return err
	}
	if err := setFromFlags(c.cmd, req, "from", "start_time", "until", "end_time"); err != nil {
		return err
	}
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
		c.out.line("%d jobs would be made; %d times have one already. To do it: --confirm", len(all.GetFirings()), all.GetPresent())
	} else {
		c.out.line("%d jobs were made; %d times had one already.", len(all.GetFirings()), all.GetPresent())
	}
	if n := len(all.GetWithoutContent()); n > 0 {
		c.out.line("%d times find no item in the queue; the first one is %s.", n, plain(all.GetWithoutContent()[0].GetLocalTime()))
	}
	return nil
}
