package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

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
				Flags: flags(append(append(append(specFlags(), payloadFlags()...), policyFlags()...),
					&cli.StringFlag{Name: "connection", Usage: "the connection's `ID`, or the key under which it was created", Required: true},
					&cli.StringFlag{Name: "key", Usage: "the `KEY` of the schedule, by which a repeat of this call finds it; default: a new one"},
					&cli.StringFlag{Name: "name", Usage: "the `NAME` that people read"},
					&duration.Flag{Name: "window", Usage: "how late a job may start, as a `DURATION`", DefaultText: "2h"},
					&cli.StringFlag{Name: "policy", Usage: "if an outcome stays unknown: a `POLICY`: hold, assume-sent or resend"},
					&cli.StringSliceFlag{Name: "label", Usage: "a `NAME=VALUE` to find the schedule by; may be repeated"},
					&cli.StringSliceFlag{Name: "job-label", Usage: "a `NAME=VALUE` to find its jobs by; may be repeated"},
					&cli.BoolFlag{Name: "queue", Usage: "take content from a queue, in place of --url, --text or --payload-file: see fireonce schedules items"},
					skipIfPresentFlag(),
					&cli.BoolFlag{Name: "paused", Usage: "create it paused"},
					&cli.StringFlag{Name: "note", Usage: "why, as `TEXT` for the record"},
					&cli.BoolFlag{Name: "validate-only", Usage: "check the request, store nothing"},
				)...),
				Action: action(createSchedule),
			},
			{
				Name: "preview", Usage: "show when a schedule fires, stored or not", ArgsUsage: "[SCHEDULE]",
				Flags: flags(append(specFlags(), scheduleKeyFlag(),
					&cli.StringFlag{Name: "from", Usage: "from this RFC 3339 `TIME` on", DefaultText: "now"},
					&cli.StringFlag{Name: "until", Usage: "up to this RFC 3339 `TIME`"},
					&cli.IntFlag{Name: "count", Usage: "the `NUMBER` of firings, up to 1000", Value: 10},
				)...),
				Action: action(previewSchedule),
			},
			{
				Name: "get", Usage: "show a schedule, its last and its next firings", ArgsUsage: "SCHEDULE",
				Flags: flags(scheduleKeyFlag()), Action: action(getSchedule),
			},
			{
				Name: "list", Usage: "list schedules, newest first",
				Flags:  flags(append(scheduleFilterFlags(), pageFlags("schedules")...)...),
				Action: action(listSchedules),
			},
			{
				Name: "firings", Usage: "list what became of a schedule's firings, newest first", ArgsUsage: "SCHEDULE",
				Flags: flags(append(pageFlags("firings"), scheduleKeyFlag(),
					&cli.StringSliceFlag{Name: "outcome", Usage: "only those with this `OUTCOME`, e.g. missed; may be repeated"},
				)...),
				Action: action(listFirings),
			},
			{
				Name: "update", Usage: "change a schedule: the parts that flags name, each as a whole", ArgsUsage: "SCHEDULE",
				Description: "Flags of times replace all times. Content and policies keep what no flag names.",
				Flags: flags(append(append(append(specFlags(), payloadFlags()...), policyFlags()...), scheduleKeyFlag(), scheduleEtagFlag(),
					&cli.StringFlag{Name: "connection", Usage: "the connection's `ID` or key", DefaultText: "as it was"},
					&cli.StringFlag{Name: "name", Usage: "the `NAME` that people read"},
					&duration.Flag{Name: "window", Usage: "how late a job may start, as a `DURATION`", DefaultText: "as it was"},
					&cli.BoolFlag{Name: "queue", Usage: "take content from a queue from now on"},
					skipIfPresentFlag(),
					&cli.StringFlag{Name: "policy", Usage: "if an outcome stays unknown: a `POLICY`: hold, assume-sent or resend"},
					&cli.StringSliceFlag{Name: "label", Usage: "a `NAME=VALUE` to find the schedule by; may be repeated; replaces all"},
					&cli.StringSliceFlag{Name: "job-label", Usage: "a `NAME=VALUE` to find its jobs by; may be repeated; replaces all"},
				)...),
				Action: action(updateSchedule),
			},
			{
				Name: "pause", Usage: "make no jobs until it is resumed", ArgsUsage: "[SCHEDULE]",
				Description: "Without SCHEDULE: every schedule that the filter's flags select; without --confirm it only says which.",
				Flags:       flags(append(scheduleFilterFlags(), scheduleKeyFlag(), scheduleEtagFlag(), noteFlag(), confirmFlag())...),
				Action:      action(pauseSchedule),
			},
			{
				Name: "resume", Usage: "go on from now", ArgsUsage: "[SCHEDULE]",
				Description: "Without SCHEDULE: every schedule that the filter's flags select; without --confirm it only says which.",
				Flags:       flags(append(scheduleFilterFlags(), scheduleKeyFlag(), scheduleEtagFlag(), noteFlag(), confirmFlag())...),
				Action:      action(resumeSchedule),
			},
			{
				Name: "delete", Usage: "end a schedule for good; jobs that it made go on", ArgsUsage: "SCHEDULE",
				Flags: flags(scheduleKeyFlag(), scheduleEtagFlag()), Action: action(deleteSchedule),
			},
			{
				Name: "trigger", Usage: "make one job now", ArgsUsage: "SCHEDULE",
				Flags: flags(scheduleKeyFlag(),
					&cli.StringFlag{Name: "trigger-key", Usage: "the `KEY` of this trigger: the same one is the same job; default: a new one"},
					&cli.BoolFlag{Name: "allow-overlap", Usage: "also while an earlier job has not ended"},
					&cli.BoolFlag{Name: "watch", Usage: "follow the job until it ends or needs a person; exit 1 unless it succeeded"},
				),
				Action: action(triggerSchedule),
			},
			{
				Name: "skip", Usage: "leave out one firing to come", ArgsUsage: "SCHEDULE",
				Flags: flags(scheduleKeyFlag(),
					&cli.StringFlag{Name: "firing", Usage: "its `NAME`, as get and preview show it", Required: true},
					&cli.BoolFlag{Name: "undo", Usage: "put it back"},
				),
				Action: action(skipFiring),
			},
			itemsCommand(),
			{
				Name: "backfill", Usage: "make jobs for times that have passed and have none", ArgsUsage: "SCHEDULE",
				Description: "Without --confirm it only says which jobs it would make.",
				Flags: flags(scheduleKeyFlag(),
					&cli.StringFlag{Name: "from", Usage: "from this RFC 3339 `TIME` on", Required: true},
					&cli.StringFlag{Name: "until", Usage: "up to this RFC 3339 `TIME`; not in the future", Required: true},
					confirmFlag(),
				),
				Action: action(backfillSchedule),
			},
		},
	}
}

// scheduleKeyFlag names a schedule by its key instead of its id.
func scheduleKeyFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "the `KEY` under which the schedule was created; needed only where that is a UUID"}
}

func scheduleEtagFlag() cli.Flag {
	return &cli.StringFlag{Name: "etag", Usage: "the schedule as you saw it, by its `ETAG`; default: as it is now"}
}

func noteFlag() cli.Flag {
	return &cli.StringFlag{Name: "note", Usage: "why, as `TEXT` for the record"}
}

func confirmFlag() cli.Flag { return &cli.BoolFlag{Name: "confirm", Usage: "do it"} }

func scheduleFilterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "state", Usage: "only those in this `STATE`, e.g. paused; may be repeated"},
		&cli.StringSliceFlag{Name: "cause", Usage: "only those paused for this `CAUSE`, e.g. failures; may be repeated"},
		&cli.StringSliceFlag{Name: "connection", Usage: "only those of this connection, by `ID` or key; may be repeated"},
		&cli.StringSliceFlag{Name: "label", Usage: "only those with `NAME=VALUE`; may be repeated, all must match"},
	}
}

// ofSchedule sets the schedule that the arguments name.
func ofSchedule[T proto.Message](c *call, req T) (T, error) {
	id, key, err := c.argument("schedule")
	if err != nil {
		return req, err
	}
	return named(req, "schedule_id", id, key), nil
}

// enums reads the values of a flag that names values of an enum.
func enums[E ~int32](cmd *cli.Command, flag, prefix string, values map[string]int32) ([]E, error) {
	var out []E
	for _, text := range cmd.StringSlice(flag) {
		e, err := oneEnum[E](flag, text, prefix, values)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func oneEnum[E ~int32](flag, text, prefix string, values map[string]int32) (E, error) {
	v, ok := values[enumName(prefix, text)]
	if !ok || v == 0 {
		return 0, exit.Usagef("--%s %q: must be one of %s", flag, text, enumWords(prefix, values))
	}
	return E(v), nil
}

// enumWords lists the values of an enum as flags take them, in their order.
func enumWords(prefix string, values map[string]int32) string {
	var out []string
	for _, name := range slices.SortedFunc(maps.Keys(values), func(a, b string) int { return int(values[a] - values[b]) }) {
		if values[name] != 0 {
			out = append(out, strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, prefix), "_", "-")))
		}
	}
	return strings.Join(out, ", ")
}

func (c *call) scheduleFilter() (*fireoncev1.ScheduleFilter, error) {
	out := &fireoncev1.ScheduleFilter{}
	var err error
	if out.States, err = enums[fireoncev1.ScheduleState](c.cmd, "state", "SCHEDULE_STATE_", fireoncev1.ScheduleState_value); err != nil {
		return nil, err
	}
	if out.PauseCauses, err = enums[fireoncev1.SchedulePauseCause](c.cmd, "cause", "SCHEDULE_PAUSE_CAUSE_", fireoncev1.SchedulePauseCause_value); err != nil {
		return nil, err
	}
	out.ConnectionIds, out.ConnectionKeys = idsAndKeys(c.cmd.StringSlice("connection"))
	out.Labels, err = labels(c.cmd)
	return out, err
}

func createSchedule(ctx context.Context, c *call) error {
	if err := c.noArgs(); err != nil {
		return err
	}
	req := &fireoncev1.CreateScheduleRequest{
		IdempotencyKey: c.cmd.String("key"), DisplayName: c.cmd.String("name"), Paused: c.cmd.Bool("paused"),
		Note: c.cmd.String("note"), ValidateOnly: c.cmd.Bool("validate-only"),
	}
	if req.IdempotencyKey == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		req.IdempotencyKey = id.String()
	}
	var err error
	if req.Spec, err = spec(c.cmd); err != nil {
		return err
	}
	req.JobTemplate = &fireoncev1.JobTemplate{}
	if err := setTemplate(c.cmd, req.GetJobTemplate()); err != nil {
		return err
	}
	if anySet(c.cmd, policyFlags()) {
		req.Policies = &fireoncev1.SchedulePolicies{}
		if err := setPolicies(c.cmd, req.GetPolicies()); err != nil {
			return err
		}
	}
	if req.Labels, err = labels(c.cmd); err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := sendContent(c, req.GetJobTemplate().GetPayload(), func() (*fireoncev1.CreateScheduleResponse, error) { return c.Schedules.CreateSchedule(ctx, req) })
	if err != nil {
		c.hintContent(ctx, err, req.GetJobTemplate().GetPayload())
		if maybeStored(err) {
			fmt.Fprintf(c.cmd.Root().ErrWriter, "fireonce: the schedule may or may not be stored; repeat the call with --key %s\n", req.GetIdempotencyKey())
		}
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	if !req.GetValidateOnly() {
		c.out.schedule(resp.GetSchedule())
	}
	c.out.planned("Next firings", resp.GetNextFirings())
	return nil
}

func getSchedule(ctx context.Context, c *call) error {
	req, err := ofSchedule(c, &fireoncev1.GetScheduleRequest{OmitPayload: !c.out.json})
	if err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.GetSchedule(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.schedule(resp.GetSchedule())
	c.out.firings("Last firings", resp.GetRecentFirings())
	c.out.planned("Next firings", resp.GetNextFirings())
	return nil
}

func listSchedules(ctx context.Context, c *call) error {
	if err := c.noArgs(); err != nil {
		return err
	}
	filter, err := c.scheduleFilter()
	if err != nil {
		return err
	}
	return pages(ctx, c, func(ctx context.Context, token string) (*fireoncev1.ListSchedulesResponse, error) {
		return c.Schedules.ListSchedules(ctx, &fireoncev1.ListSchedulesRequest{Filter: filter, PageSize: pageSize(c.cmd), PageToken: token})
	}, func(page *fireoncev1.ListSchedulesResponse) { c.out.schedules(page.GetSchedules()) })
}

func listFirings(ctx context.Context, c *call) error {
	req, err := ofSchedule(c, &fireoncev1.ListFiringsRequest{PageSize: pageSize(c.cmd)})
	if err != nil {
		return err
	}
	if req.Outcomes, err = enums[fireoncev1.FiringOutcome](c.cmd, "outcome", "FIRING_OUTCOME_", fireoncev1.FiringOutcome_value); err != nil {
		return err
	}
	return pages(ctx, c, func(ctx context.Context, token string) (*fireoncev1.ListFiringsResponse, error) {
		req.PageToken = token
		return c.Schedules.ListFirings(ctx, req)
	}, func(page *fireoncev1.ListFiringsResponse) { c.out.firings("", page.GetFirings()) })
}

func previewSchedule(ctx context.Context, c *call) error {
	req := &fireoncev1.PreviewScheduleRequest{Count: int32(c.cmd.Int("count"))}
	var err error
	if specGiven(c.cmd) {
		if err := c.noArgs(); err != nil {
			return err
		}
		given, err := spec(c.cmd)
		if err != nil {
			return err
		}
		req.Subject = &fireoncev1.PreviewScheduleRequest_Spec{Spec: given}
	} else if req, err = ofSchedule(c, req); err != nil {
		return err
	}
	if req.StartTime, err = timeFlag(c.cmd, "from"); err != nil {
		return err
	}
	if req.EndTime, err = timeFlag(c.cmd, "until"); err != nil {
		return err
	}
	ctx, cancel := unary(ctx)
	defer cancel()
	resp, err := c.Schedules.PreviewSchedule(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	if len(resp.GetFirings()) == 0 {
		c.out.line("It does not fire in that time.")
	}
	c.out.planned("", resp.GetFirings())
	return nil
}
