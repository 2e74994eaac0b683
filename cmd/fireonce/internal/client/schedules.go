package client

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func schedulesCommand() *cli.Command {
	return &cli.Command{
		Name: "schedules", Usage: "create, preview, pause and change recurring schedules",
		Description: "SCHEDULE is its id, or the key under which it was created.",
		Commands: []*cli.Command{
			{
				Name: "create", Usage: "make a new job at each of the times given",
				Description: "When: --cron, --every or --rrule in --zone. What: the same flags as for `fireonce schedule`;\n" +
					"{{nominal_date}}, {{nominal_time}} and {{run}} in texts and bodies stand for the firing's values.\n" +
					"The same call with the same key is the same schedule. Try it first with `fireonce schedules preview`.",
				Flags: flags(append(append(append(append(specFlags(), payloadFlags()...), policyFlags()...), jobRetryFlags(ofConnection, "30s")...),
					&cli.StringFlag{Name: "connection", Usage: "the connection's `ID`, or the key under which it was created", Required: true},
					textFlag("key", "the `KEY` of the schedule, by which a repeat of this call finds it; default: a new one"),
					textFlag("name", "the `NAME` that people read"),
					&duration.Flag{Name: "window", Usage: "how late a job may start, as a `DURATION`", DefaultText: "2h"},
					deliveryFlag(),
					textsFlag("label", "a `NAME=VALUE` to find the schedule by; may be repeated"),
					textsFlag("job-label", "a `NAME=VALUE` to find its jobs by; may be repeated"),
					boolFlag("queue", "take content from a queue, in place of --url, --text or --payload-file: see fireonce schedules items"),
					skipIfPresentFlag(),
					boolFlag("paused", "create it paused"),
					textFlag("note", "why, as `TEXT` for the record"),
					boolFlag("validate-only", "check the request, store nothing"),
				)...),
				Action: action(createSchedule),
			},
			{
				Name: "preview", Usage: "show when a schedule fires, stored or not", ArgsUsage: "[SCHEDULE]",
				Flags: flags(append(specFlags(), keyFlag("schedule"),
					&cli.StringFlag{Name: "from", Usage: "from this RFC 3339 `TIME` on", DefaultText: "now"},
					textFlag("until", "up to this RFC 3339 `TIME`"),
					&cli.IntFlag{Name: "count", Usage: "the `NUMBER` of firings, up to 1000", Value: 10},
				)...),
				Action: action(previewSchedule),
			},
			{
				Name: "get", Usage: "show a schedule, its last and its next firings", ArgsUsage: "SCHEDULE",
				Flags: flags(keyFlag("schedule")), Action: action(getSchedule),
			},
			{
				Name: "list", Usage: "list schedules, newest first",
				Flags:  flags(append(scheduleFilterFlags(), pageFlags("schedules")...)...),
				Action: action(listSchedules),
			},
			{
				Name: "firings", Usage: "list what became of a schedule's firings, newest first", ArgsUsage: "SCHEDULE",
				Flags: flags(append(pageFlags("firings"), keyFlag("schedule"),
					textsFlag("outcome", "only those with this `OUTCOME`, e.g. missed; may be repeated"),
				)...),
				Action: action(listFirings),
			},
			{
				Name: "update", Usage: "change a schedule: the parts that flags name, each as a whole", ArgsUsage: "SCHEDULE",
				Description: "Flags of times replace all times. Content and policies keep what no flag names.",
				Flags: flags(append(append(append(append(specFlags(), payloadFlags()...), policyFlags()...), jobRetryFlags("as it was", "as it was")...), keyFlag("schedule"), etagFlag("schedule"),
					&cli.StringFlag{Name: "connection", Usage: "the connection's `ID` or key", DefaultText: "as it was"},
					textFlag("name", "the `NAME` that people read"),
					&duration.Flag{Name: "window", Usage: "how late a job may start, as a `DURATION`", DefaultText: "as it was"},
					boolFlag("queue", "take content from a queue from now on"),
					skipIfPresentFlag(),
					deliveryFlag(),
					textsFlag("label", "a `NAME=VALUE` to find the schedule by; may be repeated; replaces all"),
					textsFlag("job-label", "a `NAME=VALUE` to find its jobs by; may be repeated; replaces all"),
				)...),
				Action: action(updateSchedule),
			},
			{
				Name: "pause", Usage: "make no jobs until it is resumed", ArgsUsage: "[SCHEDULE]",
				Description: "Without SCHEDULE: every schedule that the filter's flags select; without --confirm it only says which.",
				Flags:       flags(append(scheduleFilterFlags(), keyFlag("schedule"), etagFlag("schedule"), noteFlag(), confirmFlag())...),
				Action:      action(pauseSchedule),
			},
			{
				Name: "resume", Usage: "go on from now", ArgsUsage: "[SCHEDULE]",
				Description: "Without SCHEDULE: every schedule that the filter's flags select; without --confirm it only says which.",
				Flags:       flags(append(scheduleFilterFlags(), keyFlag("schedule"), etagFlag("schedule"), noteFlag(), confirmFlag())...),
				Action:      action(resumeSchedule),
			},
			{
				Name: "delete", Usage: "end a schedule permanently; jobs that it made go on", ArgsUsage: "SCHEDULE",
				Flags: flags(keyFlag("schedule"), etagFlag("schedule")),
				Action: action(func(ctx context.Context, c *call) error {
					return callOn(ctx, c, "schedule", c.Schedules.DeleteSchedule, &schedulesv1.DeleteScheduleRequest{}, showSchedule)
				}),
			},
			{
				Name: "trigger", Usage: "make one job now", ArgsUsage: "SCHEDULE",
				Flags: flags(keyFlag("schedule"),
					textFlag("trigger-key", "the `KEY` of this trigger: the same one is the same job; default: a new one"),
					boolFlag("allow-overlap", "also while an earlier job has not ended"),
					boolFlag("watch", "follow the job until it ends or needs a person; exit 1 unless it succeeded"),
				),
				Action: action(triggerSchedule),
			},
			{
				Name: "skip", Usage: "leave out one firing to come", ArgsUsage: "SCHEDULE",
				Flags: flags(keyFlag("schedule"),
					&cli.StringFlag{Name: "firing", Usage: "its `NAME`, as get and preview show it", Required: true},
					boolFlag("undo", "put it back"),
				),
				Action: action(skipFiring),
			},
			itemsCommand(),
			{
				Name: "backfill", Usage: "make jobs for times that have passed and have none", ArgsUsage: "SCHEDULE",
				Description: "Without --confirm it only says which jobs it would make.",
				Flags: flags(keyFlag("schedule"),
					&cli.StringFlag{Name: "from", Usage: "from this RFC 3339 `TIME` on", Required: true},
					&cli.StringFlag{Name: "until", Usage: "up to this RFC 3339 `TIME`; not in the future", Required: true},
					confirmFlag(),
				),
				Action: action(backfillSchedule),
			},
		},
	}
}

func noteFlag() cli.Flag {
	return textFlag("note", "why, as `TEXT` for the record")
}

func confirmFlag() cli.Flag { return boolFlag("confirm", "do it") }

func scheduleFilterFlags() []cli.Flag {
	return []cli.Flag{
		textsFlag("state", "only those in this `STATE`, e.g. paused; may be repeated"),
		textsFlag("cause", "only those paused for this `CAUSE`, e.g. failures; may be repeated"),
		textsFlag("connection", "only those of this connection, by `ID` or key; may be repeated"),
		textsFlag("label", "only those with `NAME=VALUE`; may be repeated, all must match"),
	}
}

func (c *call) scheduleFilter() (*schedulesv1.ScheduleFilter, error) {
	out := &schedulesv1.ScheduleFilter{}
	out.ConnectionIds, out.ConnectionKeys = idsAndKeys(c.cmd.StringSlice("connection"))
	return out, setFromFlags(c.cmd, out, "state", "states", "cause", "pause_causes", "label", "labels")
}

func createSchedule(ctx context.Context, c *call) error {
	req := &schedulesv1.CreateScheduleRequest{JobTemplate: &schedulesv1.JobTemplate{}}
	err := setFromFlags(c.cmd, req, "name", "display_name", "label", "labels")
	if err != nil {
		return err
	}
	if req.IdempotencyKey, err = keyOrNew(c.cmd, "key"); err != nil {
		return err
	}
	if req.Spec, err = spec(c.cmd); err != nil {
		return err
	}
	if err := setTemplate(c.cmd, req.GetJobTemplate()); err != nil {
		return err
	}
	if anySet(c.cmd, policyFlags()) {
		req.Policies = &schedulesv1.SchedulePolicies{}
		if err := setFromFlags(c.cmd, req.GetPolicies()); err != nil {
			return err
		}
	}
	resp, err := sendContent(ctx, c, req.GetJobTemplate().GetPayload(), c.Schedules.CreateSchedule, req)
	if err != nil {
		c.hintContent(ctx, err, req.GetJobTemplate().GetPayload())
		return c.tellRepeat(err, "schedule", "key", req.GetIdempotencyKey())
	}
	return printAnswer(c, resp, nil, func(c *call, resp *schedulesv1.CreateScheduleResponse) {
		if !req.GetValidateOnly() {
			c.out.schedule(resp.GetSchedule())
		}
		c.out.planned("Next firings", resp.GetNextFirings())
	})
}

func getSchedule(ctx context.Context, c *call) error {
	req := &schedulesv1.GetScheduleRequest{OmitPayload: !c.out.json}
	return callOn(ctx, c, "schedule", c.Schedules.GetSchedule, req, func(c *call, resp *schedulesv1.GetScheduleResponse) {
		c.out.schedule(resp.GetSchedule())
		c.out.firings("Last firings", resp.GetRecentFirings())
		c.out.planned("Next firings", resp.GetNextFirings())
	})
}

func listSchedules(ctx context.Context, c *call) error {
	filter, err := c.scheduleFilter()
	if err != nil {
		return err
	}
	req := &schedulesv1.ListSchedulesRequest{Filter: filter}
	return pages(ctx, c, c.Schedules.ListSchedules, req, func(page *schedulesv1.ListSchedulesResponse) {
		c.out.schedules(page.GetSchedules())
	})
}

func listFirings(ctx context.Context, c *call) error {
	req, err := withName(c, "schedule", &schedulesv1.ListFiringsRequest{})
	if err != nil {
		return err
	}
	if err := setFromFlags(c.cmd, req, "outcome", "outcomes"); err != nil {
		return err
	}
	return pages(ctx, c, c.Schedules.ListFirings, req, func(page *schedulesv1.ListFiringsResponse) {
		c.out.firings("", page.GetFirings())
	})
}

func previewSchedule(ctx context.Context, c *call) error {
	req := &schedulesv1.PreviewScheduleRequest{Count: int32(c.cmd.Int("count"))}
	err := setFromFlags(c.cmd, req, "from", "start_time", "until", "end_time")
	if err != nil {
		return err
	}
	if specGiven(c.cmd) {
		if c.cmd.Args().Present() {
			return exit.Usagef("name a schedule, or give its times; not both")
		}
		given, err := spec(c.cmd)
		if err != nil {
			return err
		}
		req.Subject = &schedulesv1.PreviewScheduleRequest_Spec{Spec: given}
	} else if req, err = withName(c, "schedule", req); err != nil {
		return err
	}
	return callAndPrint(ctx, c, c.Schedules.PreviewSchedule, req, func(c *call, resp *schedulesv1.PreviewScheduleResponse) {
		if len(resp.GetFirings()) == 0 {
			c.out.line("It does not fire in that time.")
		}
		c.out.planned("", resp.GetFirings())
	})
}
