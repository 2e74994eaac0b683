package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
	"github.com/fireonce/fireonce/internal/proof/chaos/platform"
	"github.com/fireonce/fireonce/internal/proof/heldport"

	"github.com/fireonce/fireonce/internal/proof/bench/duplicates/internal/tally"
)

const (
	// Shorter than the defaults, so that a run ends soon. It makes Fireonce's part
	// harder, not easier: what it waits for before it believes in an absence is less.
	fireonceGrace    = 2 * time.Second
	fireonceLease    = 3 * time.Second
	fireonceFirst    = time.Second
	fireonceSlow     = 30 * time.Second
	fireonceWindow   = time.Hour // of the receiver's keys
	fireonceAccounts = 8         // of the feed
	batch            = 500
	callTimeout      = 30 * time.Second
)

// fireonce is `fireonce serve` on PostgreSQL.
type fireonce struct {
	*environment
	face, url string
	port      *heldport.Port // where it serves; the same in each life
	api       *fleet.API
	submitted bool
}

func newFireonce(h *environment, face string) system {
	return &fireonce{environment: h, face: face}
}

func (f *fireonce) prepare(ctx context.Context) error {
	var err error
	if f.port, err = heldport.Hold(0); err != nil {
		return err
	}
	f.url, err = f.database(ctx)
	return err
}

func (f *fireonce) command() *exec.Cmd {
	cmd := exec.Command(f.binary, "serve", "--dev", "--listen", f.port.Addr(), "--grpc-listen", "off", "--database", f.url, //nolint:noctx,gosec // ended by its trial; the binary was built for this
		"--key-file", filepath.Join(f.dir, "key"), "--senders", strconv.Itoa(f.senders),
		"--grace", fireonceGrace.String(), "--lease", fireonceLease.String(), "--log-level", "warn", "--breaker-after", "0")
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "FIREONCE_") { // what would configure it
			cmd.Env = append(cmd.Env, pair)
		}
	}
	return cmd
}

var fireonceReady = regexp.MustCompile(` ready: (http://[^,]+),`)

func (f *fireonce) ready(ctx context.Context, line string) error {
	found := fireonceReady.FindStringSubmatch(line)
	if found == nil {
		return fmt.Errorf("not where it serves: %q", line)
	}
	var err error
	if f.api, err = fleet.Dial(found[1], ""); err != nil || f.submitted {
		return err
	}
	f.submitted = true
	return f.submit(ctx)
}

// submit stores all jobs. They are due immediately.
func (f *fireonce) submit(ctx context.Context) error {
	connections, err := f.connect(ctx)
	if err != nil {
		return err
	}
	requests := make([]*fireoncev1.ScheduleJobRequest, len(f.subjects))
	for i, s := range f.subjects {
		payload, err := f.payload(s)
		if err != nil {
			return err
		}
		requests[i] = &fireoncev1.ScheduleJobRequest{
			IdempotencyKey: s, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: connections[i%len(connections)]}, Payload: payload,
			AttemptTimeout: durationpb.New(f.timeout),
			RetryPolicy: &fireoncev1.RetryPolicy{
				MaxAttempts: maxTries,
				MinBackoff:  durationpb.New(fireonceFirst), MaxBackoff: durationpb.New(fireonceSlow),
			},
		}
	}
	for len(requests) > 0 {
		n := min(batch, len(requests))
		if err := f.store(ctx, requests[:n]); err != nil {
			return err
		}
		requests = requests[n:]
	}
	return nil
}

// store submits a batch and looks at each answer.
func (f *fireonce) store(ctx context.Context, requests []*fireoncev1.ScheduleJobRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := f.api.Jobs.BatchScheduleJobs(ctx, &fireoncev1.BatchScheduleJobsRequest{Requests: requests})
	if err != nil {
		return err
	}
	for _, r := range resp.GetResults() {
		if e := r.GetError(); e != nil {
			return errors.New("a job was refused: " + e.GetMessage())
		}
	}
	return nil
}

// connect makes the connections: one receiver, or some accounts of a feed.
func (f *fireonce) connect(ctx context.Context) ([]string, error) {
	var all []*connectionsv1.Connection
	switch f.face {
	case platform.FaceFeed:
		for i := range fireonceAccounts {
			all = append(all, &connectionsv1.Connection{Connector: "feed", Settings: &connectionsv1.Connection_Feed{
				Feed: &connectionsv1.FeedSettings{
					BaseUrl: f.platform + "/feed/" + strconv.Itoa(i), ReadLag: durationpb.New(time.Duration(f.faults.ReadLag)),
				},
			}})
		}
	case platform.FaceKeyed:
		all = append(all, webhook(&connectionsv1.WebhookSettings{
			ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(fireonceWindow),
		}))
	default:
		all = append(all, webhook(&connectionsv1.WebhookSettings{
			ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO,
		}))
	}
	ids := make([]string, len(all))
	for i, c := range all {
		c.DisplayName = f.face + "-" + strconv.Itoa(i)
		c.Limits = &connectionsv1.ConnectionLimits{MaxInFlight: int32(f.senders)}
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := f.api.Connections.CreateConnection(callCtx, &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: c.DisplayName, Connection: c,
		})
		cancel()
		if err != nil {
			return nil, err
		}
		ids[i] = resp.GetConnection().GetConnectionId()
	}
	return ids, nil
}

func webhook(s *connectionsv1.WebhookSettings) *connectionsv1.Connection {
	return &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: s}}
}

func (f *fireonce) payload(subject string) (*fireoncev1.Payload, error) {
	if f.face == platform.FaceFeed {
		return &fireoncev1.Payload{Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: subject}}}, nil
	}
	body, err := json.Marshal(map[string]string{"subject": subject})
	return &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
		Url: f.hook(f.face), Content: &fireoncev1.Webhook_BodyText{BodyText: string(body)},
	}}}, err
}

func (f *fireonce) atRest(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := f.api.Stats.GetStats(ctx, &adminv1.GetStatsRequest{})
	n := 0
	for _, c := range resp.GetStateCounts() {
		if verdictOf(c.GetState()) != tally.Unfinished {
			n += int(c.GetCount())
		}
	}
	return n, err
}

func (f *fireonce) verdicts(ctx context.Context) (map[string]tally.Verdict, error) {
	out := make(map[string]tally.Verdict)
	token := ""
	for {
		callCtx, cancel := context.WithTimeout(ctx, callTimeout)
		resp, err := f.api.Jobs.ListJobs(callCtx, &fireoncev1.ListJobsRequest{
			PageSize: batch, PageToken: token, Order: fireoncev1.JobOrder_JOB_ORDER_CREATE_TIME_DESC,
		})
		cancel()
		if err != nil {
			return nil, err
		}
		for _, j := range resp.GetJobs() {
			out[j.GetIdempotencyKey()] = verdictOf(j.GetState())
		}
		if token = resp.GetNextPageToken(); token == "" {
			return out, nil
		}
	}
}

func verdictOf(s fireoncev1.JobState) tally.Verdict {
	switch s {
	case fireoncev1.JobState_JOB_STATE_SUCCEEDED:
		return tally.Succeeded
	case fireoncev1.JobState_JOB_STATE_FAILED, fireoncev1.JobState_JOB_STATE_EXPIRED, fireoncev1.JobState_JOB_STATE_CANCELED:
		return tally.Failed
	case fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION:
		return tally.Unknown
	default:
		return tally.Unfinished
	}
}

func (f *fireonce) close() error {
	if f.port == nil {
		return nil
	}
	return f.port.Close()
}
