package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// The incident: a pipeline that cron started posted one heartbeat three times within a minute.
// It posted first and then wrote down that it had; the platform took the post and answered
// late, so nothing was written down, and the next run, which overlapped, posted again.

// naive is that pipeline: one run of it posts unless its state records a post.
type naive struct {
	state, url string
	timeout    time.Duration
}

// run is one run by cron. A failure is left to the next run.
func (n naive) run(ctx context.Context) {
	if _, err := os.Stat(n.state); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, http.NoBody)
	if err != nil {
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	_ = resp.Body.Close()
	_ = os.WriteFile(n.state, nil, 0o600)
}

const cronRuns = 3

// naively runs the pipeline several times as cron does, each time once the receiver has the post
// of the run before.
func naively(t *testing.T, answer receiver.Answer) (effects int) {
	t.Helper()
	committed := make(chan struct{}, cronRuns)
	r, err := receiver.Start(receiver.Options{Plan: func(receiver.Request) receiver.Answer {
		committed <- struct{}{}
		return answer
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	pipeline := naive{filepath.Join(t.TempDir(), "state"), r.URL("heartbeat"), 500 * time.Millisecond}
	var runs sync.WaitGroup
	for range cronRuns {
		ended := make(chan struct{})
		runs.Go(func() {
			defer close(ended)
			pipeline.run(t.Context())
		})
		if answer == receiver.Reply {
			<-ended // no answer is late, so no run overlaps
			continue
		}
		select {
		case <-committed:
		case <-waiting(t).Done():
			t.Fatal("no post came")
		}
	}
	runs.Wait()
	return r.Effects("heartbeat")
}

func TestHeartbeatPostedOnce(t *testing.T) {
	long(t)
	t.Run("naive, all answered", func(t *testing.T) {
		t.Parallel()
		if n := naively(t, receiver.Reply); n != 1 {
			t.Errorf("%d effects where every answer comes in time", n)
		}
	})
	t.Run("naive, answers lost", func(t *testing.T) {
		t.Parallel()
		if n := naively(t, receiver.Silence); n != cronRuns {
			t.Errorf("%d effects: the incident is not reproduced", n)
		}
	})
	t.Run("fireonce", func(t *testing.T) {
		onEach(t, func(t *testing.T, d deployment) {
			t.Parallel()
			heartbeat(t, d)
		})
	})
}

// heartbeat does the same with a schedule: the receiver accepts the post and never answers, other
// servers look for due schedules at the same time, and servers start and end as cron's runs do.
func heartbeat(t *testing.T, d deployment) {
	committed := make(chan struct{}, 10)
	r, err := receiver.Start(receiver.Options{Plan: func(receiver.Request) receiver.Answer {
		committed <- struct{}{}
		return receiver.Silence
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	database, hour := d.database(t), time.Now().Truncate(time.Hour)
	ref := plant(t, database, pastSchedule{
		cron: "0 * * * *", from: hour.Add(-time.Second), until: hour.Add(time.Second), url: r.URL("heartbeat"), timeout: time.Second,
		policies: &schedulesv1.SchedulePolicies{Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW, WhileUnresolved: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW},
	})[0]
	serve := func() (url string, stop func()) {
		t.Helper()
		n, err := node.Start(t.Context(), node.Config{
			Listen: "127.0.0.1:0", Database: database, KeyFile: filepath.Join(t.TempDir(), "key"), Dev: true,
			Grace: time.Second, Log: slog.New(slog.DiscardHandler), Version: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- n.Run(ctx) }()
		return n.URL(), func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	run := func(post bool) {
		var stops []func()
		var url string
		for range d.servers {
			var stop func()
			url, stop = serve()
			stops = append(stops, stop)
		}
		if post {
			select {
			case <-committed:
			case <-waiting(t).Done():
				t.Fatal("no post came")
			}
		} else if h, err := settle(waiting(t), t, dial(t, url), 1); err != nil || len(h.events) != 1 {
			t.Errorf("%d jobs, %v", len(h.events), err)
		} else {
			for id := range h.events {
				if s := h.state(id); s != fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION {
					t.Errorf("the heartbeat is %s", s)
				}
			}
		}
		for _, stop := range stops {
			stop()
		}
	}
	run(true)
	for range cronRuns - 1 {
		run(false)
	}
	if n, all := r.Effects("heartbeat"), r.Requests("heartbeat"); n != 1 || all != 1 {
		t.Errorf("%d effects of %d posts", n, all)
	}
	s := openStore(t, database)
	defer s.Close()
	got, err := s.Schedule(t.Context(), ref)
	if err != nil || got.Run != 1 || got.State != store.ScheduleEnded {
		t.Errorf("%+v, %v", got, err)
	}
}
