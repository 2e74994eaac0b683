package client

import (
	"context"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

// Rules of this file: where the contract requires an etag and no --etag is given, the job's present
// one is used. Elsewhere a call without --etag holds in whatever state the job is by then.

func updateCommand() *cli.Command {
	f := fieldsOf(&fireoncev1.UpdateJobRequest{}, "labels delivery time-zone=time_zone "+below("retry_policy", retryFields)+" attempt_timeout").otherwise("as it was")
	return asks("job", f, &cli.Command{
		Name: "update", Usage: "change content, labels or policies of a job",
		Description: "Content and --attempt-timeout change only while the job is SCHEDULED; labels, policies and the time zone also while it is\n" +
			"RETRYING, ACCEPTED, AMBIGUOUS or NEEDS_RESOLUTION. The key stays bound to the request that made the job: repeating that request gives the changed job.",
		Flags: append(payloadFlags(), noLabelsFlag()),
	}, update)
}

func update(ctx context.Context, c *call, req *fireoncev1.UpdateJobRequest) (err error) {
	if payloadGiven(c.cmd) {
		if req.Payload, err = payload(c.cmd); err != nil {
			return err
		}
		change(req, "payload")
	}
	if err := noLabels(c.cmd, req); err != nil {
		return err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return exit.Usagef("name what to change: new content, --label, --no-labels, --delivery, --max-attempts, --retry-delay, --keep-trying, --attempt-timeout or --time-zone")
	}
	if req.Etag, err = c.etag(ctx); err != nil {
		return err
	}
	resp, err := sendContent(ctx, c, req.GetPayload(), c.Jobs.UpdateJob, req)
	return printAnswer(c, resp, err, briefJob)
}

func noLabelsFlag() cli.Flag { return boolFlag("no-labels", "take all labels away") }

// noLabels reads --no-labels.
func noLabels(cmd *cli.Command, req message) error {
	switch {
	case !cmd.Bool("no-labels"):
	case len(cmd.StringSlice("label")) > 0:
		return exit.Usagef("give --label or --no-labels, not both")
	default:
		change(req, "labels")
	}
	return nil
}

func rescheduleCommand() *cli.Command {
	f := fieldsOf(&fireoncev1.RescheduleJobRequest{}, "window=start_window").otherwise("as it was")
	return asks("job", f, &cli.Command{
		Name: "reschedule", Usage: "move a job that waits for its time", Flags: append(whenFlags(""), zoneFlag()),
	}, func(ctx context.Context, c *call, req *fireoncev1.RescheduleJobRequest) (err error) {
		if req.ScheduleTime, req.LocalTime, err = when(c.cmd, time.Now()); err != nil {
			return err
		}
		if req.GetScheduleTime() == nil && req.GetLocalTime() == nil {
			return exit.Usagef("say when, with --at or --in")
		}
		return callAndPrint(ctx, c, c.Jobs.RescheduleJob, req, func(c *call, resp *fireoncev1.RescheduleJobResponse) {
			c.tellMark(resp)
			c.out.brief(resp.GetJob())
		})
	})
}

func runNowCommand() *cli.Command {
	return on("job", "", fireoncev1connect.JobServiceClient.RunJobNow, briefJob, &cli.Command{
		Name: "run-now", Usage: "make a waiting job due immediately",
		Description: "It does not pass a pause, a hold or a rate limit, and schedule_time stays as it is.",
	})
}

func retryCommand() *cli.Command {
	return asks("job", fieldsOf(&fireoncev1.RetryJobRequest{}), &cli.Command{
		Name: "retry", Usage: "give a job that FAILED or EXPIRED another chance", Flags: whenFlags(""),
	}, func(ctx context.Context, c *call, req *fireoncev1.RetryJobRequest) (err error) {
		if req.NextAttemptTime, _, err = when(c.cmd, time.Now()); err != nil {
			return err
		}
		if req.Etag, err = c.etag(ctx); err != nil {
			return err
		}
		return callAndPrint(ctx, c, c.Jobs.RetryJob, req, briefJob)
	})
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
