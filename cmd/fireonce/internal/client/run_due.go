package client

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1"
)

// longestRun is the server's bound on one call.
const longestRun = time.Minute

func runDueCommand() *cli.Command {
	return asks("", fieldsOf(&adminv1.RunDueRequest{}, "max_wait"), &cli.Command{
		Name: "run-due", Usage: "run what is due, and wait for its end",
		Description: "For a host that sleeps between requests: call it by a timer elsewhere, at the time that it prints.\n" +
			"A server that is awake needs no such call.",
	}, runDue)
}

func runDue(ctx context.Context, c *call, req *adminv1.RunDueRequest) error {
	ctx, cancel := context.WithTimeout(ctx, longestRun)
	defer cancel()
	resp, err := c.Servers.RunDue(ctx, req)
	return printAnswer(c, resp, err, showDue)
}

func showDue(c *call, resp *adminv1.RunDueResponse) {
	switch next := resp.GetNextDueTime(); {
	case !resp.GetDone():
		fmt.Fprintf(c.out.w, "Jobs made by schedules: %d. Work goes on: call again.\n", resp.GetFired())
	case next == nil:
		fmt.Fprintf(c.out.w, "Jobs made by schedules: %d. Done; nothing is due within a day.\n", resp.GetFired())
	default:
		fmt.Fprintf(c.out.w, "Jobs made by schedules: %d. Done; next due at %s.\n", resp.GetFired(), stamp(next))
	}
}
