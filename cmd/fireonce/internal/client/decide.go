package client

import (
	"context"

	"github.com/urfave/cli/v3"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func etagFlag() cli.Flag {
	return &cli.StringFlag{Name: "etag", Usage: "the job as you saw it; default: as it is now"}
}

func cancelCommand() *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "stop further sends of a job", ArgsUsage: "[JOB_ID]",
		Flags: flags(
			keyFlag(), etagFlag(),
			&cli.StringFlag{Name: "reason", Usage: "why, for the record"},
		),
		Action: action(cancel),
	}
}

func cancel(ctx context.Context, c *call) error {
	found, err := c.job(ctx, true)
	if err != nil {
		return err
	}
	ctx, done := unary(ctx)
	defer done()
	// Without --etag a cancel holds whatever the job has come to meanwhile.
	resp, err := c.Jobs.CancelJob(ctx, &fireoncev1.CancelJobRequest{
		JobId: found.GetJob().GetJobId(), Etag: c.cmd.String("etag"), Reason: c.cmd.String("reason"),
	})
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	if resp.GetPrevented() {
		c.out.line("Cancelled. Nothing was sent, and nothing will be.")
	} else {
		c.out.line("It will not be sent again, but the effect may exist already. Watch the job to learn which.")
	}
	c.out.brief(resp.GetJob())
	return nil
}

func resolveCommand() *cli.Command {
	return &cli.Command{
		Name: "resolve", Usage: "decide about a job whose outcome is unknown", ArgsUsage: "[JOB_ID]",
		Description: "sent: the effect exists. not-sent: it does not, and is given up. resend: it does not, send again;\n" +
			"this DUPLICATES the effect if you are wrong. cancel: it does not, and is no longer wanted.",
		Flags: flags(
			keyFlag(), etagFlag(),
			&cli.StringFlag{Name: "decision", Usage: "`sent`, not-sent, resend or cancel", Required: true},
			&cli.StringFlag{Name: "note", Usage: "how you know, for the record", Required: true},
			&cli.StringFlag{Name: "external-id", Usage: "with sent: the target's `ID` of the effect"},
			&cli.BoolFlag{Name: "override-reconciler", Usage: "decide although the outcome is still being looked for"},
		),
		Action: action(resolve),
	}
}

func resolve(ctx context.Context, c *call) error {
	decision, ok := fireoncev1.Resolution_Decision_value["DECISION_"+enumName(c.cmd.String("decision"))]
	if !ok || decision == 0 {
		return exit.Usagef("--decision %q: must be sent, not-sent, resend or cancel", c.cmd.String("decision"))
	}
	found, err := c.job(ctx, true)
	if err != nil {
		return err
	}
	etag := c.cmd.String("etag")
	if etag == "" {
		etag = found.GetJob().GetEtag()
	}
	ctx, done := unary(ctx)
	defer done()
	resp, err := c.Jobs.ResolveJob(ctx, &fireoncev1.ResolveJobRequest{
		JobId: found.GetJob().GetJobId(), Etag: etag,
		Decision: fireoncev1.Resolution_Decision(decision), Note: c.cmd.String("note"),
		ExternalId: c.cmd.String("external-id"), OverrideReconciler: c.cmd.Bool("override-reconciler"),
	})
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	c.out.brief(resp.GetJob())
	return nil
}
