package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

const (
	// farAway is when the jobs of floods are due: they fill the database, and nothing
	// is sent.
	farAway = 30 * 24 * time.Hour
	// batchJobs jobs of batchBody bytes each are close to the largest lawful batch.
	batchJobs, batchBody = 500, 16 << 10
	// tarpitTimeout is how long a job for the tarpit holds a sender.
	tarpitTimeout = 10 * time.Second
)

// hugeBody is the body of each job of a huge batch.
var hugeBody = strings.Repeat("b", batchBody)

// flood stores useless jobs, as fast as the server accepts them.
func flood(ctx context.Context, w *worker, at Listener) string {
	return call(ctx, at, w.keys.Write, func(ctx context.Context, api *fleet.API) error {
		conn, err := w.connection(ctx, api)
		if err != nil {
			return err
		}
		_, err = api.Jobs.ScheduleJob(ctx, job(w.name("flood"), conn, w.tarpit, time.Now().Add(farAway), strings.Repeat("x", 1<<10)))
		return err
	})
}

// connectMany makes useless connections.
func connectMany(ctx context.Context, w *worker, at Listener) string {
	return call(ctx, at, w.keys.Write, func(ctx context.Context, api *fleet.API) error {
		_, err := makeConnection(ctx, api, w.name("many"))
		return err
	})
}

// sendHugeBatch repeats the largest batch. Only the first one is stored.
func sendHugeBatch(ctx context.Context, w *worker, at Listener) string {
	return call(ctx, at, w.keys.Write, func(ctx context.Context, api *fleet.API) error {
		conn, err := w.connection(ctx, api)
		if err != nil {
			return err
		}
		req, due := &fireoncev1.BatchScheduleJobsRequest{}, w.begun.Add(farAway)
		for n := range batchJobs {
			req.Requests = append(req.Requests, job(fmt.Sprintf("batch-%d", n), conn, w.tarpit, due, hugeBody))
		}
		_, err = api.Jobs.BatchScheduleJobs(ctx, req)
		return err
	})
}

// feedTarpit submits a job that is due now, for a receiver that never answers.
func feedTarpit(ctx context.Context, w *worker, at Listener) string {
	return call(ctx, at, w.keys.Write, func(ctx context.Context, api *fleet.API) error {
		conn, err := w.connection(ctx, api)
		if err != nil {
			return err
		}
		_, err = api.Jobs.ScheduleJob(ctx, job(w.name("tarpit"), conn, w.tarpit, time.Time{}, "{}"))
		return err
	})
}

// name returns a new idempotency key.
func (w *worker) name(of string) string {
	return fmt.Sprintf("%s-%d-%x", of, w.made, w.random.Uint64())
}

// job is a webhook; due zero: now.
func job(key, conn, url string, due time.Time, body string) *fireoncev1.ScheduleJobRequest {
	req := &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: key, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: conn},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: url + "/" + key, Content: &fireoncev1.Webhook_BodyText{BodyText: body},
		}}},
		AttemptTimeout: durationpb.New(tarpitTimeout),
	}
	if !due.IsZero() {
		req.ScheduleTime = timestamppb.New(due)
	}
	return req
}

// connection returns the attackers' connection, and makes it if need be.
func (c *campaign) connection(ctx context.Context, api *fleet.API) (id string, err error) {
	c.mu.Lock()
	id = c.hook
	c.mu.Unlock()
	if id != "" {
		return id, nil
	}
	if id, err = makeConnection(ctx, api, "hostile"); err == nil {
		c.mu.Lock()
		c.hook = id
		c.mu.Unlock()
	}
	return id, err
}

func makeConnection(ctx context.Context, api *fleet.API, key string) (id string, err error) {
	resp, err := api.Connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: key, Connection: &connectionsv1.Connection{Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{
			Webhook: &connectionsv1.WebhookSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO},
		}},
	})
	return resp.GetConnection().GetConnectionId(), err
}
