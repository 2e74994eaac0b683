package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/memdir"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// TestServersThatDie: servers list each other with version and process. One that shuts down with a
// request under way is DRAINING. After SIGKILL it is GONE with that job, another server's log says so
// once, and so do the commands.
func TestServersThatDie(t *testing.T) {
	onEach(t, func(t *testing.T, d deployment) {
		t.Parallel()
		binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
		if err != nil {
			t.Fatal(err)
		}
		underWay := make(chan struct{}, 1)
		r, err := receiver.Start(receiver.Options{Plan: func(receiver.Request) receiver.Answer {
			underWay <- struct{}{}
			return receiver.Silence
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		dir, database := memdir.New(t), d.database(t)
		begin := func() *process {
			t.Helper()
			p, err := startProcess(binary, dir, os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--shutdown-delay", "0s",
				"--database", database, "--key-file", "key")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Kill)
			return p
		}
		first := begin()
		servers := []*process{first}
		if d == onPostgres {
			servers = append(servers, begin())
		}
		for _, p := range servers {
			for _, s := range awaitServers(t, p, func(list []*adminv1.Server) bool { return len(list) == len(servers) }) {
				if s.GetState() != adminv1.ServerState_SERVER_STATE_LIVE || s.GetVersion() == "" || s.GetStartTime() == nil || s.GetHost() != hostname ||
					s.GetAnswering() != p.isWorker(s.GetWorker()) || s.GetAnswering() != (int(s.GetProcessId()) == p.PID()) {
					t.Errorf("at %d: %v", p.PID(), s)
				}
			}
		}

		api := dial(t, first.url)
		scheduled, err := api.Jobs.ScheduleJob(waiting(t), hook(connect(t, api, false), "held", r.URL("held"), 5*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-underWay:
		case <-waiting(t).Done():
			t.Fatal("the request did not come")
		}
		id := scheduled.GetJob().GetJobId()
		got, err := api.Jobs.GetJob(waiting(t), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
		if err != nil {
			t.Fatal(err)
		}
		worker := got.GetJob().GetLastAttempt().GetWorker()
		sender, other := first, first
		if d == onPostgres {
			if other = servers[1]; !sender.isWorker(worker) {
				sender, other = other, sender
			}
			if err := sender.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			awaitServers(t, other, func(list []*adminv1.Server) bool {
				s := serverNamed(list, worker)
				return s.GetState() == adminv1.ServerState_SERVER_STATE_DRAINING && s.GetSendingCount() == 1
			})
		}
		sender.Kill()
		if d == onSQLite {
			other = begin()
		}
		const line = "a server is gone, and left jobs under way"
		other.says(t, line)
		list := awaitServers(t, other, func([]*adminv1.Server) bool { return true })
		if s := serverNamed(list, worker); len(list) != 2 || s != list[0] || s.GetState() != adminv1.ServerState_SERVER_STATE_GONE || s.GetSendingCount() != 1 ||
			int(s.GetProcessId()) != sender.PID() || !s.GetTakeoverTime().AsTime().After(s.GetLastSeenTime().AsTime()) {
			t.Errorf("after its end: %v", list)
		}
		if out, code := command(t, "servers", "--server", other.url); code != 0 || !strings.Contains(out, "GONE") || !strings.Contains(out, "LIVE") {
			t.Errorf("servers: code %d\n%s", code, out)
		}
		if out, code := command(t, "get", id, "--server", other.url); code != 0 || !strings.Contains(out, "Under way at "+worker+", which is gone (last sign of it: ") {
			t.Errorf("get: code %d\n%s", code, out)
		}
		if n := strings.Count(other.logs(), line); n != 1 {
			t.Errorf("%d lines of its end:\n%s", n, other.logs())
		}
	})
}

// awaitServers lists the servers by one of them, until they are as expected.
func awaitServers(t *testing.T, at *process, expected func([]*adminv1.Server) bool) []*adminv1.Server {
	t.Helper()
	ctx := waiting(t)
	api, err := client.Dial(at.url, "")
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := api.Servers.ListServers(ctx, &adminv1.ListServersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if expected(resp.GetServers()) {
			return resp.GetServers()
		}
	}
}

func serverNamed(list []*adminv1.Server, worker string) *adminv1.Server {
	for _, s := range list {
		if s.GetWorker() == worker {
			return s
		}
	}
	return nil
}
