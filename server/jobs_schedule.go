package server

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/failpoint"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: the key is decided before everything that may change between two tries.
// Once a key is bound, a repeat is answered with its job, however late it is and whatever its
// connection is like now. So a request that fails a check is looked up by its key before it is
// refused. A request that passes all checks needs no look-up, because the store binds the key
// itself.

// scheduleRequest is a request that is being checked.
type scheduleRequest struct {
	who  caller
	spec job.Spec
	// connection and replyTo are what the request names, unnamed is the error of a name that
	// names nothing.
	connection, replyTo store.Ref
	unnamed             error
	payload             *fireoncev1.Payload // as it came; spec has it encoded
	at                  time.Time           // requested; zero: now
	timeField           string              // that named it
	mark                fireoncev1.TimeMark // of a local time that was requested
	class               job.Class           // the connection's
	// effectKey is the digest of the caller's own effect key; zero: none.
	effectKey [32]byte
	// callback is the connection that callbackKey names.
	callbackKey string
	callback    job.ID
	validate    bool // store nothing
}

func (request scheduleRequest) newJob() store.NewJob {
	return store.NewJob{Spec: request.spec, ScheduleTime: request.at, Class: request.class, EffectKey: request.effectKey, Actor: request.who.actor,
		Recipients: submit.Recipients(request.payload), Callback: request.callback}
}

// ScheduleJob implements the RPC.
func (s *jobService) ScheduleJob(ctx context.Context, req *fireoncev1.ScheduleJobRequest) (*fireoncev1.ScheduleJobResponse, error) {
	in := s.newValidator(ctx)
	defer in.settle()
	request, err := in.newRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	if refused := in.check(ctx, &request); refused != nil || request.validate {
		found, err := in.lookUp(ctx, request, refused)
		return in.withWarnings(ctx, request, found, err)
	}
	created, err := in.create(ctx, []store.NewJob{request.newJob()})
	if err != nil {
		return nil, fmt.Errorf("store the job: %w", err)
	}
	failpoint.Hit(failpoint.Submitted)
	stored, err := in.stored(ctx, request, created[0])
	return in.withWarnings(ctx, request, stored, err)
}

// newRequest converts a request and settles its key. It fails with errors that a repeat would
// have, too.
func (in *validator) newRequest(ctx context.Context, req *fireoncev1.ScheduleJobRequest) (scheduleRequest, error) {
	who := in.who
	at, mark, err := in.server.requestedTime(req)
	if err != nil {
		return scheduleRequest{}, err
	}
	request := scheduleRequest{who: who, payload: req.GetPayload(), at: at, timeField: timeField(req), mark: mark, validate: req.GetValidateOnly(), callbackKey: req.GetCallback()}
	conn, replyTo, err := in.resolve(ctx, req, &request)
	if err != nil {
		return scheduleRequest{}, err
	}
	fingerprint, derived, err := jobPrints(req, conn, replyTo)
	if err != nil {
		return scheduleRequest{}, err
	}
	key := req.GetIdempotencyKey()
	if err := notReserved(key, ""); err != nil {
		return scheduleRequest{}, err
	}
	if req.GetDeriveKey() {
		if key = derived; conn.IsZero() {
			return scheduleRequest{}, request.unnamed
		}
	}
	if err := checkEffectKey(who, req); err != nil {
		return scheduleRequest{}, err
	}
	request.spec, err = submit.Spec(who.project, key, req, fingerprint)
	request.spec.Connection, request.spec.ReplyTo = conn, replyTo
	request.spec.TimeZone = cmp.Or(request.spec.TimeZone, req.GetLocalTime().GetTimeZone())
	return request, err
}

// resolve finds what a request names. A key that names nothing is not refused yet: the request
// may repeat one that was stored when the key named something.
func (in *validator) resolve(ctx context.Context, req *fireoncev1.ScheduleJobRequest, request *scheduleRequest) (conn, replyTo job.ID, err error) {
	if request.connection, err = ownerRef(in.who.project, req); err != nil {
		return conn, replyTo, err
	}
	id, err := idFromWire(repliedTo.id, req.GetReplyToJobId())
	if err != nil {
		return conn, replyTo, err
	}
	request.replyTo = store.Ref{Project: in.who.project, ID: id, Key: req.GetReplyToKey()}
	if conn, err = in.server.connectionID(ctx, request.connection); err != nil && !ofItem(err) {
		return conn, replyTo, err
	}
	request.unnamed = err
	if replyTo, err = in.replyID(ctx, request.replyTo); err != nil && !ofItem(err) {
		return conn, replyTo, err
	}
	if req.GetReplyTo() != nil && replyTo.IsZero() && err == nil {
		err = repliedTo.noJob(request.replyTo) // the nil UUID is no id of a job, and not "no reply"
	}
	if request.unnamed == nil {
		request.unnamed = err
	}
	return conn, replyTo, nil
}

// notReserved keeps clients from taking keys that Fireonce makes. The key is in the message that
// a request has at a path.
func notReserved(key, at string) error {
	if strings.HasPrefix(key, job.ReservedKeyPrefix) {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_KEY_RESERVED,
			fmt.Sprintf("keys that start with %q belong to Fireonce", job.ReservedKeyPrefix), "field", under(at, "idempotency_key"))
	}
	return nil
}

// checkTime bounds a requested time. A time that has passed by at most job.PastSlack becomes
// zero: now. instead is what a client can do about an earlier one.
func (s *Server) checkTime(field string, at time.Time, instead string) (time.Time, error) {
	if at.IsZero() {
		return at, nil
	}
	shown := at.Format(time.RFC3339Nano)
	switch now := s.cfg.Now(); {
	case now.Sub(at) > job.PastSlack:
		return at, refuse(fireoncev1.ErrorReason_ERROR_REASON_TIME_IN_PAST,
			fmt.Sprintf("%s %s is more than %s in the past; %s", field, shown, job.PastSlack, instead), "field", field, "time", shown)
	case at.Sub(now) > job.MaxAhead:
		return at, refuse(fireoncev1.ErrorReason_ERROR_REASON_TIME_TOO_FAR,
			fmt.Sprintf("%s %s is more than 5 years ahead", field, shown), "field", field, "time", shown)
	case !at.After(now):
		return time.Time{}, nil
	default:
		return at, nil
	}
}

// checkTimeZone refuses a name that is not the IANA name of a zone that this server has. Empty:
// none.
func (s *Server) checkTimeZone(name string) error {
	if name == "" {
		return nil
	}
	if _, err := s.cfg.Scheduler.Zones().Load(name); err != nil {
		return badField("time_zone", "time_zone", err.Error())
	}
	return nil
}
