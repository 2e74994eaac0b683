package server_test

import (
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const listServers = serversPath + "ListServers"

// TestListServers: the operator sees each server with its process, and what one that is gone left
// under way, and no other caller does.
func TestListServers(t *testing.T) {
	t.Parallel()
	f := start(t, withOperator, func(c *server.Config) { c.Worker = "mine" })
	c := overConnect(f)
	k := f.issue("shop", server.Scopes())
	_, err := askWith[adminv1.ListServersResponse](bring(t.Context(), k.Reveal()), c, listServers, &adminv1.ListServersRequest{})
	wantReason(t, err, operatorRequired)

	began := f.clock.Now()
	f.must(f.store.Enlist(t.Context(), store.Process{Worker: "other", Version: "1.2.2", Host: "b", PID: 2, Age: time.Minute}))
	f.must(f.store.Enlist(t.Context(), store.Process{Worker: "mine", Version: "1.2.3", Host: "a", PID: 1}))
	f.must(f.store.Drain(t.Context(), "other"))
	f.clock.advance(time.Second)
	operator := bring(t.Context(), operatorKey)
	_, err = askWith[fireoncev1.ScheduleJobResponse](operator, c, jobsPath+"ScheduleJob", f.request("k"))
	f.must(err)
	sent := f.arm()
	got, err := askWith[adminv1.ListServersResponse](operator, c, listServers, &adminv1.ListServersRequest{})
	f.must(err)
	if n := len(got.GetServers()); n != 3 {
		t.Fatalf("%d servers: %v", n, got)
	}
	gone, other, mine := got.GetServers()[0], got.GetServers()[1], got.GetServers()[2]
	if gone.GetWorker() != "worker" || gone.GetState() != adminv1.ServerState_SERVER_STATE_GONE || gone.GetSendingCount() != 1 || gone.GetClaimedCount() != 0 ||
		!gone.GetTakeoverTime().AsTime().Equal(sent.Fence) || !gone.GetLastSeenTime().AsTime().Equal(sent.Updated) || gone.GetVersion() != "" || gone.GetStartTime() != nil {
		t.Errorf("one that is gone: %v", gone)
	}
	if other.GetState() != adminv1.ServerState_SERVER_STATE_DRAINING || other.GetAnswering() || !other.GetStartTime().AsTime().Equal(began.Add(-time.Minute)) ||
		other.GetLastSeenTime() != nil || other.GetTakeoverTime() != nil {
		t.Errorf("one that drains: %v", other)
	}
	if mine.GetState() != adminv1.ServerState_SERVER_STATE_LIVE || !mine.GetAnswering() || mine.GetVersion() != "1.2.3" || mine.GetHost() != "a" || mine.GetProcessId() != 1 {
		t.Errorf("the one that answers: %v", mine)
	}
}
