package client

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

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
		c.out.line("Canceled. No attempt is known, and none will be made.")
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
