package client

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/duration"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: where the contract requires an etag and no --etag is given, the job's present
// one is used.

func updateCommand() *cli.Command {
	return &cli.Command{
		Name: "update", Usage: "change content, labels or policies of a job", ArgsUsage: "[JOB]",
		Description: "Content and --attempt-timeout change only while the job is SCHEDULED; labels, policies and the time zone also while it is\n" +
			"RETRYING, ACCEPTED, AMBIGUOUS or NEEDS_RESOLUTION. The key stays bound to the request that made the job: repeating that request gives the changed job.",
		Flags: flags(append([]cli.Flag{
			keyFlag(), etagFlag(),
			&cli.StringSliceFlag{Name: "label", Usage: "`NAME=VALUE` of the labels that replace all others; may be repeated"},
			&cli.BoolFlag{Name: "no-labels", Usage: "take all labels away"},
			&cli.StringFlag{Name: "policy", Usage: "what to do when the outcome stays unknown: a `POLICY`: hold, assume-sent or resend"},
			&cli.IntFlag{Name: "max-attempts", Usage: "the `NUMBER` of attempts in all; the waits between them are the defaults then", HideDefault: true},
			&duration.Flag{Name: "attempt-timeout", Usage: "how long one request to the target may take, as a `DURATION`", HideDefault: true},
			&cli.StringFlag{Name: "time-zone", Usage: "the IANA `NAME` in which to show the time"},
		}, payloadFlags()...)...),
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
	if c.cmd.IsSet("label") || c.cmd.Bool("no-labels") {
		if req.Labels, err = labels(c.cmd); err != nil {
			return err
		}
		if c.cmd.Bool("no-labels") && len(req.GetLabels()) > 0 {
			return exit.Usagef("give --label or --no-labels, not both")
		}
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "labels")
	}
	if err := setTerms(c.cmd, req); err != nil {
		return err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return exit.Usagef("name what to change: new content, --label, --no-labels, --policy, --max-attempts, --attempt-timeout or --time-zone")
	}
	if req, err = ofJob(c, req); err != nil {
		return err
	}
	if req.Etag, err = c.etag(ctx); err != nil {
		return err
	}
	ctx, done := unary(ctx)
	defer done()
	resp, err := sendContent(c, req.GetPayload(), func() (*fireoncev1.UpdateJobResponse, error) { return c.Jobs.UpdateJob(ctx, req) })
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
}

// setTerms names the policies and the time zone that the flags change.
func setTerms(cmd *cli.Command, req *fireoncev1.UpdateJobRequest) error {
	mask := req.GetUpdateMask()
	if cmd.IsSet("policy") {
		var err error
		if req.AmbiguityPolicy, err = policy(cmd.String("policy")); err != nil {
			return err
		}
		mask.Paths = append(mask.Paths, "ambiguity_policy")
	}
	if cmd.IsSet("max-attempts") {
		req.RetryPolicy = &fireoncev1.RetryPolicy{MaxAttempts: int32(cmd.Int("max-attempts"))}
		mask.Paths = append(mask.Paths, "retry_policy")
	}
	if cmd.IsSet("attempt-timeout") {
		req.AttemptTimeout = durationpb.New(cmd.Duration("attempt-timeout"))
		mask.Paths = append(mask.Paths, "attempt_timeout")
	}
	if cmd.IsSet("time-zone") {
		req.TimeZone = cmd.String("time-zone")
		mask.Paths = append(mask.Paths, "time_zone")
	}
	return nil
}

func rescheduleCommand() *cli.Command {
	return &cli.Command{
		Name: "reschedule", Usage: "move a job that waits for its time", ArgsUsage: "[JOB]",
		Flags: flags(append(whenFlags(""),
			zoneFlag(), keyFlag(), etagFlag(),
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
	req, err := ofJob(c, &fireoncev1.RescheduleJobRequest{ScheduleTime: at, LocalTime: local, Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	if c.cmd.IsSet("window") {
		req.StartWindow = durationpb.New(c.cmd.Duration("window"))
	}
	ctx, done := unary(ctx)
	defer done()
	resp, err := c.Jobs.RescheduleJob(ctx, req)
	if err != nil {
		return err
	}
	if !c.out.json {
		c.tellMark(resp)
	}
	return c.changed(resp, resp.GetJob())
}

func runNowCommand() *cli.Command {
	return &cli.Command{
		Name: "run-now", Usage: "make a waiting job due immediately", ArgsUsage: "[JOB]",
		Description: "It does not pass a pause, a hold or a rate limit, and schedule_time stays as it is.",
		Flags:       flags(keyFlag(), etagFlag()),
		Action:      action(runNow),
	}
}

func runNow(ctx context.Context, c *call) error {
	req, err := ofJob(c, &fireoncev1.RunJobNowRequest{Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	ctx, done := unary(ctx)
	defer done()
	// Without --etag it holds in whatever state the job is by then.
	resp, err := c.Jobs.RunJobNow(ctx, req)
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
}

func retryCommand() *cli.Command {
	return &cli.Command{
		Name: "retry", Usage: "give a job that FAILED or EXPIRED another chance", ArgsUsage: "[JOB]",
		Flags:  flags(append(whenFlags(""), keyFlag(), etagFlag())...),
		Action: action(retry),
	}
}

func retry(ctx context.Context, c *call) error {
	at, _, err := when(c.cmd, time.Now())
	if err != nil {
		return err
	}
	req, err := ofJob(c, &fireoncev1.RetryJobRequest{NextAttemptTime: at})
	if err != nil {
		return err
	}
	if req.Etag, err = c.etag(ctx); err != nil {
		return err
	}
	ctx, done := unary(ctx)
	defer done()
	resp, err := c.Jobs.RetryJob(ctx, req)
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
}

// etag returns --etag, or else the job's present etag.
func (c *call) etag(ctx context.Context) (string, error) {
	if etag := c.cmd.String("etag"); etag != "" {
		return etag, nil
	}
	resp, err := c.job(ctx, true)
	return resp.GetJob().GetEtag(), err
}

// changed prints the answer of a call that changed one job.
func (c *call) changed(resp message, j *fireoncev1.Job) error {
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.brief(j)
	return nil
}
