package client

import (
	"context"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// askServers bounds the call that `get` makes beside its own.
const askServers = 5 * time.Second

func serversCommand() *cli.Command {
	return &cli.Command{
		Name: "servers", Usage: "show the servers on the database, and what those that are gone were doing",
		Description: "For the operator. A server that is GONE has lost its session with the database and left jobs under way.\n" +
			"Others take them over, the last of them at the time of TAKEOVER: nothing has to be done.",
		Flags:  flags(),
		Action: action(servers),
	}
}

func servers(ctx context.Context, c *call) error {
	return callAndPrint(ctx, c, c.Servers.ListServers, &adminv1.ListServersRequest{},
		func(c *call, resp *adminv1.ListServersResponse) { c.out.servers(resp.GetServers()) })
}

func (p *printer) servers(list []*adminv1.Server) {
	rows := [][]string{{"SERVER", "STATE", "CLAIMED", "SENDING", "VERSION", "HOST", "PID", "STARTED", "LAST SEEN", "TAKEOVER"}}
	for _, s := range list {
		name, pid := plain(s.GetWorker()), ""
		if s.GetAnswering() {
			name += " *"
		}
		if s.GetProcessId() != 0 {
			pid = strconv.Itoa(int(s.GetProcessId()))
		}
		rows = append(rows, []string{
			name, word(s.GetState()), strconv.Itoa(int(s.GetClaimedCount())), strconv.Itoa(int(s.GetSendingCount())),
			plain(s.GetVersion()), plain(s.GetHost()), pid, stamp(s.GetStartTime()), stamp(s.GetLastSeenTime()), stamp(s.GetTakeoverTime()),
		})
	}
	p.table(rows)
	p.line("* answered this call")
}

// senderLine returns what became of the server that is sending a job, if it is gone; empty: it is not,
// or the caller may not know.
func (c *call) senderLine(ctx context.Context, j *fireoncev1.Job) string {
	worker := j.GetLastAttempt().GetWorker()
	if j.GetState() != fireoncev1.JobState_JOB_STATE_SENDING || worker == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askServers)
	defer cancel()
	resp, err := c.Servers.ListServers(ctx, &adminv1.ListServersRequest{})
	if err != nil {
		return "" // the job is what was asked for
	}
	for _, s := range resp.GetServers() {
		if s.GetWorker() == worker && s.GetState() == adminv1.ServerState_SERVER_STATE_GONE {
			return worker + " is gone, last seen " + stamp(s.GetLastSeenTime()) + away(s.GetLastSeenTime()) +
				"; its jobs are taken over, the last one " + stamp(s.GetTakeoverTime()) + away(s.GetTakeoverTime())
		}
	}
	return ""
}
