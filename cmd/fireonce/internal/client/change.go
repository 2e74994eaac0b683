package client

import (
	"context"
	"encoding/hex"
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
			policyFlag(),
			&cli.IntFlag{Name: "max-attempts", Usage: "the `NUMBER` of attempts in all; the waits between them are the defaults then", HideDefault: true},
			&duration.Flag{Name: "attempt-timeout", Usage: "how long one request to the target may take, as a `DURATION`", HideDefault: true},
			textFlag("time-zone", "the IANA `NAME` in which to show the time"),
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
	err = setFromFlags(c.cmd, req, "label", "labels", "policy", "ambiguity_policy", "max-attempts", "retry_policy.max_attempts")
	if err != nil {
		return err
	}
	if err := noLabels(c.cmd, req.GetUpdateMask()); err != nil {
		return err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return exit.Usagef("name what to change: new content, --label, --no-labels, --policy, --max-attempts, --attempt-timeout or --time-zone")
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

func deleteCommand() *cli.Command {
	return &cli.Command{
		Name: "delete", Usage: "erase a job that ended an hour ago or earlier, for good", ArgsUsage: "[JOB]",
		Description: "Payload, labels, key, answers, texts and history go. What stays proves when the job had its effect, and names\n" +
			"nobody; it is printed, also by a repeat. The key stays bound for as long as that of a job that retention removed.\n" +
			"Needs the scope jobs:delete.",
		Flags: flags(keyFlag("job"), etagFlag("job")),
		Action: action(func(ctx context.Context, c *call) error {
			return callOn(ctx, c, "job", c.Jobs.DeleteJob, &fireoncev1.DeleteJobRequest{}, showErased)
		}),
	}
}

func showErased(c *call, resp *fireoncev1.DeleteJobResponse) {
	j := resp.GetJob()
	c.out.line("Job %s was erased at %s by %s. It ended as %s at %s.", plain(j.GetJobId()), j.GetEraseTime().AsTime().Format(time.RFC3339),
		plain(j.GetActor()), stateName(j.GetState()), j.GetEndTime().AsTime().Format(time.RFC3339))
	c.out.line("SHA-256 of its key: %s", hex.EncodeToString(j.GetIdempotencyKeyDigest()))
}

func cancelCommand() *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "stop further sends of a job", ArgsUsage: "[JOB]",
		Flags: flags(keyFlag("job"), etagFlag("job"), reasonFlag()),
		// Without --etag a cancel holds in whatever state the job is by then.
		Action: action(func(ctx context.Context, c *call) error {
			return callOn(ctx, c, "job", c.Jobs.CancelJob, &fireoncev1.CancelJobRequest{}, showCanceled)
		}),
	}
}

func showCanceled(c *call, resp *fireoncev1.CancelJobResponse) {
	if resp.GetPrevented() {
		c.out.line("Canceled. Nothing was sent, and nothing will be.")
	} else {
		c.out.line("It will not be sent again, but the effect may exist already. Watch the job to learn which.")
	}
	c.out.brief(resp.GetJob())
}

func reasonFlag() cli.Flag {
	return textFlag("reason", "why, as `TEXT` for the record")
}

func resolveCommand() *cli.Command {
	return &cli.Command{
		Name: "resolve", Usage: "decide about a job whose outcome is unknown", ArgsUsage: "[JOB]",
		Description: "sent: the effect exists; the job is SUCCEEDED. not-sent: it does not; the job is FAILED. resend: it does\n" +
			"not, and is sent again; this DUPLICATES the effect if you are wrong. cancel: it does not; the job is CANCELED.",
		Flags: flags(append(resolveFlags(),
			keyFlag("job"), textFlag("etag", "the job as you saw it, by the `ETAG` that get and watch print; required"),
			textFlag("external-id", "with sent: the target's `ID` of the effect"),
			textFlag("effect-key", "with resend, of a job that was given its effect key: the `KEY` of the new effect"),
		)...),
		Action: action(resolve),
	}
}

func resolve(ctx context.Context, c *call) error {
	req := &fireoncev1.ResolveJobRequest{}
	if err := setFromFlags(c.cmd, req); err != nil { // before the job is read
		return err
	}
	if req.GetEtag() == "" {
		return c.showToDecide(ctx)
	}
	return callOn(ctx, c, "job", c.Jobs.ResolveJob, req, briefJob)
}

// showToDecide shows a job to a person who decides without --etag.
func (c *call) showToDecide(ctx context.Context) error {
	resp, err := c.job(ctx, true)
	if err != nil {
		return err
	}
	if !c.out.json {
		c.out.job(resp.GetJob())
	}
	return exit.Usagef("name the state of the job that you decide on: if it is the present one, repeat with --etag %s", resp.GetJob().GetEtag())
}
