package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const absent = "018f0000-0000-7000-8000-000000000000"

func fixedID() job.ID {
	id, err := job.ParseID("018f0000-0000-7000-8000-000000000001")
	if err != nil {
		panic(err)
	}
	return id
}

func defaultHTTP(t *testing.T) *http.Client {
	h := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(h.CloseIdleConnections)
	return h
}

// wantReason checks everything that an error of this API must carry.
func wantReason(t *testing.T, err error, want fireoncev1.ErrorReason) *wireError {
	t.Helper()
	var e *wireError
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want %s", err, want)
	}
	short := strings.TrimPrefix(want.String(), "ERROR_REASON_")
	if e.detail.GetReason() != want || e.info.GetReason() != short || e.info.GetDomain() != "fireonce.github.io" || e.code != server.ReasonCode(want) {
		t.Errorf("error %v with detail %v and info %v, want %s with code %s", e, e.detail, e.info, want, server.ReasonCode(want))
	}
	return e
}

// TestEveryReason provokes each reason that this server can give, in every
// protocol, and makes sure that nothing was stored.
func TestEveryReason(t *testing.T) {
	type schedule = func(*scheduleRequest)
	filled := strings.Repeat("x", 200<<10)
	var scheduleCases = map[fireoncev1.ErrorReason]schedule{
		fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST: func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(time.Unix(1, 0)) },
		fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR: func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(time.Unix(1<<33, 0)) },
		fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE: func(r *scheduleRequest) {
			r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
				Sender: "a@example.org", To: []string{"b@example.org"}, TextBody: filled, HtmlBody: filled,
			}}}
		},
		fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_CONNECTION_MISMATCH: func(r *scheduleRequest) {
			r.Payload = &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: &fireoncev1.Email{
				Sender: "a@example.org", To: []string{"b@example.org"},
			}}}
		},
		fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED:   func(r *scheduleRequest) { r.Payload = custom("header/v1", "") },
		fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID:      func(r *scheduleRequest) { r.Payload = custom("bad/v1", "") },
		fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED:         func(r *scheduleRequest) { r.IdempotencyKey = "fireonce:mine" },
		fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND: func(r *scheduleRequest) { r.Connection = onConnection(absent) },
		fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND:        func(r *scheduleRequest) { r.ReplyTo = replyingTo(absent) },
	}
	type create = func(*connectionsv1.CreateConnectionRequest)
	var createCases = map[fireoncev1.ErrorReason]create{
		fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNKNOWN: func(r *connectionsv1.CreateConnectionRequest) { r.Connection.Connector = "carrier-pigeon" },
		fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID: func(r *connectionsv1.CreateConnectionRequest) {
			r.Connection.Settings = webhookSettings()
		},
		fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH: func(r *connectionsv1.CreateConnectionRequest) {
			r.Credential = &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "u", Password: "hunter2-secret"}}}
		},
		fireoncev1.ErrorReason_ERROR_REASON_HEADER_NOT_ALLOWED: func(r *connectionsv1.CreateConnectionRequest) {
			r.Credential = &connectionsv1.Credential{Headers: []*connectionsv1.SecretHeader{{Name: "Host", Value: "hunter2-secret"}}}
		},
		fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED: func(r *connectionsv1.CreateConnectionRequest) { r.IdempotencyKey = "fireonce:mine" },
		fireoncev1.ErrorReason_ERROR_REASON_IDEMPOTENCY_KEY_REUSED: func(r *connectionsv1.CreateConnectionRequest) {
			r.IdempotencyKey = "fixture"
		},
	}
	overEach(t, func(t *testing.T, f *fixture, c client) {
		call := func(procedure string, req, res proto.Message) error { return c.call(t.Context(), procedure, req, res) }
		jobs, end := f.stored()
		for reason, spoil := range scheduleCases {
			wantReason(t, call(scheduleJob, f.request("k", spoil), &fireoncev1.ScheduleJobResponse{}), reason)
		}
		for reason, spoil := range createCases {
			req := &connectionsv1.CreateConnectionRequest{IdempotencyKey: "new", Connection: &connectionsv1.Connection{Connector: "stub"}}
			spoil(req)
			e := wantReason(t, call(connsPath+"CreateConnection", req, &connectionsv1.CreateConnectionResponse{}), reason)
			if strings.Contains(e.msg+e.detail.String()+f.logs.String(), "hunter2") {
				t.Errorf("%s: the error or the log has the secret: %v", reason, e)
			}
		}
		byID := &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: absent}}
		byKey := &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_IdempotencyKey{IdempotencyKey: "none"}}
		notFound := fireoncev1.ErrorReason_ERROR_REASON_JOB_NOT_FOUND
		wantReason(t, call(jobsPath+"GetJob", byID, &fireoncev1.GetJobResponse{}), notFound)
		wantReason(t, call(jobsPath+"GetJob", byKey, &fireoncev1.GetJobResponse{}), notFound)
		wantReason(t, call(jobsPath+"CancelJob", &fireoncev1.CancelJobRequest{Job: &fireoncev1.CancelJobRequest_JobId{JobId: absent}}, &fireoncev1.CancelJobResponse{}), notFound)
		wantReason(t, call(jobsPath+"ListJobAttempts", &fireoncev1.ListJobAttemptsRequest{Job: &fireoncev1.ListJobAttemptsRequest_JobId{JobId: absent}}, &fireoncev1.ListJobAttemptsResponse{}), notFound)
		wantReason(t, call(connsPath+"GetConnection", &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: absent}}, &connectionsv1.GetConnectionResponse{}),
			fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
		if n, e := f.stored(); n != jobs || e != end {
			t.Errorf("refused calls stored something: %d and %d, before %d and %d", n, e, jobs, end)
		}
	})
}

// TestRulesOfTheContract: a request that breaks a rule of the contract is refused with its
// violations.
func TestRulesOfTheContract(t *testing.T) {
	requests := map[string]func(*scheduleRequest){
		"no key":             func(r *scheduleRequest) { r.IdempotencyKey = "" },
		"both keys":          func(r *scheduleRequest) { r.DeriveKey = true },
		"control characters": func(r *scheduleRequest) { r.IdempotencyKey = "a\nb" },
		"a space":            func(r *scheduleRequest) { r.IdempotencyKey = "a b" },
		"key too long":       func(r *scheduleRequest) { r.IdempotencyKey = strings.Repeat("k", 256) },
		"derived, no time":   func(r *scheduleRequest) { r.IdempotencyKey, r.DeriveKey = "", true },
		"no connection":      func(r *scheduleRequest) { r.Connection = onConnection("") },
		"no uuid":            func(r *scheduleRequest) { r.Connection = onConnection("x") },
		"no payload":         func(r *scheduleRequest) { r.Payload = nil },
		"empty payload":      func(r *scheduleRequest) { r.Payload = &fireoncev1.Payload{} },
		"negative window":    func(r *scheduleRequest) { r.StartWindow = durationpb.New(-time.Second) },
		"window of a year":   func(r *scheduleRequest) { r.StartWindow = durationpb.New(366 * 24 * time.Hour) },
		"label in capitals":  func(r *scheduleRequest) { r.Labels = map[string]string{"A": ""} },
		"101 attempts":       func(r *scheduleRequest) { r.RetryPolicy = &fireoncev1.RetryPolicy{MaxAttempts: 101} },
		"multiplier below 1": func(r *scheduleRequest) { r.RetryPolicy = &fireoncev1.RetryPolicy{Multiplier: 0.5} },
		"a multiplier and delays": func(r *scheduleRequest) {
			r.RetryPolicy = &fireoncev1.RetryPolicy{Multiplier: 2, Delays: []*durationpb.Duration{durationpb.New(time.Second)}}
		},
		"a delay of no time": func(r *scheduleRequest) {
			r.RetryPolicy = &fireoncev1.RetryPolicy{Delays: []*durationpb.Duration{durationpb.New(0)}}
		},
		"kept trying for a year": func(r *scheduleRequest) {
			r.RetryPolicy = &fireoncev1.RetryPolicy{KeepTrying: durationpb.New(366 * 24 * time.Hour)}
		},
		"unknown delivery": func(r *scheduleRequest) { r.Delivery = 99 },
	}
	overEach(t, func(t *testing.T, f *fixture, c client) {
		jobs, end := f.stored()
		for name, spoil := range requests {
			err := c.call(t.Context(), scheduleJob, f.request("k", spoil), &fireoncev1.ScheduleJobResponse{})
			var e *wireError
			if !errors.As(err, &e) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
			for _, v := range e.detail.GetViolations() {
				if v.GetRule() == "" || v.GetMessage() == "" || strings.Contains(v.GetMessage(), "^") {
					t.Errorf("%s: %v", name, v)
				}
			}
			if len(e.detail.GetViolations()) == 0 {
				t.Errorf("%s: no violations", name)
			}
		}
		if n, e := f.stored(); n != jobs || e != end {
			t.Errorf("refused calls stored something: %d and %d, before %d and %d", n, e, jobs, end)
		}
	})
}

// broken is a store whose every answer is one error.
type broken struct {
	server.Store
	err error
}

func (b broken) Create(context.Context, []store.NewJob) ([]store.Created, error) { return nil, b.err }
func (b broken) Job(context.Context, store.Ref) (job.Snapshot, error)            { return job.Snapshot{}, b.err }

// TestStoreErrors: the store's sentinels have their reasons; any other error is INTERNAL, with
// its cause in the log and not in the answer.
func TestStoreErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		code   connect.Code
		reason fireoncev1.ErrorReason
	}{
		"unavailable":   {store.ErrUnavailable, connect.CodeUnavailable, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE},
		"unconfirmed":   {store.ErrUnconfirmed, connect.CodeUnavailable, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE},
		"stale":         {store.ErrStale, connect.CodeAborted, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH},
		"quarantined":   {store.ErrQuarantined, connect.CodeFailedPrecondition, fireoncev1.ErrorReason_ERROR_REASON_QUARANTINED},
		"clock doubted": {store.ErrClockSuspect, connect.CodeFailedPrecondition, fireoncev1.ErrorReason_ERROR_REASON_CLOCK_DOUBTED},
		"expired":       {store.ErrCursorExpired, connect.CodeOutOfRange, fireoncev1.ErrorReason_ERROR_REASON_CURSOR_EXPIRED},
		"bad text":      {fmt.Errorf("%w: %w", store.ErrIllegal, store.ErrBadText), connect.CodeInvalidArgument, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID},
		"illegal":       {store.ErrIllegal, connect.CodeInternal, 0},
		"other":         {errors.New("disk on fire at /var/secret"), connect.CodeInternal, 0},
		"late":          {context.DeadlineExceeded, connect.CodeDeadlineExceeded, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, func(c *server.Config) {
				c.Store = broken{c.Store, errors.Join(errors.New("the-cause"), tt.err)}
			})
			err := overGRPC(f).call(t.Context(), scheduleJob, f.request("k"), &fireoncev1.ScheduleJobResponse{})
			var e *wireError
			if !errors.As(err, &e) || e.code != tt.code || e.detail.GetReason() != tt.reason {
				t.Fatalf("error %v, want %s %s", err, tt.code, tt.reason)
			}
			if strings.Contains(e.msg, "the-cause") || strings.Contains(e.msg, "disk") {
				t.Errorf("the client sees the cause: %s", e.msg)
			}
			if name != "late" && !strings.Contains(f.logs.String(), "the-cause") {
				t.Errorf("the log lacks the cause: %s", f.logs)
			}
			if tt.reason == 0 && e.detail.GetMetadata()["request_id"] == "" {
				t.Errorf("no request id to ask about: %v", e.detail)
			}
		})
	}
}

func TestPanicIsContained(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		err := c.call(t.Context(), scheduleJob, f.request("k", func(r *scheduleRequest) { r.Payload = custom("panic/v1", "") }),
			&fireoncev1.ScheduleJobResponse{})
		var e *wireError
		if !errors.As(err, &e) || e.code != connect.CodeInternal || strings.Contains(e.msg, "secret") {
			t.Errorf("error %v, want INTERNAL without the panic's words", err)
		}
		if !strings.Contains(f.logs.String(), "a connector with a bug") {
			t.Errorf("the log lacks the panic: %s", f.logs)
		}
		f.schedule(f.request("after")) // the server goes on
	})
}
