package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/tracing"
	"github.com/fireonce/fireonce/store"
)

// validator checks the jobs that one call submits, and makes the answers. It reads each
// connection, and each job that is replied to, once for the whole call.
type validator struct {
	server *Server
	who    caller
	view   *jobConverter
	// trace is the part of the call's trace that the jobs carry (job.Spec.Trace).
	trace string
	// taken counts against the project's quotas, kept is the part of it that was stored.
	taken, kept store.StoredJobs
	conns       map[job.ID]readResult[*store.Connection]
	before      map[job.ID]readResult[job.Snapshot]
	beforeByKey map[string]readResult[job.ID]
	// over are the limits that the job that was checked last may exceed.
	over []connector.Over
}

// readResult is the result of a read of the store.
type readResult[T any] struct {
	value T
	err   error
}

func (s *Server) newValidator(ctx context.Context) *validator {
	who := callerOf(ctx)
	return &validator{
		server: s, who: who, view: s.newJobConverter(ctx, who.project), trace: tracing.Submitted(ctx),
		conns: make(map[job.ID]readResult[*store.Connection]), before: make(map[job.ID]readResult[job.Snapshot]),
		beforeByKey: make(map[string]readResult[job.ID]),
	}
}

// pastSubmit is what a client can do about a time that has passed. The error appears only
// when no job is stored under the key (see lookUp).
const pastSubmit = "no job is stored under this idempotency key, now or by an earlier try: " +
	"send the request again under the same key with a later time, or without schedule_time to start the job now"

// check is everything that a new job must pass and a repeat need not. It completes the request
// with what only these checks find out.
func (in *validator) check(ctx context.Context, request *scheduleRequest) error {
	var err error
	if request.at, err = in.server.checkTime(request.timeField, request.at, pastSubmit); err != nil {
		return err
	}
	if err := in.server.checkTimeZone(request.spec.TimeZone); err != nil {
		return err
	}
	if err := checkSize(request.spec.Payload); err != nil {
		return err
	}
	if request.unnamed != nil {
		return request.unnamed
	}
	conn, err := in.connection(ctx, request.spec.Connection, request.connection)
	if err != nil {
		return err
	}
	request.class = conn.Class
	request.spec.ID, request.spec.Trace = in.server.cfg.NewID(), in.trace
	if request.spec.HoldKey, err = in.prepare(ctx, conn, request.spec, request.replyTo); err != nil {
		return err
	}
	if request.effectKey, err = effectKeyAt(conn, request.spec); err != nil {
		return err
	}
	if request.callback, err = in.server.callbackTo(ctx, in.who.project, request.callbackKey, request.validate); err != nil {
		return err
	}
	return in.count(ctx, sizeOf(1, len(request.spec.Payload))) // the last check: a job that passes it counts
}

// sizeOf is the use of a project's quotas by jobs of a size.
func sizeOf(jobs, size int) store.StoredJobs {
	return store.StoredJobs{Jobs: int64(jobs), Bytes: int64(jobs) * int64(size)}
}

// count counts jobs, or content that is no job yet, against the project's quotas, or refuses them.
// settle follows.
func (in *validator) count(ctx context.Context, n store.StoredJobs) error {
	if err := in.server.admission.take(ctx, in.who.project, n); err != nil {
		return err
	}
	in.taken = sumOf(in.taken, n)
	return nil
}

// create stores jobs that were counted.
func (in *validator) create(ctx context.Context, items []store.NewJob) ([]store.Created, error) {
	created, err := in.server.jobs.Create(ctx, items)
	if errors.Is(err, store.ErrUnconfirmed) {
		in.kept = in.taken // they may be stored
	}
	return created, err
}

// settle returns to the quotas what was counted and not stored.
func (in *validator) settle() { in.server.admission.settle(in.who.project, in.taken, in.kept) }

func checkSize(payload []byte) error {
	if n := len(payload); n > job.MaxPayload {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE,
			fmt.Sprintf("the encoded payload has %d bytes, at most %d are allowed", n, job.MaxPayload),
			"field", "payload", "size", strconv.Itoa(n), "limit", strconv.Itoa(job.MaxPayload))
	}
	return nil
}

// connection reads the connection that a job is for. named is what the request called it.
func (in *validator) connection(ctx context.Context, id job.ID, named store.Ref) (*store.Connection, error) {
	r, known := in.conns[id]
	if !known {
		if r.value, r.err = in.server.connections.connection(ctx, in.who.project, id); r.err == nil {
			in.view.conns[id] = r.value
		}
		in.conns[id] = r
	}
	if r.err != nil {
		return nil, notFoundAs(fmt.Errorf("read the connection: %w", r.err), ofConnection.noConnection(named))
	}
	return r.value, nil
}

// replyID resolves the name of the job that another one replies to. A job that was removed has
// its id for as long as its key is kept.
func (in *validator) replyID(ctx context.Context, ref store.Ref) (job.ID, error) {
	if ref.Key == "" {
		return ref.ID, nil
	}
	r, known := in.beforeByKey[ref.Key]
	if !known {
		snap, err := in.server.store.Job(ctx, ref)
		switch removed := new(store.RemovedError); {
		case err == nil:
			r.value, in.before[snap.ID] = snap.ID, readResult[job.Snapshot]{value: snap}
		case errors.As(err, &removed):
			r.value = removed.Job
		default:
			r.err = notFoundAs(fmt.Errorf("read reply_to_key: %w", err), repliedTo.noJob(ref))
		}
		in.beforeByKey[ref.Key] = r
	}
	return r.value, r.err
}

// prepare has the connector check a job's content, and returns its hold key. named is what the
// request called the job that it replies to.
func (in *validator) prepare(ctx context.Context, conn *store.Connection, spec job.Spec, named store.Ref) (holdKey string, err error) {
	replyTo, err := in.predecessor(ctx, spec, named)
	if err != nil {
		return "", err
	}
	code, err := in.usableConnector(conn)
	if err != nil {
		return "", err
	}
	if err := checkReply(code, conn, spec, named); err != nil {
		return "", err
	}
	if err := checkPresence(code, conn, spec); err != nil {
		return "", err
	}
	request := connector.Request{
		EffectKey: job.EffectKey(in.server.cfg.Namespace, spec.Project, spec.Key, 1), Settings: conn.Settings,
		PayloadKind: spec.PayloadKind, Payload: spec.Payload, ReplyTo: replyTo,
		Credential: func() (connector.Credential, error) { return in.server.credentialOf(ctx, *conn) },
	}
	prepared, err := code.Prepare(request)
	in.over = nil
	if limiter, can := code.(connector.Limiter); can && err == nil {
		in.over, err = limiter.Limits(request)
	}
	var away *connector.Refusal
	switch {
	case errors.As(err, &away) && away.Kind == job.FailHeld && prepared.HoldKey != "":
		// The connector cannot be asked now. The job is stored all the same; it is
		// checked before it is sent.
		return prepared.HoldKey, nil
	case err != nil:
		return "", fmt.Errorf("check the payload: %w", err)
	}
	return prepared.HoldKey, nil
}

// usableConnector returns the connector of a connection that takes jobs.
func (in *validator) usableConnector(conn *store.Connection) (connector.Connector, error) {
	if !conn.Deleted.IsZero() {
		return nil, disabled(conn, "was deleted")
	}
	return in.server.codeOf(*conn)
}

// checkReply refuses a job that replies to another one if its connector cannot, or if its content
// replies to something else.
func checkReply(code connector.Connector, conn *store.Connection, spec job.Spec, named store.Ref) error {
	if spec.ReplyTo.IsZero() {
		return nil
	}
	var payload fireoncev1.Payload
	if err := proto.Unmarshal(spec.Payload, &payload); err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	field := repliedTo.field(named)
	if !code.Describe().Replies {
		msg := fmt.Sprintf("%s: jobs of connector %q cannot reply to others", field, conn.Connector)
		if payload.GetEmail() != nil {
			msg += "; set payload.email.in_reply_to to the Message-ID of the e-mail that is answered, or payload.email.references to ids of the thread"
		}
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID, msg, "field", field, "connector", conn.Connector)
	}
	for other, id := range map[string]string{
		"payload.social_post.reply_to_id": payload.GetSocialPost().GetReplyToId(), "payload.email.in_reply_to": payload.GetEmail().GetInReplyTo(),
	} {
		if id != "" {
			return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID,
				fmt.Sprintf("%s: goes not with %s; set one of them", other, field), "field", other)
		}
	}
	return nil
}

// checkPresence refuses a job that would look for its content where that cannot be found.
func checkPresence(code connector.Connector, conn *store.Connection, spec job.Spec) error {
	if spec.SkipIfPresent == 0 {
		return nil
	}
	var payload fireoncev1.Payload
	if err := proto.Unmarshal(spec.Payload, &payload); err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	if err := connector.CheckPresence(code, conn.Class, &payload); err != nil {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID, err.Error(), "field", "skip_if_present")
	}
	return nil
}

func disabled(conn *store.Connection, why string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED,
		fmt.Sprintf("connection %s %s", conn.ID, why), "connection_id", conn.ID.String())
}

// predecessor checks the job that a job replies to, and returns the external id of its effect if
// there is one yet. It exists before the reply has an id, so a chain of replies never closes to a
// ring.
func (in *validator) predecessor(ctx context.Context, spec job.Spec, named store.Ref) (externalID string, err error) {
	id := spec.ReplyTo
	if id.IsZero() {
		return "", nil
	}
	r, known := in.before[id]
	if !known {
		r.value, r.err = in.server.store.Job(ctx, store.Ref{Project: in.who.project, ID: id})
		in.before[id] = r
	}
	switch field := repliedTo.field(named); {
	case r.err != nil:
		return "", notFoundAs(fmt.Errorf("read %s: %w", field, r.err), repliedTo.noJob(named))
	case r.value.Connection != spec.Connection:
		return "", refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID,
			fmt.Sprintf("%s: job %s is of another connection", field, id), "field", field, "job_id", id.String())
	case r.value.Effect == nil:
		return "", nil
	default:
		return r.value.Effect.ExternalID, nil
	}
}

// lookUp answers a request that is not to be stored: its key may be bound.
func (in *validator) lookUp(ctx context.Context, request scheduleRequest, refused error) (*fireoncev1.ScheduleJobResponse, error) {
	bound, err := in.server.store.Job(ctx, store.Ref{Project: in.who.project, Key: request.spec.Key})
	switch removed := new(store.RemovedError); {
	case err == nil:
		return in.repeated(ctx, request, bound)
	case errors.As(err, &removed):
		return nil, keyOfRemoved(removed.Job)
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("look up the key: %w", err)
	case refused != nil:
		return nil, refused
	default:
		return in.validated(ctx, request)
	}
}

// stored answers with the store's verdict on a request.
func (in *validator) stored(ctx context.Context, request scheduleRequest, c store.Created) (*fireoncev1.ScheduleJobResponse, error) {
	switch removed := new(store.RemovedError); {
	case errors.As(c.Err, &removed):
		return nil, keyOfRemoved(removed.Job)
	case errors.Is(c.Err, store.ErrEffectKeyTaken):
		return nil, effectKeyTaken()
	case errors.Is(c.Err, store.ErrManyReplies):
		return nil, manyReplies(request)
	case errors.Is(c.Err, store.ErrReplyTo):
		return nil, repliedTo.noJob(request.replyTo)
	case c.Err != nil:
		return nil, notFoundAs(fmt.Errorf("store the job: %w", c.Err), ofConnection.noConnection(request.connection))
	case !c.Created:
		return in.repeated(ctx, request, c.Snapshot)
	default:
		in.kept = sumOf(in.kept, sizeOf(1, len(request.spec.Payload)))
		out := in.view.job(ctx, c.Snapshot)
		out.Payload = request.payload
		return &fireoncev1.ScheduleJobResponse{Job: out, Created: true, LocalTimeMark: request.mark}, nil
	}
}

func manyReplies(request scheduleRequest) *fault {
	to := request.spec.ReplyTo
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_TOO_MANY_REPLIES,
		fmt.Sprintf("%d jobs wait for job %s already; nothing was stored. Reply to it when it has SUCCEEDED, or to one of those", store.MaxReplies, to),
		"field", repliedTo.field(request.replyTo), "job_id", to.String(), "limit", strconv.Itoa(store.MaxReplies))
}

// repeated answers a request whose key is bound: with the stored job when it is
// the same request, else with the fields that differ.
func (in *validator) repeated(ctx context.Context, request scheduleRequest, bound job.Snapshot) (*fireoncev1.ScheduleJobResponse, error) {
	if differ := request.spec.Fingerprint.Diff(bound.Fingerprint); len(differ) > 0 {
		for i, field := range differ {
			switch field { // the path that the request has
			case ofConnection.id:
				differ[i] = ofConnection.field(request.connection)
			case repliedTo.id:
				differ[i] = repliedTo.field(request.replyTo)
			}
		}
		return nil, keyReused(&fireoncev1.IdempotencyConflict{
			Holder: &fireoncev1.IdempotencyConflict_JobId{JobId: idToWire(bound.ID)}, ScheduleTime: timeToWire(bound.ScheduleTime),
			State: stateToWire(bound.State), MismatchedFields: differ,
		})
	}
	out, err := withPayload(in.view.job(ctx, bound), bound.Payload)
	return &fireoncev1.ScheduleJobResponse{Job: out, LocalTimeMark: request.mark}, err
}

// validated shows the job that would be stored. It has no id and no state.
func (in *validator) validated(ctx context.Context, request scheduleRequest) (*fireoncev1.ScheduleJobResponse, error) {
	j := job.Job{Spec: request.spec, Status: job.Status{ScheduleTime: request.at, Class: request.class}}
	j.ID = job.ID{}
	out, err := withPayload(jobToWire(j, in.view.retry(ctx, &j.Spec)), request.spec.Payload)
	out.ConnectionKey = in.view.connection(ctx, j.Connection).Key
	return &fireoncev1.ScheduleJobResponse{Job: out, LocalTimeMark: request.mark}, err
}
