package main

import (
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/internal/proof/heldport"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// TestGRPCListener checks that the second listener serves at the address in the ready
// line, that jobs submitted there can be read at the first, and that it shuts down with a
// stream open.
func TestGRPCListener(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(binary, memdir.New(t), os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	found := regexp.MustCompile(`, gRPC (127\.0\.0\.1:\d+),`).FindStringSubmatch(p.line)
	if found == nil {
		t.Fatalf("the ready line names no address for gRPC: %s", p.line)
	}
	conn, err := grpc.NewClient(found[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	jobs := fireoncev1grpc.NewJobServiceClient(conn)
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
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = events.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v, want UNAVAILABLE", err)
	}
	select {
	case <-p.Done():
	case <-waiting(t).Done():
		t.Fatal("the server goes on")
	}
	if p.Err() != nil {
		t.Errorf("the server ended with %v: %s", p.Err(), p.logs())
	}
}

// TestGRPCListenerOfItsOwn checks that without a named address, gRPC has the port after the
// API's, and that a server whose second port is taken logs that and continues.
func TestGRPCListenerOfItsOwn(t *testing.T) {
	long(t)
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	start := func(flags ...string) *process {
		p, err := startProcess(binary, memdir.New(t), os.Environ(), append([]string{"--dev"}, flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	grpcAt := regexp.MustCompile(`, gRPC (127\.0\.0\.1:\d+),`)
	if p := start("--listen", "127.0.0.1:0"); !grpcAt.MatchString(p.line) {
		t.Errorf("no port for gRPC by default: %s", p.line)
	}
	if p := start("--listen", "127.0.0.1:0", "--grpc-listen", "off"); grpcAt.MatchString(p.line) {
		t.Errorf("an unexpected port for gRPC: %s", p.line)
	}
	taken, first := adjacentPorts(t)
	p := start("--listen", first)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-p.Done() // its log is complete
	if grpcAt.MatchString(p.line) || !strings.Contains(p.logs(), "gRPC has no port of its own") {
		t.Errorf("beside %s, which is taken: %s: %s", taken, p.line, p.logs())
	}
}

// adjacentPorts returns a port that a server may have, and the port after it, which it occupies.
// Both are kept until the test ends.
func adjacentPorts(t *testing.T) (taken, free string) {
	t.Helper()
	var config net.ListenConfig
	for range 100 {
		second, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := second.Addr().(*net.TCPAddr)
		first, err := heldport.Hold(at.Port - 1)
		if err != nil {
			_ = second.Close()
			continue
		}
		t.Cleanup(func() { _, _ = first.Close(), second.Close() })
		return at.String(), first.Addr()
	}
	t.Fatal("no two ports beside each other are free")
	return "", ""
}
