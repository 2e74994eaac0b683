package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/heldport"
	"github.com/fireonce/fireonce/internal/proof/memdir"
)

// TestWatchOutlivesTheServer kills and restarts the server under a watch, which must miss no
// event and repeat none.
func TestWatchOutlivesTheServer(t *testing.T) {
	long(t)
	onEach(t, watchOutlives)
}

func watchOutlives(t *testing.T, d deployment) {
	t.Parallel()
	binary, err := exec.LookPath("fireonce") // this test's binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	r, err := receiver.Start(receiver.Options{Dedupes: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir, database := memdir.New(t), d.database(t)
	address := heldport.For(t) // of both servers
	start := func() *process {
		p, err := startProcess(binary, dir, os.Environ(), "--dev", "--grace", "2s", "--lease", "3s", "--listen", address, "--grpc-listen", "off",
			"--database", database, "--key-file", "key")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		return p
	}
	p := start()
	api := dial(t, p.url)
	req := hook(connect(t, api, true), "a", r.URL("a"), time.Minute)
	// The watch begins, and the server ends, before it is due.
	req.ScheduleTime = timestamppb.New(time.Now().Add(15 * time.Second))
	if _, err := api.Jobs.ScheduleJob(waiting(t), req); err != nil {
		t.Fatal(err)
	}

	read, write := io.Pipe()
	code := make(chan int, 1)
	var notes strings.Builder
	go func() {
		prog := Program{Stdin: strings.NewReader(""), Stdout: write, Stderr: &notes, Version: "test"}
		code <- prog.Run(waiting(t), []string{"fireonce", "watch", "--key", "a", "--server", p.url})
		write.Close()
	}()
	lines := bufio.NewScanner(read)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if len(seen) == 1 { // the stream is open
			p.Kill()
			start()
		}
	}
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	if !strings.Contains(notes.String(), "taking it up again") {
		t.Errorf("the watch said %q", notes.String())
	}
	for i, want := range []string{"#1 ", "SCHEDULED → CLAIMED", "CLAIMED → SENDING", "SENDING → SUCCEEDED"} {
		if len(seen) != 4 || !strings.Contains(seen[i], want) {
			t.Fatalf("the watch showed:\n%s", strings.Join(seen, "\n"))
		}
	}
	if r.Effects("a") != 1 {
		t.Errorf("%d effects", r.Effects("a"))
	}
}
