package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/node"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// startNode runs the server inside the test.
func startNode(tb testing.TB, d deployment, grace time.Duration) *node.Node {
	tb.Helper()
	n, err := node.Start(tb.Context(), node.Config{
		Listen: "127.0.0.1:0", Database: d.database(tb), KeyFile: filepath.Join(tb.TempDir(), "key"), Dev: true,
		Grace: grace, Log: slog.New(slog.DiscardHandler), Version: "test",
	})
	if err != nil {
		tb.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(tb.Context()) }()
	tb.Cleanup(func() { // the test's context has ended, so the node is shutting down
		if err := <-done; err != nil {
			tb.Errorf("shut down: %v", err)
		}
	})
	return n
}

// run runs a client command.
func run(tb testing.TB, url string, args ...string) (out string, code int) {
	tb.Helper()
	var stdout, stderr bytes.Buffer
	p := Program{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Version: "test"}
	code = p.Run(waiting(tb), append(append([]string{"fireonce"}, args...), "--server", url))
	return stdout.String() + stderr.String(), code
}

// TestReceiverThatNeverAnswers checks that every job ends in its policy's state after a
// bounded number of requests, and that its history explains what happened.
func TestReceiverThatNeverAnswers(t *testing.T) {
	long(t)
	if crashRun {
		t.Skip("needs no failpoints")
	}
	for name, tt := range map[string]struct {
		dedupes  bool
		policy   fireoncev1.Delivery
		window   time.Duration
		attempts int32
		state    fireoncev1.JobState
		proof    fireoncev1.Effect_Proof
		least    int // requests
		most     int
		effects  int
		words    []string
	}{
		"hold": {
			policy: fireoncev1.Delivery_DELIVERY_ONCE_OR_ASK,
			state:  fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION, least: 1, most: 1, effects: 1,
			words: []string{"SENDING → AMBIGUOUS", "AMBIGUOUS → NEEDS_RESOLUTION", "no complete answer", "fireonce resolve"},
		},
		"assume sent": {
			policy: fireoncev1.Delivery_DELIVERY_AT_MOST_ONCE,
			state:  fireoncev1.JobState_JOB_STATE_SUCCEEDED, proof: fireoncev1.Effect_PROOF_ASSUMED, least: 1, most: 1, effects: 1,
			words: []string{"AMBIGUOUS → SUCCEEDED", "POLICY", "proof ASSUMED"},
		},
		"resend": {
			policy: fireoncev1.Delivery_DELIVERY_AT_LEAST_ONCE, attempts: 2,
			state: fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION, least: 2, most: 2, effects: 2, // as asked for
			words: []string{"AMBIGUOUS → RETRYING", "attempt 2", "resent 1×", "AMBIGUOUS → NEEDS_RESOLUTION"},
		},
		"keyed, for as long as it is tried": {
			dedupes: true, policy: fireoncev1.Delivery_DELIVERY_ONCE_OR_ASK, window: 6 * time.Second,
			state: fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION, least: 2, most: 3, effects: 1,
			words: []string{"AMBIGUOUS → SENDING", "AMBIGUOUS → NEEDS_RESOLUTION", "the time to keep trying is over"},
		},
	} {
		for _, d := range deployments {
			t.Run(name+"/"+d.name, func(t *testing.T) {
				t.Parallel()
				r, err := receiver.Start(receiver.Options{
					Dedupes: tt.dedupes, Plan: func(receiver.Request) receiver.Answer { return receiver.Silence },
				})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				n := startNode(t, d, time.Second)
				api := dial(t, n.URL())
				req := hook(connect(t, api, tt.dedupes), "silent", r.URL("silent"), time.Second)
				req.Delivery, req.RetryPolicy = tt.policy, &fireoncev1.RetryPolicy{MaxAttempts: tt.attempts}
				if tt.window > 0 {
					req.RetryPolicy.KeepTrying = durationpb.New(tt.window)
				}
				if _, err := api.Jobs.ScheduleJob(waiting(t), req); err != nil {
					t.Fatal(err)
				}
				if _, err := settle(waiting(t), t, api, 1); err != nil {
					t.Fatal(err)
				}
				got, err := api.Jobs.GetJob(waiting(t), &fireoncev1.GetJobRequest{
					Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "silent"},
				})
				if err != nil {
					t.Fatal(err)
				}
				if got.GetJob().GetState() != tt.state || got.GetJob().GetEffect().GetProof() != tt.proof {
					t.Errorf("the job is %v, proof %v", got.GetJob().GetState(), got.GetJob().GetEffect().GetProof())
				}
				if requests := r.Requests("silent"); requests < tt.least || requests > tt.most || r.Effects("silent") != tt.effects {
					t.Errorf("%d requests, %d effects", requests, r.Effects("silent"))
				}
				out, code := run(t, n.URL(), "get", "--key", "silent", "--history")
				for _, words := range tt.words {
					if !strings.Contains(out, words) {
						t.Errorf("the history does not say %q", words)
					}
				}
				if code != 0 || t.Failed() {
					t.Logf("exit %d:\n%s", code, out)
				}
			})
		}
	}
}
