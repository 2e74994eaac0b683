package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the key comes before everything that may change between
// two tries. Once a key is bound, a repeat is answered with its job, however
// late it is and whatever has become of its connection. So a request that fails
// a check is looked up by its key before the check's verdict is given; one that
// passes them all needs no look-up, because the store binds the key itself.

// submission is a request on its way to the store.
type submission struct {
	who  caller
	spec job.Spec
	at   time.Time // requested; zero: now
}

// ScheduleJob implements the RPC.
func (s *jobService) ScheduleJob(ctx context.Context, req *fireoncev1.ScheduleJobRequest) (*fireoncev1.ScheduleJobResponse, error) {
	sub, err := newSubmission(callerOf(ctx), req)
	if err != nil {
		return nil, err
	}
	class, refused := s.check(ctx, &sub)
	if refused != nil || req.GetValidateOnly() {
		stored, err := s.store.Job(ctx, store.Ref{Project: sub.who.project, Key: sub.spec.Key})
		switch {
		case err == nil:
			return s.repeated(ctx, sub, stored)
		case !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("look up the key: %w", err)
		case refused != nil:
			return nil, refused
		default:
			return validated(sub, class)
		}
	}
	created, err := s.store.Create(ctx, []store.NewJob{{
		Spec: sub.spec, ScheduledFor: sub.at, Class: class, Actor: sub.who.actor,
	}})
	if err != nil {
		return nil, fmt.Errorf("store the job: %w", err)
	}
	failpoint.Hit(failpoint.Submitted)
	switch c := created[0]; {
	case c.Err != nil:
		return nil, notFoundAs(fmt.Errorf("store the job: %w", c.Err), connectionNotFound(sub.spec.Connection))
	case !c.Created:
		return s.repeated(ctx, sub, c.Snapshot)
	default:
		out, err := withPayload(jobToWire(c.Snapshot.Job), sub.spec.Payload)
		return &fireoncev1.ScheduleJobResponse{Job: out, Created: true}, err
	}
}

// newSubmission converts a request and settles its key.
func newSubmission(who caller, req *fireoncev1.ScheduleJobRequest) (submission, error) {
	at, err := timeFromWire("scheduled_for", req.GetScheduledFor())
	if err != nil {
		return submission{}, err
	}
	fingerprint, derived, err := jobPrints(req)
	if err != nil {
		return submission{}, err
	}
	key := req.GetIdempotencyKey()
	if err := notReserved(key); err != nil {
		return submission{}, err
	}
	if req.GetDeriveKey() {
		key = derived
	}
	spec, err := specFromWire(who.project, key, req, fingerprint)
	return submission{who: who, spec: spec, at: at}, err
}

// notReserved keeps clients from squatting on keys that Fireonce makes.
func notReserved(key string) error {
	if strings.HasPrefix(key, job.ReservedKeyPrefix) {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED,
			fmt.Sprintf("keys that start with %q belong to Fireonce", job.ReservedKeyPrefix), "field", "idempotency_key")
	}
	return nil
}

// check is everything that a new job must pass and a repeat need not. It
// completes the submission with what only these checks can tell.
func (s *jobService) check(ctx context.Context, sub *submission) (job.Class, error) {
	var err error
	if sub.at, err = s.checkTime("scheduled_for", sub.at); err != nil {
		return 0, err
	}
	if err := checkTimeZone(sub.spec.TimeZone); err != nil {
		return 0, err
	}
	if n := len(sub.spec.Payload); n > job.MaxPayload {
		return 0, refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE,
			fmt.Sprintf("the encoded payload has %d bytes, at most %d are allowed", n, job.MaxPayload),
			"field", "payload", "size", strconv.Itoa(n), "limit", strconv.Itoa(job.MaxPayload))
	}
	conn, err := s.store.Connection(ctx, sub.who.project, sub.spec.Connection)
	if err != nil {
		return 0, notFoundAs(fmt.Errorf("read the connection: %w", err), connectionNotFound(sub.spec.Connection))
	}
	if err := s.checkReply(ctx, sub); err != nil {
		return 0, err
	}
	code, known := s.cfg.Connectors.Get(conn.Connector)
	switch {
	case !conn.Deleted.IsZero():
		return 0, disabled(conn, "was deleted")
	case !known:
		return 0, disabled(conn, fmt.Sprintf("needs connector %q, which this server does not have", conn.Connector))
	}
	sub.spec.ID = s.cfg.NewID()
	prepared, err := code.Prepare(connector.Request{
		EffectKey: job.EffectKey(sub.spec.ID, 1), Settings: conn.Settings,
		PayloadKind: sub.spec.PayloadKind, Payload: sub.spec.Payload,
	})
	if err != nil {
		return 0, fmt.Errorf("check the payload: %w", err)
	}
	sub.spec.HoldKey = prepared.HoldKey
	return conn.Class, nil
}

func disabled(conn store.Connection, why string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED,
		fmt.Sprintf("connection %s %s", conn.ID, why), "connection_id", conn.ID.String())
}

// checkTime bounds a requested time. A little in the past is now: zero.
func (s *Server) checkTime(field string, at time.Time) (time.Time, error) {
	if at.IsZero() {
		return at, nil
	}
	shown := at.Format(time.RFC3339Nano)
	switch now := s.cfg.Now(); {
	case now.Sub(at) > job.PastSlack:
		return at, refuse(fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST,
			fmt.Sprintf("%s %s is more than %s in the past", field, shown, job.PastSlack), "field", field, "time", shown)
	case at.Sub(now) > job.MaxAhead:
		return at, refuse(fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR,
			fmt.Sprintf("%s %s is more than 5 years ahead", field, shown), "field", field, "time", shown)
	case !at.After(now):
		return time.Time{}, nil
	default:
		return at, nil
	}
}

// checkTimeZone wants an IANA name, or nothing. "Local" would be the server's.
func checkTimeZone(name string) error {
	if name == "" {
		return nil
	}
	if _, err := time.LoadLocation(name); err != nil || name == "Local" {
		return badField("time_zone", `must be an IANA name, such as "Europe/Vienna"`)
	}
	return nil
}

// checkReply refuses threads: nothing makes a job wait for its predecessor yet,
// and a reply that does not wait is a post that nobody wanted.
func (s *jobService) checkReply(ctx context.Context, sub *submission) error {
	if sub.spec.ReplyTo.IsZero() {
		return nil
	}
	before, err := s.store.Job(ctx, store.Ref{Project: sub.who.project, ID: sub.spec.ReplyTo})
	switch {
	case err != nil:
		return notFoundAs(fmt.Errorf("read reply_to_job_id: %w", err), jobNotFound(sub.spec.ReplyTo.String()))
	case before.Connection != sub.spec.Connection:
		return badField("reply_to_job_id", "that job is of another connection")
	default:
		return plain(connect.CodeUnimplemented, "reply_to_job_id is not served yet", requestID(ctx))
	}
}

// repeated answers a request whose key is bound: with the stored job when it is
// the same request, else with the fields that differ.
func (s *jobService) repeated(_ context.Context, sub submission, stored job.Snapshot) (*fireoncev1.ScheduleJobResponse, error) {
	if differ := sub.spec.Fingerprint.Diff(stored.Fingerprint); len(differ) > 0 {
		return nil, keyReused(&fireoncev1.IdempotencyConflict{
			JobId: idToWire(stored.ID), ScheduledFor: timeToWire(stored.ScheduledFor),
			State: stateToWire(stored.State), MismatchedFields: differ,
		})
	}
	out, err := withPayload(jobToWire(stored.Job), stored.Payload)
	return &fireoncev1.ScheduleJobResponse{Job: out}, err
}

// validated shows the job that would be stored. It has no id and no state.
func validated(sub submission, class job.Class) (*fireoncev1.ScheduleJobResponse, error) {
	j := job.Job{Spec: sub.spec, Status: job.Status{ScheduledFor: sub.at, Class: class}}
	j.ID = job.ID{}
	out, err := withPayload(jobToWire(j), sub.spec.Payload)
	return &fireoncev1.ScheduleJobResponse{Job: out}, err
}
