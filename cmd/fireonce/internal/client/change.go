package client

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: where the contract requires an etag and no --etag is given, the job's present
// one is used. Elsewhere a call without --etag holds in whatever state the job is by then.

func updateCommand() *cli.Command {
	return &cli.Command{
		Name: "update", Usage: "change content, labels or policies of a job", ArgsUsage: "[JOB]",
		Description: "Content and --attempt-timeout change only while the job is SCHEDULED; labels, policies and the time zone also while it is\n" +
			"RETRYING, ACCEPTED, AMBIGUOUS or NEEDS_RESOLUTION. The key stays bound to the request that made the job: repeating that request gives the changed job.",
		Flags: flags(append([]cli.Flag{
			keyFlag("job"), etagFlag("job"),
			textsFlag("label", "`NAME=VALUE` of the labels that replace all others; may be repeated"),
			boolFlag("no-labels", "take all labels away"),
			deliveryFlag(),
			textFlag("time-zone", "the IANA `NAME` in which to show the time"),
		}, append(jobRetryFlags(ofConnection, "as it was"), payloadFlags()...)...)...),
		Action: action(update),
	}
}

func update(ctx context.Context, c *call) error {
	req := &fireoncev1.UpdateJobRequest{UpdateMask: &fieldmaskpb.FieldMask{}}
	var err error
	if payloadGiven(c.cmd) {
		if req.Payload, err = payload(c.cmd); err != nil {
			return err
		}
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "payload")
	}
	err = setFromFlags(c.cmd, req, "label", "labels", "delivery", "delivery")
	if err != nil {
		return err
	}
	if req.RetryPolicy, err = retryPolicy(c.cmd); err != nil {
		return err
	}
	if req.GetRetryPolicy() != nil {
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "retry_policy")
	}
	if err := noLabels(c.cmd, req.GetUpdateMask()); err != nil {
		return err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return exit.Usagef("name what to change: new content, --label, --no-labels, --delivery, --max-attempts, --retry-delay, --keep-trying, --attempt-timeout or --time-zone")
	}
	if req, err = withName(c, "job", req); err != nil {
		return err
	}
	if req.Etag, err = c.etag(ctx); err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetPayload(), c.Jobs.UpdateJob, req)
	return printAnswer(c, resp, err, briefJob)
}

// noLabels reads --no-labels.
func noLabels(cmd *cli.Command, mask *fieldmaskpb.FieldMask) error {
	switch {
	case !cmd.Bool("no-labels"):
	case len(cmd.StringSlice("label")) > 0:
		return exit.Usagef("give --label or --no-labels, not both")
	default:
		mask.Paths = append(mask.Paths, "labels")
	}
	return nil
}

func rescheduleCommand() *cli.Command {
	return &cli.Command{
		Name: "reschedule", Usage: "move a job that waits for its time", ArgsUsage: "[JOB]",
		Flags: flags(append(whenFlags(""),
			zoneFlag(), keyFlag("job"), etagFlag("job"),
			&duration.Flag{Name: "window", Usage: "how late it may start, as a `DURATION`", DefaultText: "as it was"},
		)...),
		Action: action(reschedule),
	}
}

func reschedule(ctx context.Context, c *call) error {
	at, local, err := when(c.cmd, time.Now())
	if err != nil {
		return err
	}
	if at == nil && local == nil {
		return exit.Usagef("say when, with --at or --in")
	}
	req := &fireoncev1.RescheduleJobRequest{ScheduleTime: at, LocalTime: local}
	if err := setFromFlags(c.cmd, req, "window", "start_window"); err != nil {
		return err
	}
	return callOn(ctx, c, "job", c.Jobs.RescheduleJob, req, func(c *call, resp *fireoncev1.RescheduleJobResponse) {
		c.tellMark(resp)
		c.out.brief(resp.GetJob())
	})
}

func runNowCommand() *cli.Command {
	return &cli.Command{
		Name: "run-now", Usage: "make a waiting job due immediately", ArgsUsage: "[JOB]",
		Description: "It does not pass a pause, a hold or a rate limit, and schedule_time stays as it is.",
		Flags:       flags(keyFlag("job"), etagFlag("job")),
		Action: action(func(ctx context.Context, c *call) error {
			return callOn(ctx, c, "job", c.Jobs.RunJobNow, &fireoncev1.RunJobNowRequest{}, briefJob)
		}),
	}
}

func retryCommand() *cli.Command {
	return &cli.Command{
		Name: "retry", Usage: "give a job that FAILED or EXPIRED another chance", ArgsUsage: "[JOB]",
		Flags:  flags(append(whenFlags(""), keyFlag("job"), etagFlag("job"))...),
		Action: action(retry),
	}
}

func retry(ctx context.Context, c *call) error {
	at, _, err := when(c.cmd, time.Now())
	if err != nil {
		return err
	}
	etag, err := c.etag(ctx)
	if err != nil {
		return err
	}
	return callOn(ctx, c, "job", c.Jobs.RetryJob, &fireoncev1.RetryJobRequest{NextAttemptTime: at, Etag: etag}, briefJob)
}

// etag returns --etag, or else the job's present etag.
func (c *call) etag(ctx context.Context) (string, error) {
	if etag := c.cmd.String("etag"); etag != "" {
		return etag, nil
	}
	resp, err := c.job(ctx, true)
	return resp.GetJob().GetEtag(), err
}

// briefJob prints the job that a call changed.
func briefJob[R interface{ GetJob() *fireoncev1.Job }](c *call, resp R) { c.out.brief(resp.GetJob()) }
