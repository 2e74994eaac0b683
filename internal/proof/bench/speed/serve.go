//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/adminv1/adminv1grpc"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1grpc"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1grpc"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/internal/proof/bench/speed/internal/receiver"
	"github.com/fireonce/fireonce/internal/proof/proc"
)

const (
	// maxMessage bounds an answer.
	maxMessage = 32 << 20
)

// served is `fireonce serve` in a process of its own, and clients of it.
type served struct {
	task
	process    *proc.Process
	address    string
	lines      []*grpc.ClientConn
	connection string
	turn       atomic.Int64
}

// servedReady finds the address for all protocols in the program's line, nativeReady that for
// gRPC alone.
var (
	servedReady = regexp.MustCompile(` ready: http://([^,]+),`)
	nativeReady = regexp.MustCompile(` ready: .*, gRPC ([^,]+),`)
)

// serve starts the program on the task's database, with clients on so many
// connections, and makes a connection whose receiver dedupes.
func serve(ctx context.Context, t task, lines int, flags ...string) (*served, error) {
	s, err := start(ctx, t, lines, "serve.log", flags...)
	if err != nil {
		return nil, err
	}
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// start starts the program, which logs to a file of the task's folder. What it is asked for
// is up to the caller.
func start(ctx context.Context, t task, lines int, log string, flags ...string) (_ *served, err error) {
	args := []string{
		"serve", "--dev", "--listen", "127.0.0.1:0", "--database", t.Database,
		"--key-file", filepath.Join(t.Dir, "key"), "--senders", strconv.Itoa(t.Senders), "--log-level", "warn",
	}
	args = append(args, flags...)
	ready := servedReady
	if t.Native {
		args, ready = append(args, "--grpc-listen", "127.0.0.1:0"), nativeReady
	}
	cmd := exec.Command(t.Fireonce, args...) //nolint:noctx,gosec // ended by close
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "FIREONCE_") { // what would configure it
			cmd.Env = append(cmd.Env, pair)
		}
	}
	if t.ServerProfile != "" {
		cmd.Env = append(cmd.Env, profileEnv+"="+t.ServerProfile)
	}
	p, line, err := proc.Serve(ctx, cmd, filepath.Join(t.Dir, log))
	if err != nil {
		return nil, err
	}
	s := &served{task: t, process: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	found := ready.FindStringSubmatch(line)
	if found == nil {
		return s, fmt.Errorf("not where it serves: %q", line)
	}
	s.address = found[1]
	return s, s.dial(lines)
}

func (s *served) dial(lines int) error {
	for range lines {
		line, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
		if err != nil {
			return err
		}
		s.lines = append(s.lines, line)
	}
	return nil
}

func (s *served) connect(ctx context.Context) error {
	// As in process, the bound bounds nothing that is measured. What bounds requests is
	// the senders: a job that was answered is under way until that is recorded.
	c, err := connectionsv1grpc.NewConnectionServiceClient(s.lines[0]).CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "bench", Connection: &connectionsv1.Connection{
			Connector: "webhook", DisplayName: "bench", Limits: &connectionsv1.ConnectionLimits{MaxInFlight: int32(max(s.Senders, store.MaxBatch))},
			Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(keyWindow),
			}},
		},
	}, grpc.WaitForReady(true))
	s.connection = c.GetConnection().GetConnectionId()
	return err
}

// jobs returns a client; they take turns on the connections.
func (s *served) jobs() fireoncev1grpc.JobServiceClient {
	return fireoncev1grpc.NewJobServiceClient(s.lines[int(s.turn.Add(1))%len(s.lines)])
}

// request is job n's; at zero: due now.
func (s *served) request(n int, body []byte, at time.Time) *fireoncev1.ScheduleJobRequest {
	r := &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: s.Run + "-" + strconv.Itoa(n), Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: s.connection},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: s.run().URL(), Content: &fireoncev1.Webhook_BodyText{BodyText: string(body)},
		}}},
	}
	if !at.IsZero() {
		r.ScheduleTime = timestamppb.New(at)
	}
	return r
}

// one submits a job.
func (s *served) one(ctx context.Context, c fireoncev1grpc.JobServiceClient, n int, body []byte, at time.Time) error {
	resp, err := c.ScheduleJob(ctx, s.request(n, body, at))
	if err == nil && !resp.GetCreated() {
		err = fmt.Errorf("job %d was there already", n)
	}
	return err
}

// many submits jobs in one call, and looks at each answer.
func (s *served) many(ctx context.Context, at time.Time, from, to int) error {
	requests := make([]*fireoncev1.ScheduleJobRequest, to-from)
	for i := range requests {
		requests[i] = s.request(from+i, receiver.Payload(from+i, at), at)
	}
	resp, err := s.jobs().BatchScheduleJobs(ctx, &fireoncev1.BatchScheduleJobsRequest{Requests: requests})
	if err != nil {
		return err
	}
	if n := len(resp.GetResults()); n != len(requests) {
		return fmt.Errorf("%d answers to %d jobs", n, len(requests))
	}
	for _, r := range resp.GetResults() {
		if !r.GetSuccess().GetCreated() {
			return fmt.Errorf("a job was not stored: %s", r.GetError().GetMessage())
		}
	}
	return nil
}

// stored wants so many jobs that wait for their time.
func (s *served) stored(ctx context.Context, want int) error {
	resp, err := adminv1grpc.NewStatsServiceClient(s.lines[0]).GetStats(ctx, &adminv1.GetStatsRequest{})
	if err != nil {
		return err
	}
	var got int64
	for _, c := range resp.GetStateCounts() {
		if c.GetState() == fireoncev1.JobState_JOB_STATE_SCHEDULED {
			got = c.GetCount()
		}
	}
	if got != int64(want) {
		err = fmt.Errorf("of %d jobs %d are there", want, got)
	}
	return err
}

func (s *served) close() error {
	var err error
	for _, line := range s.lines {
		err = errors.Join(err, line.Close())
	}
	s.process.Kill()
	return err
}
