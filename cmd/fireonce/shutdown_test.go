package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// heldServer returns a server with one request under way whose answer is held back.
func heldServer(t *testing.T, d deployment) (p *process, start func() *process, release func()) {
	t.Helper()
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	underWay, held := make(chan struct{}), make(chan struct{})
	r, err := receiver.Start(receiver.Options{Plan: func(receiver.Request) receiver.Answer {
		close(underWay)
		<-held
		return receiver.Reply
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	dir, database := memdir.New(t), d.database(t)
	start = func() *process {
		p, err := startProcess(binary, dir, os.Environ(), "--dev", "--listen", "127.0.0.1:0", "--database", database, "--key-file", "key")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	p = start()
	api := dial(t, p.url)
	if _, err := api.Jobs.ScheduleJob(waiting(t), hook(connect(t, api, false), "held", r.URL("held"), time.Minute)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-underWay:
	case <-waiting(t).Done():
		t.Fatal("no request came")
	}
	return p, start, func() { close(held) }
}

// TestShutdownSettlesWhatIsUnderWay checks that after a signal the server ends only once the
// answer for which it waits is stored.
func TestShutdownSettlesWhatIsUnderWay(t *testing.T) {
	onEach(t, shutdownSettles)
}

func shutdownSettles(t *testing.T, d deployment) {
	p, start, release := heldServer(t, d)
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.says(t, "shutting down")
	get := &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "held"}}
	got, err := dial(t, p.url).Jobs.GetJob(waiting(t), get)
	if err != nil || got.GetJob().GetState() != fireoncev1.JobState_JOB_STATE_SENDING {
		t.Errorf("during the shutdown: %v, %v", got.GetJob().GetState(), err)
	}
	release()
	select {
	case <-p.Done():
	case <-waiting(t).Done():
		t.Fatal("it did not end")
	}
	if p.Err() != nil {
		t.Errorf("it ended with %v:\n%s", p.Err(), p.logs())
	}
	got, err = dial(t, start().url).Jobs.GetJob(waiting(t), get)
	if err != nil || got.GetJob().GetState() != fireoncev1.JobState_JOB_STATE_SUCCEEDED {
		t.Errorf("afterwards: %v, %v", got.GetJob().GetState(), err)
	}
}

// TestSecondSignalEndsAtOnce checks that a second signal does not wait for a receiver.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	onEach(t, secondSignalEnds)
}

func secondSignalEnds(t *testing.T, d deployment) {
	p, _, release := heldServer(t, d)
	defer release()
	if err := p.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.says(t, "shutting down")
	if err := p.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-waiting(t).Done():
		t.Fatal("it did not end")
	}
	var exited *exec.ExitError
	if !errors.As(p.Err(), &exited) || exited.ExitCode() != 128+int(syscall.SIGINT) {
		t.Errorf("it ended with %v", p.Err())
	}
}
