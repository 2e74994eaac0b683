package client

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// asSeen is the present state of the schedule that a change is about.
func (c *call) asSeen(ctx context.Context) (*fireoncev1.Schedule, error) {
	req, err := ofSchedule(c, &fireoncev1.GetScheduleRequest{})
	if err != nil {
		return nil, err
	}
	resp, err := c.Schedules.GetSchedule(ctx, req)
	return resp.GetSchedule(), err
}

func updateSchedule(ctx context.Context, c *call) error {
	ctx, cancel := unary(ctx)
	defer cancel()
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
	resp, err := sendContent(c, req.GetJobTemplate().GetPayload(), func() (*fireoncev1.UpdateScheduleResponse, error) { return c.Schedules.UpdateSchedule(ctx, req) })
	if err != nil {
		return err
	}
	if err := c.changedSchedule(resp, resp.GetSchedule()); err != nil || c.out.json {
		return err
	}
	c.out.planned("Next firings", resp.GetNextFirings())
	return nil
}

// scheduleUpdate makes the change that flags describe, from a schedule's present state. Policies
// and template fields without a flag stay.
func (c *call) scheduleUpdate(seen *fireoncev1.Schedule) (*fireoncev1.UpdateScheduleRequest, error) {
	req := named(&fireoncev1.UpdateScheduleRequest{
		Etag: cmp.Or(c.cmd.String("etag"), seen.GetEtag()), DisplayName: c.cmd.String("name"), UpdateMask: &fieldmaskpb.FieldMask{},
		JobTemplate: seen.GetJobTemplate(), Policies: seen.GetPolicies(),
	}, "schedule_id", seen.GetScheduleId(), "")
	change := func(field string) { req.UpdateMask.Paths = append(req.UpdateMask.Paths, field) }
	var err error
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
		if err := setPolicies(c.cmd, req.GetPolicies()); err != nil {
			return nil, err
		}
	}
	if c.cmd.IsSet("name") {
		change("display_name")
	}
	if c.cmd.IsSet("label") {
		change("labels")
		if req.Labels, err = labels(c.cmd); err != nil {
			return nil, err
		}
	}
	return req, nil
}

// changedSchedule prints the answer of a call that changed one schedule.
func (c *call) changedSchedule(resp proto.Message, s *fireoncev1.Schedule) error {
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.schedule(s)
	return nil
}

func pauseSchedule(ctx context.Context, c *call) error {
	if c.many() {
		return c.bulkSchedules(ctx, func(ctx context.Context, f *fireoncev1.ScheduleFilter, dry bool, token string) (*fireoncev1.BulkScheduleResult, error) {
			resp, err := c.Schedules.BulkPauseSchedules(ctx, &fireoncev1.BulkPauseSchedulesRequest{
				Filter: f, Note: c.cmd.String("note"), DryRun: dry, PageToken: token,
			})
			return resp.GetResult(), err
		})
	}
	req, err := ofSchedule(c, &fireoncev1.PauseScheduleRequest{Etag: c.cmd.String("etag"), Note: c.cmd.String("note")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.PauseSchedule(ctx, req)
	if err != nil {
		return err
	}
	return c.changedSchedule(resp, resp.GetSchedule())
}

func resumeSchedule(ctx context.Context, c *call) error {
	if c.many() {
		return c.bulkSchedules(ctx, func(ctx context.Context, f *fireoncev1.ScheduleFilter, dry bool, token string) (*fireoncev1.BulkScheduleResult, error) {
			resp, err := c.Schedules.BulkResumeSchedules(ctx, &fireoncev1.BulkResumeSchedulesRequest{
				Filter: f, Note: c.cmd.String("note"), DryRun: dry, PageToken: token,
			})
			return resp.GetResult(), err
		})
	}
	req, err := ofSchedule(c, &fireoncev1.ResumeScheduleRequest{Etag: c.cmd.String("etag"), Note: c.cmd.String("note")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.ResumeSchedule(ctx, req)
	if err != nil {
		return err
	}
	return c.changedSchedule(resp, resp.GetSchedule())
}

// many reports whether a command is about all schedules that its filter selects.
func (c *call) many() bool {
	return c.cmd.Args().Len() == 0 && !c.cmd.IsSet("key") && anySet(c.cmd, scheduleFilterFlags())
}

// bulkSchedules makes a call on many schedules, page by page.
func (c *call) bulkSchedules(ctx context.Context, page func(ctx context.Context, f *fireoncev1.ScheduleFilter, dry bool, token string) (*fireoncev1.BulkScheduleResult, error)) error {
	filter, err := c.scheduleFilter()
	if err != nil {
		return err
	}
	dry, all := !c.cmd.Bool("confirm"), &fireoncev1.BulkScheduleResult{}
	defer c.out.progress.Clear()
	for token := ""; ; {
		short, cancel := unary(ctx)
		got, err := page(short, filter, dry, token)
		cancel()
		if err != nil {
			return err
		}
		all.Matched, all.Changed = all.GetMatched()+got.GetMatched(), all.GetChanged()+got.GetChanged()
		c.out.progress.Show("%d schedules looked at", all.GetMatched())
		all.ChangedScheduleIds = append(all.ChangedScheduleIds, got.GetChangedScheduleIds()...)
		all.Failures = append(all.Failures, got.GetFailures()...)
		if token = got.GetNextPageToken(); token == "" {
			break
		}
	}
	if c.out.json {
		return c.out.message(all)
	}
	for _, id := range all.GetChangedScheduleIds() {
		c.out.line("%s", plain(id))
	}
	for _, f := range all.GetFailures() {
		c.out.line("%s  refused: %s", plain(f.GetScheduleId()), plain(f.GetError().GetMessage()))
	}
	if dry {
		c.out.line("%d of %d schedules would be changed. To do it: --confirm", all.GetChanged(), all.GetMatched())
	} else {
		c.out.line("%d of %d schedules were changed.", all.GetChanged(), all.GetMatched())
	}
	return nil
}

func deleteSchedule(ctx context.Context, c *call) error {
	req, err := ofSchedule(c, &fireoncev1.DeleteScheduleRequest{Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.DeleteSchedule(ctx, req)
	if err != nil {
		return err
	}
	return c.changedSchedule(resp, resp.GetSchedule())
}

func triggerSchedule(ctx context.Context, c *call) error {
	req, err := ofSchedule(c, &fireoncev1.TriggerScheduleRequest{TriggerKey: c.cmd.String("trigger-key"), AllowOverlap: c.cmd.Bool("allow-overlap")})
	if err != nil {
		return err
	}
	if req.GetTriggerKey() == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return err
		}
		req.TriggerKey = id.String()
	}
	short, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.TriggerSchedule(short, req)
	if err != nil {
		if exit.Code(err) == exit.Unavailable {
			fmt.Fprintf(c.cmd.Root().ErrWriter, "fireonce: the job may or may not be stored; repeat the call with --trigger-key %s\n", req.GetTriggerKey())
		}
		return err
	}
	if c.out.json {
		if err := c.out.message(resp); err != nil || !c.cmd.Bool("watch") {
			return err
		}
	} else {
		c.out.firings("", []*fireoncev1.Firing{resp.GetFiring()})
	}
	if !c.cmd.Bool("watch") {
		return nil
	}
	return c.watchJob(ctx, resp.GetFiring().GetJobId())
}

func skipFiring(ctx context.Context, c *call) error {
	req, err := ofSchedule(c, &fireoncev1.SkipFiringRequest{Name: c.cmd.String("firing"), Undo: c.cmd.Bool("undo")})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.SkipFiring(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.planned("Next firings", resp.GetNextFirings())
	return nil
}

func backfillSchedule(ctx context.Context, c *call) error {
	req, err := ofSchedule(c, &fireoncev1.BackfillScheduleRequest{DryRun: !c.cmd.Bool("confirm")})
	if err != nil {
		return err
	}
	if req.StartTime, err = timeFlag(c.cmd, "from"); err != nil {
		return err
	}
	if req.EndTime, err = timeFlag(c.cmd, "until"); err != nil {
		return err
	}
	all := &fireoncev1.BackfillScheduleResponse{}
	defer c.out.progress.Clear()
	for {
		short, cancel := unary(ctx)
		resp, err := c.Schedules.BackfillSchedule(short, req)
		cancel()
		if err != nil {
			return err
		}
		c.out.progress.Show("%d times looked at", len(all.GetFirings())+int(all.GetPresent()))
		all.Firings, all.Present = append(all.Firings, resp.GetFirings()...), all.GetPresent()+resp.GetPresent()
		all.WithoutContent = append(all.WithoutContent, resp.GetWithoutContent()...)
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
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
