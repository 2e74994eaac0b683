package client

import (
	"encoding/hex"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
)

func deleteCommand() *cli.Command {
	return on("job", "", fireoncev1connect.JobServiceClient.DeleteJob, showErased, &cli.Command{
		Name: "delete", Usage: "erase a job that ended an hour ago or earlier, permanently",
		Description: "Payload, labels, key, answers, texts and history go. What stays proves when the job had its effect, and names\n" +
			"nobody; it is printed, also by a repeat. The key stays bound for as long as that of a job that retention removed.\n" +
			"Needs the scope jobs:delete.",
	})
}

func showErased(c *call, resp *fireoncev1.DeleteJobResponse) {
	j := resp.GetJob()
	c.out.line("Job %s was erased at %s by %s. It ended as %s at %s.", plain(j.GetJobId()), j.GetEraseTime().AsTime().Format(time.RFC3339),
		plain(j.GetActor()), stateName(j.GetState()), j.GetEndTime().AsTime().Format(time.RFC3339))
	c.out.line("SHA-256 of its key: %s", hex.EncodeToString(j.GetIdempotencyKeyDigest()))
}
