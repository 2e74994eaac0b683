// Orders announces orders by webhook, each once.
//
// Run it twice, or kill it and run it again: no order is announced twice, because the
// idempotency key is derived from the order, not from the attempt to announce it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fireonce "github.com/fireonce/fireonce/clients/go"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1/connectionsv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

func main() {
	var o orders
	server := flag.String("server", "http://127.0.0.1:8080", "where Fireonce listens")
	timeout := flag.Float64("timeout", 10, "seconds for one try of a call")
	at := flag.String("at", "", "when to announce, in RFC 3339; now if not given")
	flag.StringVar(&o.receiver, "receiver", "http://127.0.0.1:9000/", "where the announcements go")
	flag.IntVar(&o.amount, "amount", 100, "what each order costs")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: orders [--server URL] [--receiver URL] [--amount N] [--at TIME] [--timeout SECONDS] ORDER...")
		os.Exit(2)
	}
	if *at != "" {
		due, err := time.Parse(time.RFC3339, *at)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		o.due = timestamppb.New(due)
	}
	var err error
	o.client, err = fireonce.New(*server, fireonce.Options{
		APIKey: os.Getenv("FIREONCE_API_KEY"), Timeout: time.Duration(*timeout * float64(time.Second)),
	})
	if err == nil {
		err = o.announce(context.Background(), flag.Args())
	}
	os.Exit(explain(err))
}

type orders struct {
	client   *fireonce.Client
	receiver string
	amount   int
	due      *timestamppb.Timestamp
}

// errUnannounced is returned if an order was refused, or if its announcement has not taken effect.
var errUnannounced = errors.New("not all orders were announced")

func (o *orders) announce(ctx context.Context, names []string) error {
	connection, err := o.connect(ctx)
	if err != nil {
		return err
	}
	requests := make([]*fireoncev1.ScheduleJobRequest, 0, len(names))
	for _, name := range names {
		r, err := o.request(connection, name)
		if err != nil {
			return err
		}
		requests = append(requests, r)
	}
	ids, err := o.schedule(ctx, requests)
	if err != nil {
		return err
	}
	if err := o.watch(ctx, ids); err != nil {
		return err
	}
	for _, r := range requests {
		got, err := o.client.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{
			Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: r.GetIdempotencyKey()}, OmitPayload: true,
		})
		if err != nil {
			return err
		}
		fmt.Println("stored", got.GetJob().GetIdempotencyKey(), got.GetJob().GetJobId(), got.GetJob().GetState())
	}
	if len(ids) < len(requests) {
		return errUnannounced
	}
	return nil
}

// connect creates the connection to the receiver, or returns the one that was created before.
func (o *orders) connect(ctx context.Context) (string, error) {
	req := &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "orders",
		Connection: &connectionsv1.Connection{
			Connector: "webhook", DisplayName: "orders",
			// The receiver drops a webhook-id that it has seen in the last 24 hours, so
			// Fireonce may send again when an outcome is unknown.
			Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_YES, KeyWindow: durationpb.New(24 * time.Hour),
			}},
		},
	}
	if secret := os.Getenv("WEBHOOK_SECRET"); secret != "" {
		req.Credential = &connectionsv1.Credential{Kind: &connectionsv1.Credential_WebhookSecrets{
			WebhookSecrets: &connectionsv1.WebhookSecrets{Secrets: []string{secret}},
		}}
	}
	connections := fireonce.Service(o.client, connectionsv1connect.NewConnectionServiceClient)
	made, err := connections.CreateConnection(ctx, req)
	return made.GetConnection().GetIdempotencyKey(), err
}

// request returns the request for one order. The same order always has the same request: its
// time too is a property of the order, never "in an hour from now".
func (o *orders) request(connection, name string) (*fireoncev1.ScheduleJobRequest, error) {
	body, err := json.Marshal(map[string]any{"order": name, "amount": o.amount})
	return &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: "order-" + name + "-paid", Connection: &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: connection}, ScheduleTime: o.due,
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url:     strings.TrimSuffix(o.receiver, "/") + "/orders/" + name,
			Content: &fireoncev1.Webhook_BodyText{BodyText: string(body)},
		}}},
	}, err
}

// schedule stores the jobs and returns their ids.
func (o *orders) schedule(ctx context.Context, requests []*fireoncev1.ScheduleJobRequest) ([]string, error) {
	first, err := o.client.Jobs.ScheduleJob(ctx, requests[0])
	if err != nil {
		return nil, err
	}
	scheduled(first)
	// One call schedules all of them. The first is among them to show that a repeat makes no
	// second job. The server decides about each item separately.
	batch, err := o.client.Jobs.BatchScheduleJobs(ctx, &fireoncev1.BatchScheduleJobsRequest{Requests: requests})
	if err != nil {
		return nil, err
	}
	var ids []string
	for i, r := range batch.GetResults() {
		if failed := r.GetError(); failed != nil {
			fmt.Println("refused", requests[i].GetIdempotencyKey(), failed.GetDetail().GetReason(), failed.GetMessage())
			continue
		}
		scheduled(r.GetSuccess())
		ids = append(ids, r.GetSuccess().GetJob().GetJobId())
	}
	return ids, nil
}

func scheduled(r *fireoncev1.ScheduleJobResponse) {
	word := "known"
	if r.GetCreated() {
		word = "new"
	}
	fmt.Println("scheduled", r.GetJob().GetIdempotencyKey(), word)
}

// watch prints each change until every job has taken effect.
func (o *orders) watch(ctx context.Context, ids []string) error {
	left := make(map[string]bool, len(ids))
	for _, id := range ids {
		left[id] = true
	}
	for event, err := range o.client.Events(ctx, fireonce.EventOptions{Filter: &fireoncev1.EventFilter{JobIds: ids}}) {
		if err != nil {
			return err
		}
		change := event.GetJobChanged()
		fmt.Println("changed", change.GetJobId(), change.GetSequence(), change.GetNewState())
		switch {
		case change.GetNewState() == fireoncev1.JobState_JOB_STATE_SUCCEEDED:
			delete(left, change.GetJobId())
		case change.GetNewState() == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION:
			fmt.Println("undecided", change.GetJobId(), "see `fireonce resolve`")
			return errUnannounced
		case change.GetPhase() == fireoncev1.Phase_PHASE_ENDED:
			return errUnannounced
		}
		if len(left) == 0 {
			break
		}
	}
	return nil
}

// explain prints what went wrong, by the typed detail and not by the text, and returns the
// exit code.
func explain(err error) int {
	detail := fireonce.Detail(err)
	switch {
	case err == nil:
		return 0
	case detail == nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	case detail.GetReason() == fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED:
		// Never retry this, and never use another key instead: the job that holds the key
		// announces the order.
		conflict := detail.GetIdempotencyConflict()
		fmt.Fprintf(os.Stderr, "%v: job %s differs in %s\n", detail.GetReason(), conflict.GetJobId(), strings.Join(conflict.GetMismatchedFields(), ", "))
		return 3
	}
	message := err.Error()
	var ce *connect.Error
	if errors.As(err, &ce) {
		message = ce.Message()
	}
	fmt.Fprintf(os.Stderr, "%v: %s\n", detail.GetReason(), message)
	return 1
}
