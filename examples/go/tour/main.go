// Tour shows a client's calls on jobs, step by step: schedule, repeat, conflict, read by key,
// stream with a cursor, cancel, resolve, and an error by field.
//
// Each step prints one line. The receiver must never answer.
package main

import (
	"context"
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
	server, receiver := flag.String("server", "", "where Fireonce listens"), flag.String("receiver", "", "a URL that never answers")
	flag.Parse()
	client, err := fireonce.New(*server, fireonce.Options{APIKey: os.Getenv("FIREONCE_API_KEY")})
	if err == nil {
		err = tour{client, *receiver}.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type tour struct {
	*fireonce.Client

	receiver string
}

func (t tour) run(ctx context.Context) error {
	connections := fireonce.Service(t.Client, connectionsv1connect.NewConnectionServiceClient)
	made, err := connections.CreateConnection(ctx, &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "tour", Connection: &connectionsv1.Connection{
			Connector: "webhook", Settings: &connectionsv1.Connection_Webhook{Webhook: &connectionsv1.WebhookSettings{
				ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO,
			}},
		},
	})
	if err != nil {
		return err
	}
	connection := made.GetConnection().GetConnectionId()
	if err := t.cancel(ctx, connection); err != nil {
		return err
	}
	if err := t.resolve(ctx, connection); err != nil {
		return err
	}
	_, err = t.Jobs.ScheduleJob(ctx, t.request(connection, "with a space", "one", ""))
	fmt.Println("violation", refused(err), fireonce.Detail(err).GetViolations()[0].GetField())
	return nil
}

// cancel schedules a job, finds it under its key, and cancels it.
func (t tour) cancel(ctx context.Context, connection string) error {
	tomorrow := timestamppb.New(time.Now().Add(24 * time.Hour))
	later := t.request(connection, "tour-later", "one", "/later")
	later.ScheduleTime = tomorrow
	first, err := t.Jobs.ScheduleJob(ctx, later)
	if err != nil {
		return err
	}
	fmt.Printf("scheduled created=%t\n", first.GetCreated())
	again, err := t.Jobs.ScheduleJob(ctx, later)
	if err != nil {
		return err
	}
	fmt.Printf("repeated created=%t same=%t\n", again.GetCreated(), again.GetJob().GetJobId() == first.GetJob().GetJobId())
	other := t.request(connection, "tour-later", "two", "/later")
	other.ScheduleTime = tomorrow
	_, err = t.Jobs.ScheduleJob(ctx, other)
	conflict := fireonce.Detail(err).GetIdempotencyConflict()
	fmt.Println("conflict", refused(err), strings.Join(conflict.GetMismatchedFields(), ","), same(conflict.GetJobId(), first))
	found, err := t.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "tour-later"}})
	if err != nil {
		return err
	}
	fmt.Println("found", state(found.GetJob().GetState()))
	id := first.GetJob().GetJobId()
	cursor, err := t.event(ctx, id, "")
	if err != nil {
		return err
	}
	canceled, err := t.Jobs.CancelJob(ctx, &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_IdempotencyKey{IdempotencyKey: "tour-later"}})
	if err != nil {
		return err
	}
	fmt.Printf("canceled prevented=%t\n", canceled.GetPrevented())
	_, err = t.event(ctx, id, cursor)
	return err
}

// resolve schedules a job whose outcome stays unknown, and decides it.
func (t tour) resolve(ctx context.Context, connection string) error {
	silent := t.request(connection, "tour-silent", "one", "/silent")
	silent.AttemptTimeout = durationpb.New(time.Second)
	asked, err := t.Jobs.ScheduleJob(ctx, silent)
	if err != nil {
		return err
	}
	for event, err := range t.Events(ctx, fireonce.EventOptions{Filter: &fireoncev1.EventFilter{JobIds: []string{asked.GetJob().GetJobId()}}}) {
		if err != nil {
			return err
		}
		if event.GetJobChanged().GetNewState() == fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION {
			break
		}
	}
	unknown, err := t.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "tour-silent"}})
	if err != nil {
		return err
	}
	fmt.Println("unknown", state(unknown.GetJob().GetState()))
	resolved, err := t.Jobs.ResolveJob(ctx, &fireoncev1.ResolveJobRequest{
		Job: &fireoncev1.ResolveJobRequest_IdempotencyKey{IdempotencyKey: "tour-silent"}, Etag: unknown.GetJob().GetEtag(),
		Decision: fireoncev1.Resolution_DECISION_SENT, Note: "seen at the receiver",
	})
	if err != nil {
		return err
	}
	fmt.Println("resolved", state(resolved.GetJob().GetState()))
	return nil
}

func (t tour) request(connection, key, body, path string) *fireoncev1.ScheduleJobRequest {
	return &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: key, Connection: &fireoncev1.ScheduleJobRequest_ConnectionId{ConnectionId: connection},
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url: t.receiver + path, Content: &fireoncev1.Webhook_BodyText{BodyText: body},
		}}},
	}
}

// event prints the first change of a job behind a cursor, and returns the change's cursor.
func (t tour) event(ctx context.Context, job, cursor string) (string, error) {
	for event, err := range t.Events(ctx, fireonce.EventOptions{Filter: &fireoncev1.EventFilter{JobIds: []string{job}}, After: cursor}) {
		if err != nil {
			return "", err
		}
		fmt.Println("event", event.GetJobChanged().GetSequence(), state(event.GetJobChanged().GetNewState()))
		return event.GetCursor(), nil
	}
	return "", errors.New("the stream ended")
}

func state(s fireoncev1.JobState) string { return strings.TrimPrefix(s.String(), "JOB_STATE_") }

func same(id string, first *fireoncev1.ScheduleJobResponse) string {
	if id == first.GetJob().GetJobId() {
		return "same job"
	}
	return "another job"
}

// refused returns the status code, as gRPC writes it, and the reason.
func refused(err error) string {
	return strings.ToUpper(connect.CodeOf(err).String()) + " " +
		strings.TrimPrefix(fireonce.Detail(err).GetReason().String(), "ERROR_REASON_")
}
