package server_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
)

// TestTwiceAtOnce: two equal calls at the same time get the same answer, as the repeat of a
// call does that had no answer.
func TestTwiceAtOnce(t *testing.T) {
	const rounds = 20
	f := start(t)
	c := overConnect(f)
	conn := func(key string) string {
		res, err := ask[connectionsv1.CreateConnectionResponse](t, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: key, Connection: &connectionsv1.Connection{Connector: "stub"},
		})
		f.must(err)
		return res.GetConnection().GetConnectionId()
	}
	for name, call := range map[string]func(key string) (procedure string, req, res proto.Message){
		"DeleteJob": func(key string) (string, proto.Message, proto.Message) {
			j := f.sent(key)
			f.clock.advance(time.Hour)
			return deleteJob, deleteByID(j.GetJobId()), &fireoncev1.DeleteJobResponse{}
		},
		"CancelJob": func(key string) (string, proto.Message, proto.Message) {
			j := f.schedule(f.request(key))
			return jobsPath + "CancelJob", &fireoncev1.CancelJobRequest{
				Job: &fireoncev1.CancelJobRequest_JobId{JobId: j.GetJobId()},
			}, &fireoncev1.CancelJobResponse{}
		},
		"PauseConnection": func(key string) (string, proto.Message, proto.Message) {
			return connsPath + "PauseConnection", &connectionsv1.PauseConnectionRequest{
				Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: conn(key)},
			}, &connectionsv1.PauseConnectionResponse{}
		},
		"DeleteConnection": func(key string) (string, proto.Message, proto.Message) {
			return connsPath + "DeleteConnection", &connectionsv1.DeleteConnectionRequest{
				Connection: &connectionsv1.DeleteConnectionRequest_ConnectionId{ConnectionId: conn(key)},
			}, &connectionsv1.DeleteConnectionResponse{}
		},
		"PauseSchedule": func(key string) (string, proto.Message, proto.Message) {
			return schedsPath + "PauseSchedule", &schedulesv1.PauseScheduleRequest{
				Schedule: &schedulesv1.PauseScheduleRequest_ScheduleId{ScheduleId: f.recurring(t.Context(), c, f.newSchedule(key)).GetScheduleId()},
			}, &schedulesv1.PauseScheduleResponse{}
		},
		"DeleteSchedule": func(key string) (string, proto.Message, proto.Message) {
			return schedsPath + "DeleteSchedule", &schedulesv1.DeleteScheduleRequest{
				Schedule: &schedulesv1.DeleteScheduleRequest_ScheduleId{ScheduleId: f.recurring(t.Context(), c, f.newSchedule(key)).GetScheduleId()},
			}, &schedulesv1.DeleteScheduleResponse{}
		},
	} {
		for i := range rounds {
			procedure, req, empty := call(fmt.Sprintf("%s-%d", name, i))
			var answers [2]proto.Message
			var errs [2]error
			var both sync.WaitGroup
			for n := range answers {
				answers[n] = proto.Clone(empty)
				both.Go(func() { errs[n] = c.call(t.Context(), procedure, req, answers[n]) })
			}
			both.Wait()
			if errs[0] != nil || errs[1] != nil || !proto.Equal(answers[0], answers[1]) {
				t.Errorf("%s: %v, %v and %v, %v", name, answers[0], errs[0], answers[1], errs[1])
				break
			}
		}
	}
}
