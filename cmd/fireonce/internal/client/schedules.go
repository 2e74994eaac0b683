package client

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1/schedulesv1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func schedulesCommand() *cli.Command {
	type service = schedulesv1connect.ScheduleServiceClient
	return &cli.Command{
		Name: "schedules", Usage: "create, preview, pause and change recurring schedules",
		Description: "SCHEDULE is its id, or the key under which it was created.",
		Commands: []*cli.Command{
			asks("", newSchedule, &cli.Command{
				Name: "create", Usage: "make a new job at each of the times given",
				Description: "When: --cron, --every or --rrule in --zone. What: the same flags as for `fireonce schedule`;\n" +
					"{{nominal_date}}, {{nominal_time}} and {{run}} in texts and bodies stand for the firing's values.\n" +
					"The same call with the same key is the same schedule. Try it first with `fireonce schedules preview`.",
				Flags: slices.Concat(specFlags(), []cli.Flag{
					&cli.StringFlag{Name: "key", Usage: "`KEY` the schedule's key, by which a repeat of this call finds it", DefaultText: "a new one"},
					queueFlag(),
				}, payloadFlags()),
				Metadata: map[string]any{needs: func(cmd *cli.Command) error {
					if cmd.Bool("queue") {
						return specMissing(cmd)
					}
					return errors.Join(specMissing(cmd), contentMissing(cmd))
				}},
			}, createSchedule),
			{
				Name: "preview", Usage: "show when a schedule fires, stored or not", ArgsUsage: "[SCHEDULE]",
				Flags:  flags(slices.Concat(specFlags(), previewFields.flags(), []cli.Flag{keyFlag("schedule")})...),
				Action: action(previewSchedule),
			},
			asks("schedule", fieldsOf(&schedulesv1.GetScheduleRequest{}), &cli.Command{Name: "get", Usage: "show a schedule, its last and its next firings"}, getSchedule),
			lists("", "schedules", scheduleFilter, service.ListSchedules,
				func(c *call, page *schedulesv1.ListSchedulesResponse) { c.out.schedules(page.GetSchedules()) },
				&cli.Command{Name: "list", Usage: "list schedules, newest first"}),
			lists("schedule", "firings", "outcomes", service.ListFirings,
				func(c *call, page *schedulesv1.ListFiringsResponse) { c.out.firings("", page.GetFirings()) },
				&cli.Command{Name: "firings", Usage: "list what became of a schedule's firings, newest first"}),
			{
				Name: "update", Usage: "change a schedule: the parts that flags name, each as a whole", ArgsUsage: "SCHEDULE",
				Description: "Flags of times replace all times. Content and policies keep what no flag names.",
				Flags: flags(slices.Concat(changedSchedule.flags(), specFlags(), []cli.Flag{
					queueFlag(), keyFlag("schedule"), etagFlag("schedule"),
				}, payloadFlags())...),
				Action: action(updateSchedule),
			},
			pauseOrResume("pause", "make no jobs until it is resumed", service.PauseSchedule, service.BulkPauseSchedules),
			pauseOrResume("resume", "go on from now", service.ResumeSchedule, service.BulkResumeSchedules),
			on("schedule", "", service.DeleteSchedule, showSchedule,
				&cli.Command{Name: "delete", Usage: "end a schedule permanently; jobs that it made go on"}),
			asks("schedule", fieldsOf(&schedulesv1.TriggerScheduleRequest{}, "allow_overlap"), &cli.Command{
				Name: "trigger", Usage: "make one job now",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "trigger-key", Usage: "`KEY` the trigger's key: the same one is the same job", DefaultText: "a new one"},
					boolFlag("watch", "follow the job until it ends or needs a person; exit 1 unless it succeeded"),
				},
			}, triggerSchedule),
			on("schedule", "firing:NAME=name! undo", service.SkipFiring, func(c *call, resp *schedulesv1.SkipFiringResponse) {
				c.out.planned("Next firings", resp.GetNextFirings())
			}, &cli.Command{Name: "skip", Usage: "leave out one firing to come"}),
			itemsCommand(),
			asks("schedule", fieldsOf(&schedulesv1.BackfillScheduleRequest{}, "from=start_time! until=end_time!"), &cli.Command{
				Name: "backfill", Usage: "make jobs for times that have passed and have none",
				Description: "Without --confirm it only says which jobs it would make.", Flags: []cli.Flag{confirmFlag()},
			}, backfillSchedule),
		},
	}
}

// scheduleFilter has the words of a ScheduleFilter's flags, in a request's field filter.
var scheduleFilter = below("filter", "states cause=pause_causes connection=connection_ids labels")

var (
	newSchedule = fieldsOf(&schedulesv1.CreateScheduleRequest{}, strings.Replace(templateFields, "connection_id", "connection_id!", 1)).
			and(fieldsOf(&schedulesv1.CreateScheduleRequest{}, templateRetry).otherwise("the connection's")).
			and(fieldsOf(&schedulesv1.CreateScheduleRequest{}, "name=display_name labels paused note:TEXT=note validate_only", policyFields))
	changedSchedule = fieldsOf(&schedulesv1.UpdateScheduleRequest{}, templateFields, templateRetry, "name=display_name labels", policyFields).otherwise("as it was")
	previewFields   = fieldsOf(&schedulesv1.PreviewScheduleRequest{}, "from=start_time until=end_time count")
)

func queueFlag() cli.Flag {
	return boolFlag("queue", "take content from a queue, in place of --url, --text or --payload-file: see fireonce schedules items")
}

func confirmFlag() cli.Flag { return boolFlag("confirm", "do it") }

func createSchedule(ctx context.Context, c *call, req *schedulesv1.CreateScheduleRequest) (err error) {
	if req.IdempotencyKey, err = keyOrNew(c.cmd, "key"); err != nil {
		return err
	}
	if req.Spec, err = spec(c.cmd); err != nil {
		return err
	}
	if err := setContent(c.cmd, req.GetJobTemplate()); err != nil {
		return err
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

func getSchedule(ctx context.Context, c *call, req *schedulesv1.GetScheduleRequest) error {
	req.OmitPayload = !c.out.json
	return callAndPrint(ctx, c, c.Schedules.GetSchedule, req, func(c *call, resp *schedulesv1.GetScheduleResponse) {
		c.out.schedule(resp.GetSchedule())
		c.out.firings("Last firings", resp.GetRecentFirings())
		c.out.planned("Next firings", resp.GetNextFirings())
	})
}

func previewSchedule(ctx context.Context, c *call) error {
	req := &schedulesv1.PreviewScheduleRequest{}
	err := previewFields.set(c.cmd, req)
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
	} else if err := c.setName("schedule", req); err != nil {
		return err
	}
	return callAndPrint(ctx, c, c.Schedules.PreviewSchedule, req, func(c *call, resp *schedulesv1.PreviewScheduleResponse) {
		if len(resp.GetFirings()) == 0 {
			c.out.line("It does not fire in that time.")
		}
		c.out.planned("", resp.GetFirings())
	})
}
