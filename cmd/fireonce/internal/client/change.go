package client

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: a change names the job as it was read. Where the contract
// wants an etag and none is given, the job is read first, so that two people at
// two terminals do not undo each other's work unseen.

func updateCommand() *cli.Command {
	return &cli.Command{
		Name: "update", Usage: "change content or labels of a job that is SCHEDULED", ArgsUsage: "[JOB_ID]",
		Description: "The key stays bound to the request that made the job: repeating that request gives the changed job.",
		Flags: flags(append([]cli.Flag{
			keyFlag(), etagFlag(),
			&cli.StringSliceFlag{Name: "label", Usage: "`NAME=VALUE` of the labels that replace all others; may be repeated"},
			&cli.BoolFlag{Name: "no-labels", Usage: "take all labels away"},
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
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return exit.Usagef("name what to change: new content, --label or --no-labels")
	}
	j, err := c.read(ctx)
	if err != nil {
		return err
	}
	req.JobId, req.Etag = j.GetJobId(), c.etag(j)
	ctx, done := unary(ctx)
	defer done()
	resp, err := c.Jobs.UpdateJob(ctx, req)
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
}

func rescheduleCommand() *cli.Command {
	return &cli.Command{
		Name: "reschedule", Usage: "move a job that waits for its time", ArgsUsage: "[JOB_ID]",
		Flags: flags(append(whenFlags(),
			keyFlag(), etagFlag(),
			&cli.DurationFlag{Name: "window", Usage: "how late it may start, as a `DURATION`", DefaultText: "as it was"},
		)...),
		Action: action(reschedule),
	}
}

func reschedule(ctx context.Context, c *call) error {
	at, err := when(c.cmd, time.Now())
	if err != nil {
		return err
	}
	if at == nil {
		return exit.Usagef("say when, with --at or --in")
	}
	j, err := c.read(ctx)
	if err != nil {
		return err
	}
	req := &fireoncev1.RescheduleJobRequest{JobId: j.GetJobId(), ScheduledFor: at, Etag: c.etag(j)}
	if c.cmd.IsSet("window") {
		req.StartWindow = durationpb.New(c.cmd.Duration("window"))
	}
	ctx, done := unary(ctx)
	defer done()
	resp, err := c.Jobs.RescheduleJob(ctx, req)
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
}

func runNowCommand() *cli.Command {
	return &cli.Command{
		Name: "run-now", Usage: "make a waiting job due at once", ArgsUsage: "[JOB_ID]",
		Description: "It does not pass a pause, a hold or a rate limit, and scheduled_for stays as it is.",
		Flags:       flags(keyFlag(), etagFlag()),
		Action:      action(runNow),
	}
}

func runNow(ctx context.Context, c *call) error {
	j, err := c.read(ctx)
	if err != nil {
		return err
	}
	ctx, done := unary(ctx)
	defer done()
	// Without --etag it holds whatever the job has come to meanwhile.
	resp, err := c.Jobs.RunJobNow(ctx, &fireoncev1.RunJobNowRequest{JobId: j.GetJobId(), Etag: c.cmd.String("etag")})
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
}

func retryCommand() *cli.Command {
	return &cli.Command{
		Name: "retry", Usage: "give a job that FAILED or EXPIRED another chance", ArgsUsage: "[JOB_ID]",
		Flags:  flags(append(whenFlags(), keyFlag(), etagFlag())...),
		Action: action(retry),
	}
}

func retry(ctx context.Context, c *call) error {
	at, err := when(c.cmd, time.Now())
	if err != nil {
		return err
	}
	j, err := c.read(ctx)
	if err != nil {
		return err
	}
	ctx, done := unary(ctx)
	defer done()
	resp, err := c.Jobs.RetryJob(ctx, &fireoncev1.RetryJobRequest{JobId: j.GetJobId(), Etag: c.etag(j), ScheduledFor: at})
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
}

// read gives the job that the arguments name, without its content.
func (c *call) read(ctx context.Context) (*fireoncev1.Job, error) {
	resp, err := c.job(ctx, true)
	return resp.GetJob(), err
}

// etag gives --etag, or else the job's as it was read.
func (c *call) etag(j *fireoncev1.Job) string {
	if etag := c.cmd.String("etag"); etag != "" {
		return etag
	}
	return j.GetEtag()
}

// changed prints the answer of a call that changed one job.
func (c *call) changed(resp message, j *fireoncev1.Job) error {
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.brief(j)
	return nil
}
