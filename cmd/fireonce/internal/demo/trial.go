package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/follow"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/receiver"
)

// trial is Fireonce with one receiver.
type trial struct {
	name       string
	dedupes    bool
	receiver   *receiver.Receiver
	connection string

	mu        sync.Mutex
	scheduled int
	states    map[string]fireoncev1.JobState
	subjects  map[string]string // by job
}

func newTrial(name string, o receiver.Options) (*trial, error) {
	r, err := receiver.Start(o)
	if err != nil {
		return nil, err
	}
	return &trial{
		name: name, dedupes: o.Dedupes, receiver: r,
		states: make(map[string]fireoncev1.JobState), subjects: make(map[string]string),
	}, nil
}

// subject returns the name of a job's subject. It is the same in each trial, so that each
// has the same faults.
func subject(i int) string { return fmt.Sprintf("order-%04d", i) }

func (l *trial) connect(ctx context.Context, api *client.API) error {
	settings := &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO}
	if l.dedupes {
		settings.ReceiverDedupes = connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES
		settings.KeyWindow = durationpb.New(24 * time.Hour)
	}
	resp, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "demo-" + l.name,
		Connection: &connectionsv1.Connection{
			Connector: "webhook", DisplayName: l.name,
			Settings: &connectionsv1.Connection_Webhook{Webhook: settings},
		},
	})
	l.connection = resp.GetConnection().GetConnectionId()
	return err
}

// run schedules the jobs over time and follows them until all are at rest.
func (l *trial) run(ctx context.Context, api *client.API, jobs int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	submitted := make(chan error, 1)
	go func() { submitted <- l.submit(ctx, api, jobs) }()
	o := follow.Options{Filter: &fireoncev1.EventFilter{ConnectionIds: []string{l.connection}}, Beginning: true}
	err := follow.Events(ctx, api.Jobs, o, func(e *fireoncev1.JobEvent) error {
		if l.note(e.GetJobChanged()) == jobs {
			return follow.ErrStop
		}
		return nil
	})
	if err != nil {
		cancel()
		return errors.Join(fmt.Errorf("follow the jobs: %w", err), <-submitted)
	}
	return <-submitted
}

// note records a job's state and returns how many jobs are at rest.
func (l *trial) note(c *fireoncev1.JobChanged) (atRest int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[c.GetJobId()] = c.GetNewState()
	return l.atRest()
}

func (l *trial) atRest() (n int) {
	for _, s := range l.states {
		switch s {
		case fireoncev1.JobState_JOB_STATE_SUCCEEDED, fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION,
			fireoncev1.JobState_JOB_STATE_FAILED, fireoncev1.JobState_JOB_STATE_EXPIRED:
			n++
		default:
		}
	}
	return n
}

// submit schedules one job after the other. It repeats a failed call with the same
// key, as any client may do: the server is killed meanwhile.
func (l *trial) submit(ctx context.Context, api *client.API, jobs int) error {
	tick := time.NewTicker(max(spread/time.Duration(jobs), time.Millisecond))
	defer tick.Stop()
	for i := range jobs {
		req := &fireoncev1.ScheduleJobRequest{
			IdempotencyKey: l.name + ":" + subject(i), Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: l.connection},
			ScheduleTime:   timestamppb.New(time.Now().Add(lead)),
			AttemptTimeout: durationpb.New(attemptTimeout),
			Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
				Url:     l.receiver.URL(subject(i)),
				Content: &fireoncev1.Webhook_BodyText{BodyText: `{"order":"` + subject(i) + `"}`},
			}}},
		}
		for {
			resp, err := api.Jobs.ScheduleJob(ctx, req)
			if err == nil {
				l.mu.Lock()
				l.scheduled++
				l.subjects[resp.GetJob().GetJobId()] = subject(i)
				l.mu.Unlock()
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("schedule: %w", err)
			}
			<-tick.C
		}
		<-tick.C
	}
	return nil
}

// result is the result of a trial.
type result struct {
	scheduled int
	receiver.Totals
	// lost counts jobs that were acknowledged, are not unknown, and have no effect.
	// wrong counts jobs whose final state contradicts their effect.
	lost, unknown, wrong int
}

func (l *trial) result() result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := result{scheduled: l.scheduled, Totals: l.receiver.Totals()}
	for id, subject := range l.subjects {
		effects := l.receiver.Effects(subject)
		switch l.states[id] {
		case fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION:
			r.unknown++
		case fireoncev1.JobState_JOB_STATE_SUCCEEDED:
			if effects == 0 {
				r.lost++
			}
		default:
			r.wrong++
			if effects == 0 {
				r.lost++
			}
		}
	}
	return r
}
