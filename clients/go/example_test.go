package fireonce_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	fireonce "github.com/fireonce/fireonce/clients/go"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1/fireoncev1connect"
)

// Schedule a webhook. The idempotency key is derived from the order, so the second call
// finds the job of the first one.
func ExampleClient_schedule() {
	server := exampleServer()
	defer server.Close()

	client, err := fireonce.New(server.URL, fireonce.Options{APIKey: "fo_…"})
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		made, err := client.Jobs.ScheduleJob(context.Background(), orderPaid("42", `{"amount":100}`))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(made.GetJob().GetState(), "new:", made.GetCreated())
	}
	// Output:
	// JOB_STATE_SCHEDULED new: true
	// JOB_STATE_SCHEDULED new: false
}

// Switch on the typed reason of an error, never on its text.
func ExampleDetail() {
	server := exampleServer()
	defer server.Close()

	client, err := fireonce.New(server.URL, fireonce.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := client.Jobs.ScheduleJob(ctx, orderPaid("42", `{"amount":100}`)); err != nil {
		log.Fatal(err)
	}
	// The same key with another content is a mistake of the caller.
	_, err = client.Jobs.ScheduleJob(ctx, orderPaid("42", `{"amount":200}`))
	switch detail := fireonce.Detail(err); detail.GetReason() {
	case fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED:
		fmt.Println("the key is used; these fields differ:", detail.GetIdempotencyConflict().GetMismatchedFields())
	default:
		fmt.Println(err)
	}
	// Output:
	// the key is used; these fields differ: [payload]
}

// Wait until a job has ended: read its events from the beginning until one has a final state.
func ExampleClient_Events_wait() {
	server := exampleServer()
	defer server.Close()

	client, err := fireonce.New(server.URL, fireonce.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	made, err := client.Jobs.ScheduleJob(ctx, orderPaid("42", `{"amount":100}`))
	if err != nil {
		log.Fatal(err)
	}
	filter := &fireoncev1.EventFilter{JobIds: []string{made.GetJob().GetJobId()}}
	for event, err := range client.Events(ctx, fireonce.EventOptions{Filter: filter}) {
		if err != nil {
			log.Fatal(err)
		}
		state := event.GetJobChanged().GetNewState()
		fmt.Println(state)
		switch state {
		case fireoncev1.JobState_JOB_STATE_SUCCEEDED:
			return // the effect exists
		case fireoncev1.JobState_JOB_STATE_FAILED, fireoncev1.JobState_JOB_STATE_CANCELED, fireoncev1.JobState_JOB_STATE_EXPIRED:
			return // it does not
		case fireoncev1.JobState_JOB_STATE_NEEDS_RESOLUTION:
			return // it is unknown, and a person decides: see `fireonce resolve`
		default: // the job has not ended
		}
	}
	// Output:
	// JOB_STATE_SCHEDULED
	// JOB_STATE_SENDING
	// JOB_STATE_SUCCEEDED
}

// Continue behind the last event that was processed, for example after a restart of the
// program. The server here ends each stream after one event; Events opens the next one.
func ExampleClient_Events_continue() {
	server := exampleServer()
	defer server.Close()

	client, err := fireonce.New(server.URL, fireonce.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := client.Jobs.ScheduleJob(ctx, orderPaid("42", `{"amount":100}`)); err != nil {
		log.Fatal(err)
	}
	stored := "" // in a database, beside the effect of the event
	for event, err := range client.Events(ctx, fireonce.EventOptions{After: stored}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("first run:", event.GetJobChanged().GetNewState())
		stored = event.GetCursor()
		break
	}
	for event, err := range client.Events(ctx, fireonce.EventOptions{After: stored}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("second run:", event.GetJobChanged().GetNewState())
		if event.GetJobChanged().GetNewState() == fireoncev1.JobState_JOB_STATE_SUCCEEDED {
			break
		}
	}
	// Output:
	// first run: JOB_STATE_SCHEDULED
	// second run: JOB_STATE_SENDING
	// second run: JOB_STATE_SUCCEEDED
}

// A client that uses gRPC instead of the Connect protocol.
func ExampleOptions_grpc() {
	client, err := fireonce.New("https://fireonce.example.org", fireonce.Options{
		APIKey:  "fo_…",
		Timeout: 5 * time.Second,
		Connect: []connect.ClientOption{connect.WithGRPC()},
	})
	fmt.Println(client != nil, err)
	// Output: true <nil>
}

// orderPaid returns the request for one order. Its key and its time are properties of the
// order, so a repeated call has the same request.
func orderPaid(order, body string) *fireoncev1.ScheduleJobRequest {
	return &fireoncev1.ScheduleJobRequest{
		IdempotencyKey: "order-" + order + "-paid",
		Connection:     &fireoncev1.ScheduleJobRequest_ConnectionKey{ConnectionKey: "orders"},
		ScheduleTime:   timestamppb.New(time.Date(2030, time.March, 1, 9, 0, 0, 0, time.UTC)),
		Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Webhook{Webhook: &fireoncev1.Webhook{
			Url:     "https://example.org/orders/" + order,
			Content: &fireoncev1.Webhook_BodyText{BodyText: body},
		}}},
	}
}

// exampleServer starts a stand-in for a server, in this process. Use `fireonce serve --dev`
// for a real one.
func exampleServer() *httptest.Server {
	path, handler := fireoncev1connect.NewJobServiceHandler(&oneJob{})
	mux := http.NewServeMux()
	mux.Handle(path, handler)
	return httptest.NewServer(mux)
}

// oneJob stores one job. Each of its streams has one of the job's three events.
type oneJob struct {
	fireoncev1connect.UnimplementedJobServiceHandler

	mu   sync.Mutex
	body string
}

const exampleJobID = "0197f5c0-0000-7000-8000-00000000abcd"

func (s *oneJob) ScheduleJob(_ context.Context, r *fireoncev1.ScheduleJobRequest) (*fireoncev1.ScheduleJobResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body := r.GetPayload().GetWebhook().GetBodyText()
	created := s.body == ""
	if !created && body != s.body {
		conflict := connect.NewError(connect.CodeAlreadyExists, errors.New("the key belongs to another request"))
		detail, err := connect.NewErrorDetail(&fireoncev1.ErrorDetail{
			Reason: fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED,
			Context: &fireoncev1.ErrorDetail_IdempotencyConflict{IdempotencyConflict: &fireoncev1.IdempotencyConflict{
				Holder: &fireoncev1.IdempotencyConflict_JobId{JobId: exampleJobID}, MismatchedFields: []string{"payload"},
			}},
		})
		if err != nil {
			return nil, err
		}
		conflict.AddDetail(detail)
		return nil, conflict
	}
	s.body = body
	return &fireoncev1.ScheduleJobResponse{Created: created, Job: &fireoncev1.Job{
		JobId: exampleJobID, IdempotencyKey: r.GetIdempotencyKey(), State: fireoncev1.JobState_JOB_STATE_SCHEDULED,
	}}, nil
}

func (*oneJob) StreamJobEvents(_ context.Context, r *fireoncev1.StreamJobEventsRequest, out *connect.ServerStream[fireoncev1.StreamJobEventsResponse]) error {
	state, cursor := fireoncev1.JobState_JOB_STATE_SCHEDULED, "1"
	switch r.GetAfterCursor() {
	case "1":
		state, cursor = fireoncev1.JobState_JOB_STATE_SENDING, "2"
	case "2":
		state, cursor = fireoncev1.JobState_JOB_STATE_SUCCEEDED, "3"
	}
	return out.Send(&fireoncev1.StreamJobEventsResponse{Event: &fireoncev1.JobEvent{
		Cursor: cursor,
		Event:  &fireoncev1.JobEvent_JobChanged{JobChanged: &fireoncev1.JobChanged{JobId: exampleJobID, NewState: state}},
	}})
}
