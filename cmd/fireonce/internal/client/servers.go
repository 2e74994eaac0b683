package client

import (
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1connect"
)

func serversCommand() *cli.Command {
	return on("", "", adminv1connect.ServerServiceClient.ListServers, func(c *call, resp *adminv1.ListServersResponse) {
		c.out.servers(resp.GetServers())
	}, &cli.Command{
		Name: "servers", Usage: "show the servers on the database, and what those that are gone were doing",
		Description: "For the operator. A server that is GONE has lost its session with the database and left jobs under way.\n" +
			"Others take them over, the last of them at the time of TAKEOVER: nothing has to be done.",
	})
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
