package client

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
)

func cancelCommand() *cli.Command {
	// Without --etag a cancel holds in whatever state the job is by then.
	return on("job", "reason", fireoncev1connect.JobServiceClient.CancelJob, showCanceled,
		&cli.Command{Name: "cancel", Usage: "stop further sends of a job"})
}

func showCanceled(c *call, resp *fireoncev1.CancelJobResponse) {
	if resp.GetPrevented() {
		c.out.line("Canceled. No attempt is known, and none will be made.")
	} else {
		c.out.line("It will not be sent again, but the effect may exist already. Watch the job to learn which.")
	}
	c.out.brief(resp.GetJob())
}

func resolveCommand() *cli.Command {
	return asks("job", fieldsOf(&fireoncev1.ResolveJobRequest{}, decision+" external_id effect_key"), &cli.Command{
		Name: "resolve", Usage: "decide about a job whose outcome is unknown",
		Description: "sent: the effect exists; the job is SUCCEEDED. not-sent: it does not; the job is FAILED. resend: it does\n" +
			"not, and is sent again; this DUPLICATES the effect if you are wrong. cancel: it does not; the job is CANCELED.\n" +
			"Without --etag the command shows the job and its etag, and decides nothing.",
		Flags: []cli.Flag{textFlag("etag", "`ETAG` the job as you saw it: it decides nothing about another state")},
	}, func(ctx context.Context, c *call, req *fireoncev1.ResolveJobRequest) error {
		if req.GetEtag() == "" {
			return c.showToDecide(ctx)
		}
		return callAndPrint(ctx, c, c.Jobs.ResolveJob, req, briefJob)
	})
}

// decision has the words of a decision's flags.
const decision = "decision! note:TEXT=note! override_reconciler"

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
