package main

import (
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
)

// TestGRPCListener: the second listener is served where the ready line says,
// it stores what the first one reads, and it ends in order with a stream open.
func TestGRPCListener(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(binary, t.TempDir(), os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	found := regexp.MustCompile(`, gRPC (127\.0\.0\.1:\d+),`).FindStringSubmatch(p.line)
	if found == nil {
		t.Fatalf("the ready line names no address for gRPC: %s", p.line)
	}
	conn, err := grpc.NewClient(found[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	jobs := fireoncev1.NewJobServiceClient(conn)
	events, err := jobs.StreamJobEvents(waiting(t), &fireoncev1.StreamJobEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := events.Recv(); err != nil || m.GetEvent().GetHeartbeat() == nil {
		t.Fatalf("first message %v, %v", m, err)
	}
	api := dial(t, p.url)
	made, err := jobs.ScheduleJob(waiting(t), hook(connect(t, api, false), "k", "http://127.0.0.1:9/", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	id := made.GetJob().GetJobId()
	read, err := api.Jobs.GetJob(waiting(t), &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: id}})
	if err != nil || read.GetJob().GetJobId() != id {
		t.Fatalf("the other listener reads %v, %v", read, err)
	}
	if m, err := events.Recv(); err != nil || m.GetEvent().GetJobChanged().GetJobId() != id {
		t.Fatalf("event %v, %v", m, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = events.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v, want UNAVAILABLE", err)
	}
	select {
	case <-p.done:
	case <-waiting(t).Done():
		t.Fatal("the server goes on")
	}
	if p.err != nil {
		t.Errorf("the server ended with %v: %s", p.err, p.logs())
	}
}
