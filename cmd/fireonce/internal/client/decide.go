package client

import (
	"context"

	"github.com/urfave/cli/v3"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func etagFlag() cli.Flag {
	return &cli.StringFlag{Name: "etag", Usage: "the job as you saw it, by its `ETAG`; default: as it is now"}
}

func cancelCommand() *cli.Command {
	return &cli.Command{
		Name: "cancel", Usage: "stop further sends of a job", ArgsUsage: "[JOB]",
		Flags: flags(
			keyFlag(), etagFlag(),
			&cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` for the record"},
		),
		Action: action(cancel),
	}
}

func cancel(ctx context.Context, c *call) error {
	req, err := ofJob(c, &fireoncev1.CancelJobRequest{Etag: c.cmd.String("etag"), Reason: c.cmd.String("reason")})
	if err != nil {
		return err
	}
	ctx, done := unary(ctx)
	defer done()
	// Without --etag a cancel holds in whatever state the job is by then.
	resp, err := c.Jobs.CancelJob(ctx, req)
	if err != nil {
		return err
	}
	if c.out.json {
		return c.out.message(resp)
	}
	if resp.GetPrevented() {
		c.out.line("Canceled. Nothing was sent, and nothing will be.")
	} else {
		c.out.line("It will not be sent again, but the effect may exist already. Watch the job to learn which.")
	}
	c.out.brief(resp.GetJob())
	return nil
}

func resolveCommand() *cli.Command {
	return &cli.Command{
		Name: "resolve", Usage: "decide about a job whose outcome is unknown", ArgsUsage: "[JOB]",
		Description: "sent: the effect exists; the job is SUCCEEDED. not-sent: it does not; the job is FAILED. resend: it does\n" +
			"not, and is sent again; this DUPLICATES the effect if you are wrong. cancel: it does not; the job is CANCELED.",
		Flags: flags(append(resolveFlags(),
			keyFlag(), &cli.StringFlag{Name: "etag", Usage: "the job as you saw it, by the `ETAG` that get and watch print; required"},
			&cli.StringFlag{Name: "external-id", Usage: "with sent: the target's `ID` of the effect"},
			&cli.StringFlag{Name: "effect-key", Usage: "with resend, of a job that was given its effect key: the `KEY` of the new effect"},
		)...),
		Action: action(resolve),
	}
}

func resolve(ctx context.Context, c *call) error {
	decision, err := decisionOf(c.cmd)
	if err != nil {
		return err
	}
	req, err := ofJob(c, &fireoncev1.ResolveJobRequest{
		Decision: decision, Note: c.cmd.String("note"),
		ExternalId: c.cmd.String("external-id"), EffectKey: c.cmd.String("effect-key"), OverrideReconciler: c.cmd.Bool("override-reconciler"),
	})
	if err != nil {
		return err
	}
	if req.Etag = c.cmd.String("etag"); req.GetEtag() == "" {
		return c.showToDecide(ctx)
	}
	ctx, done := unary(ctx)
	defer done()
	resp, err := c.Jobs.ResolveJob(ctx, req)
	if err != nil {
		return err
	}
	return c.changed(resp, resp.GetJob())
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

func decisionOf(cmd *cli.Command) (fireoncev1.Resolution_Decision, error) {
	decision, ok := fireoncev1.Resolution_Decision_value[enumName("DECISION_", cmd.String("decision"))]
	if !ok || decision == 0 {
		return 0, exit.Usagef("--decision %q: must be sent, not-sent, resend or cancel", cmd.String("decision"))
	}
	return fireoncev1.Resolution_Decision(decision), nil
}
