package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - the key comes before everything that may change between two tries, as in jobs_schedule.go: a
//     request that fails a check is looked up by its key before the check's verdict is returned;
//   - a template is checked as the job of its first firing is submitted. A later firing whose job is
//     refused pauses the schedule.

// scheduleDraft has the parts of a schedule that a request sets. The others are nil.
type scheduleDraft struct {
	spec *schedulesv1.ScheduleSpec
	// template has the ids of its connection and of its callback, once it is resolved.
	template *schedulesv1.JobTemplate
	policies *schedulesv1.SchedulePolicies
	// conn is the template's, named the request's name for it, unnamed the error of a name that
	// names nothing.
	conn    job.ID
	named   store.Ref
	unnamed error
	// callback is the key of the template's callback. dry: nothing is stored for it.
	callback string
	dry      bool
}

// resolve finds the template's connection, and puts its id in the place of its key.
func (d *scheduleDraft) resolve(ctx context.Context, in *validator) error {
	t := d.template
	id, err := idFromWire(under(partTemplate, ofConnection.id), t.GetConnectionId())
	if err != nil {
		return err
	}
	d.named = store.Ref{Project: in.who.project, ID: id, Key: t.GetConnectionKey()}
	if d.conn, err = in.server.connectionID(ctx, d.named); err != nil && !ofItem(err) {
		return err
	}
	d.unnamed = err
	d.template = proto.CloneOf(t)
	d.template.ContentWithheld = false
	d.template.Connection = &schedulesv1.JobTemplate_ConnectionId{ConnectionId: idToWire(d.conn)}
	if d.callback = t.GetCallback(); d.callback != "" {
		to, err := in.server.callbackID(ctx, in.who.project, d.callback)
		if err != nil && !ofItem(err) {
			return err
		}
		d.unnamed = cmp.Or(d.unnamed, err)
		d.template.Callback = idToWire(to)
	}
	return nil
}

// CreateSchedule implements the RPC.
func (s *scheduleService) CreateSchedule(ctx context.Context, req *schedulesv1.CreateScheduleRequest) (*schedulesv1.CreateScheduleResponse, error) {
	if err := notReserved(req.GetIdempotencyKey(), ""); err != nil {
		return nil, err
	}
	in := s.newValidator(ctx)
	d := scheduleDraft{spec: req.GetSpec(), template: req.GetJobTemplate(), policies: req.GetPolicies(), dry: req.GetValidateOnly()}
	if err := d.resolve(ctx, in); err != nil {
		return nil, err
	}
	want, err := schedulePrint(req, d.conn)
	if err != nil {
		return nil, err
	}
	fresh, refused := s.newSchedule(ctx, in, req, d)
	if refused != nil && !ofItem(refused) {
		return nil, refused
	}
	if fresh.Fingerprint = want; refused != nil || req.GetValidateOnly() {
		return s.validated(ctx, req, d, fresh, refused)
	}
	stored, created, err := s.store.CreateSchedule(ctx, store.NewSchedule{
		Schedule: fresh, Most: s.quotas.limit(fresh.Project, QuotaSchedules),
	})
	if err := s.quotaFault(err, fresh.Project, QuotaSchedules); err != nil {
		return nil, fmt.Errorf("store the schedule: %w", err)
	}
	if !created {
		return s.repeated(ctx, d, want, stored)
	}
	s.logScheduleChange(ctx, "a schedule was created", stored)
	return s.createdSchedule(ctx, stored, true)
}

// newSchedule checks a schedule to be created, and completes it.
func (s *scheduleService) newSchedule(ctx context.Context, in *validator, req *schedulesv1.CreateScheduleRequest, d scheduleDraft) (store.Schedule, error) {
	out := store.Schedule{
		ID: s.cfg.NewID(), Project: in.who.project, Key: req.GetIdempotencyKey(), DisplayName: req.GetDisplayName(),
		Labels: req.GetLabels(), Connection: d.conn, PauseAfterFailures: int(d.policies.GetPauseAfterFailures()),
		State: store.ScheduleActive, Note: req.GetNote(), CreatedBy: in.who.actor,
	}
	times, err := s.compile(ctx, out.ID, 1, d.spec)
	if err != nil {
		return out, err
	}
	var left bool
	now, err := s.storeNow(ctx)
	if err != nil {
		return out, err
	}
	if out.Cursor, out.Next, left, err = schedule.Begin(ctx, times, d.spec.GetMaxFirings(), 0, now); err != nil {
		return out, specCost(err)
	}
	if !left {
		return out, refuse(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_SPEC_INVALID, "spec does not fire from now on", "field", partSpec)
	}
	if req.GetPaused() {
		out.State, out.PauseCause, out.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
	}
	if err := s.checkTemplate(ctx, in, out, times, d); err != nil {
		return out, err
	}
	return out, d.encode(&out)
}

// encode puts the parts of a draft that it has into a schedule.
func (d scheduleDraft) encode(s *store.Schedule) error {
	var bad [3]error
	if d.spec != nil {
		s.Spec, bad[0] = encoded(d.spec)
	}
	if d.template != nil {
		s.Template, bad[1] = encoded(d.template)
		s.Queued = schedule.Queued(d.template)
	}
	if d.policies != nil {
		s.Policies, bad[2] = encoded(d.policies)
	}
	return errors.Join(bad[:]...)
}

// compile makes the times of a request's spec.
func (s *scheduleService) compile(ctx context.Context, id job.ID, generation int64, spec *schedulesv1.ScheduleSpec) (*recur.Schedule, error) {
	times, err := schedule.CompileFor(ctx, id, generation, spec, s.cfg.Scheduler.Zones())
	if wrong, ok := errors.AsType[schedule.SpecError](err); ok {
		return nil, specFault(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_SPEC_INVALID, partSpec, wrong)
	}
	if err != nil {
		return nil, fmt.Errorf("compile the spec: %w", specCost(err))
	}
	return times, nil
}

// specCost is the error for a request with a spec whose times are too costly.
func specCost(err error) error {
	costly, ok := errors.AsType[*recur.CostError](err)
	if !ok {
		return err
	}
	return specFault(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_SPEC_INVALID, partSpec, schedule.SpecError{{Message: costly.Error() + ". " + cheaper}})
}

// specFault is the error for the spec that a request has at a path.
func specFault(reason fireoncev1.ErrorReason, at string, wrong schedule.SpecError) *fault {
	f := invalid(false, convertAll(wrong, func(v schedule.Violation) *fireoncev1.FieldViolation {
		return &fireoncev1.FieldViolation{Field: under(at, v.Field), Rule: ruleName(reason), Message: v.Message}
	})...)
	f.reason = reason
	return f
}

// inPart returns an error about a part of a request with the paths that the part has there.
func inPart(at string, err error) error {
	f, wrong := new(fault), new(connector.InputError)
	switch {
	case errors.As(err, &f):
		return f.withPaths(func(path string) string { return under(at, path) })
	case errors.As(err, &wrong):
		return &connector.InputError{Reason: wrong.Reason, Field: under(at, wrong.Field), Msg: wrong.Msg}
	default:
		return err
	}
}

// checkTemplate checks a draft's template as the job of the next firing.
func (s *scheduleService) checkTemplate(ctx context.Context, in *validator, of store.Schedule, times *recur.Schedule, d scheduleDraft) error {
	var wrong schedule.SpecError
	if err := schedule.CheckLabels(d.template.GetLabels()); errors.As(err, &wrong) {
		return specFault(fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID, partTemplate, wrong)
	} else if err != nil {
		return fmt.Errorf("check the labels: %w", err)
	}
	if schedule.Queued(d.template) {
		return s.checkConnection(ctx, in, d)
	}
	payload := d.template.GetPayload()
	if err := schedule.CheckTexts(payload); errors.As(err, &wrong) {
		return specFault(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_INVALID, under(partTemplate, "payload"), wrong)
	} else if err != nil {
		return fmt.Errorf("check the texts: %w", err)
	}
	_, plain, err := submit.Payload(payload)
	if err != nil {
		return err
	}
	if err := checkSize(plain); err != nil {
		return inPart(partTemplate, err)
	}
	now, err := s.storeNow(ctx)
	if err != nil {
		return err
	}
	beat, err := schedule.Example(ctx, times, now)
	if err != nil {
		return specCost(err)
	}
	made, err := schedule.JobOf(of.ID, times, d.template, beat, of.Run+1)
	if errors.Is(err, schedule.ErrTooLarge) {
		return tooLarge(err)
	}
	if err != nil {
		return fmt.Errorf("fill the template in: %w", inPart(partTemplate, err))
	}
	if d.unnamed != nil {
		return d.unnamed
	}
	conn, err := in.connection(ctx, d.conn, d.named)
	if err != nil {
		return err
	}
	made.Spec.Project, made.Spec.Key, made.Spec.Connection = of.Project, store.FiringKey(of.ID, beat.Name), conn.ID
	if _, err = in.prepare(ctx, conn, made.Spec, store.Ref{}); err != nil {
		return inPart(partTemplate, err)
	}
	return d.keepCallbacks(ctx, in)
}

// keepCallbacks ensures that the callbacks of a template are made.
func (d scheduleDraft) keepCallbacks(ctx context.Context, in *validator) error {
	_, err := in.server.callbackTo(ctx, in.who.project, d.callback, d.dry)
	return err
}

// checkConnection checks the connection of a template whose content is not known yet.
func (s *scheduleService) checkConnection(ctx context.Context, in *validator, d scheduleDraft) error {
	if d.unnamed != nil {
		return d.unnamed
	}
	conn, err := in.connection(ctx, d.conn, d.named)
	if err != nil {
		return err
	}
	if _, err = in.usableConnector(conn); err != nil {
		return err
	}
	return d.keepCallbacks(ctx, in)
}

// tooLarge refuses a template whose jobs are too large.
func tooLarge(err error) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE, err.Error(),
		"field", under(partTemplate, "payload"), "limit", strconv.Itoa(job.MaxPayload))
}

// validated answers a request that is not to be stored: its key may be bound.
func (s *scheduleService) validated(
	ctx context.Context, req *schedulesv1.CreateScheduleRequest, d scheduleDraft, fresh store.Schedule, refused error,
) (*schedulesv1.CreateScheduleResponse, error) {
	bound, err := s.store.Schedule(ctx, store.Ref{Project: fresh.Project, Key: fresh.Key})
	switch {
	case err == nil:
		return s.repeated(ctx, d, fresh.Fingerprint, bound)
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("look up the key: %w", err)
	case refused != nil:
		return nil, refused
	}
	times, err := s.compile(ctx, fresh.ID, 1, d.spec)
	if err != nil {
		return nil, err
	}
	now, err := s.storeNow(ctx)
	if err != nil {
		return nil, err
	}
	fresh.ID = job.ID{}
	out, err := scheduleToWire(fresh)
	if err != nil {
		return nil, err
	}
	if err := s.nameConnections(ctx, fresh, out); err != nil {
		return nil, err
	}
	out.NextFireTime = timeToWire(fresh.Next)
	beats, _, err := schedule.Preview(ctx, times, now.Add(time.Nanosecond), time.Time{}, fewest(shownFirings, req.GetSpec().GetMaxFirings()))
	if err != nil {
		return nil, specCost(err)
	}
	return &schedulesv1.CreateScheduleResponse{Schedule: out, NextFirings: convertAll(schedule.Due(beats, d.template), plannedToWire)}, nil
}

// repeated answers a request whose key is bound: with the schedule that the same request made,
// as it is now, else with the fields that differ.
func (s *scheduleService) repeated(ctx context.Context, d scheduleDraft, want job.Fingerprint, bound store.Schedule) (*schedulesv1.CreateScheduleResponse, error) {
	differ := want.Diff(bound.Fingerprint)
	for i, field := range differ {
		if field == under(partTemplate, ofConnection.id) {
			differ[i] = under(partTemplate, ofConnection.field(d.named))
		}
	}
	if len(differ) > 0 {
		return nil, keyReused(&fireoncev1.IdempotencyConflict{
			Holder: &fireoncev1.IdempotencyConflict_ScheduleId{ScheduleId: idToWire(bound.ID)}, MismatchedFields: differ,
		})
	}
	return s.createdSchedule(ctx, bound, false)
}

func (s *scheduleService) createdSchedule(ctx context.Context, stored store.Schedule, created bool) (*schedulesv1.CreateScheduleResponse, error) {
	out, next, err := s.withNext(ctx, stored)
	return &schedulesv1.CreateScheduleResponse{Schedule: out, Created: created, NextFirings: next}, err
}
