package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - the key comes before everything that may change between two tries, as in jobs_schedule.go: a
//     request that fails a check is looked up by its key before the check's verdict is given;
//   - a template is checked as the job of its first firing is submitted. What a later firing's
//     job is refused for pauses the schedule;
//   - the times of a stored schedule that cannot be evaluated any more hide nothing else of it.

// scheduleService answers fireonce.v1.ScheduleService.
type scheduleService struct {
	fireoncev1connect.UnimplementedScheduleServiceHandler
	*Server
}

// shownFirings is how many firings, past ones and ones to come, an answer has beside its schedule.
const shownFirings = 10

// intake checks the content of templates as that of jobs.
func (s *scheduleService) intake(ctx context.Context) *intake {
	return (&jobService{Server: s.Server}).intake(ctx, callerOf(ctx))
}

// draft is what a request says about a schedule. Parts that it leaves alone are nil.
type draft struct {
	spec *fireoncev1.ScheduleSpec
	// template has its connection's id, once it is resolved.
	template *fireoncev1.JobTemplate
	policies *fireoncev1.SchedulePolicies
	// conn is the template's, named what the request called it, unnamed why that names
	// nothing.
	conn    job.ID
	named   store.Ref
	unnamed error
}

// resolve finds the template's connection, and puts its id in the place of its key.
func (d *draft) resolve(ctx context.Context, in *intake) error {
	t := d.template
	id, err := idFromWire(under(partTemplate, ofConnection.id), t.GetConnectionId())
	if err != nil {
		return err
	}
	d.named = store.Ref{Project: in.who.project, ID: id, Key: t.GetConnectionKey()}
	if d.conn, err = in.connectionID(ctx, d.named); err != nil && !ofItem(err) {
		return err
	}
	d.unnamed = err
	d.template = proto.CloneOf(t)
	d.template.ContentWithheld = false
	d.template.Connection = &fireoncev1.JobTemplate_ConnectionId{ConnectionId: idToWire(d.conn)}
	return nil
}

// CreateSchedule implements the RPC.
func (s *scheduleService) CreateSchedule(ctx context.Context, req *fireoncev1.CreateScheduleRequest) (*fireoncev1.CreateScheduleResponse, error) {
	if err := errors.Join(noUnknown(req), notReserved(req.GetIdempotencyKey(), "")); err != nil {
		return nil, err
	}
	in := s.intake(ctx)
	d := draft{spec: req.GetSpec(), template: req.GetJobTemplate(), policies: req.GetPolicies()}
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
	s.chronicled(ctx, "a schedule was created", stored)
	return s.createdSchedule(ctx, stored, true)
}

// newSchedule checks a schedule to be made, and completes it.
func (s *scheduleService) newSchedule(ctx context.Context, in *intake, req *fireoncev1.CreateScheduleRequest, d draft) (store.Schedule, error) {
	out := store.Schedule{
		ID: s.cfg.NewID(), Project: in.who.project, Key: req.GetIdempotencyKey(), DisplayName: req.GetDisplayName(),
		Labels: req.GetLabels(), Connection: d.conn, PauseAfterFailures: int(d.policies.GetPauseAfterFailures()),
		State: store.ScheduleActive, Note: req.GetNote(), CreatedBy: in.who.actor,
	}
	times, err := s.compile(out.ID, 1, d.spec)
	if err != nil {
		return out, err
	}
	var left bool
	now, err := s.storeNow(ctx)
	if err != nil {
		return out, err
	}
	if out.Cursor, out.Next, left, err = schedule.Begin(times, d.spec.GetMaxFirings(), 0, now); err != nil {
		return out, err
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

// storeNow is the time by which schedules fire. This server's own clock may be another one, and
// a schedule that began by a clock that is ahead would pass times that have not come.
func (s *scheduleService) storeNow(ctx context.Context) (time.Time, error) {
	meta, err := s.store.Meta(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the time: %w", err)
	}
	return meta.Now, nil
}

// encode puts the parts of a draft that it has into a schedule.
func (d draft) encode(s *store.Schedule) error {
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
func (s *scheduleService) compile(id job.ID, generation int64, spec *fireoncev1.ScheduleSpec) (*recur.Schedule, error) {
	times, err := schedule.Compile(id, generation, spec, s.cfg.Scheduler.Zones())
	var wrong schedule.SpecError
	if errors.As(err, &wrong) {
		return nil, specFault(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_SPEC_INVALID, partSpec, wrong)
	}
	if err != nil {
		return nil, fmt.Errorf("compile the spec: %w", err)
	}
	return times, nil
}

// specFault refuses what a request has at a path.
func specFault(reason fireoncev1.ErrorReason, at string, wrong schedule.SpecError) *fault {
	found := make([]*fireoncev1.FieldViolation, len(wrong))
	for i, v := range wrong {
		found[i] = &fireoncev1.FieldViolation{Field: under(at, v.Field), Rule: ruleName(reason), Message: v.Message}
	}
	f := invalid(false, found...)
	f.reason = reason
	return f
}

// inPart returns an error about a part of a request with the paths that the part has there.
func inPart(at string, err error) error {
	f, wrong := new(fault), new(connector.InputError)
	switch {
	case errors.As(err, &f):
		out := *f
		out.violations = nil
		for _, v := range f.violations {
			out.violations = append(out.violations, &fireoncev1.FieldViolation{
				Field: under(at, v.GetField()), Rule: v.GetRule(), Message: v.GetMessage(),
			})
		}
		return &out
	case errors.As(err, &wrong):
		return &connector.InputError{Reason: wrong.Reason, Field: under(at, wrong.Field), Msg: wrong.Msg}
	default:
		return err
	}
}

// checkTemplate checks a draft's template as the job of the next firing.
func (s *scheduleService) checkTemplate(ctx context.Context, in *intake, of store.Schedule, times *recur.Schedule, d draft) error {
	if schedule.Queued(d.template) {
		return s.checkConnection(ctx, in, d)
	}
	payload := d.template.GetPayload()
	var wrong schedule.SpecError
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
	beat := schedule.Example(times, s.cfg.Now())
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
	_, err = in.prepare(ctx, conn, made.Spec, store.Ref{})
	return inPart(partTemplate, err)
}

// checkConnection checks the connection of a template whose content is not known yet.
func (s *scheduleService) checkConnection(ctx context.Context, in *intake, d draft) error {
	if d.unnamed != nil {
		return d.unnamed
	}
	conn, err := in.connection(ctx, d.conn, d.named)
	if err != nil {
		return err
	}
	_, err = in.usable(conn)
	return err
}

// tooLarge refuses a template whose jobs are too large.
func tooLarge(err error) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE, err.Error(),
		"field", under(partTemplate, "payload"), "limit", strconv.Itoa(job.MaxPayload))
}

// validated answers a request that is not to be stored: its key may be bound.
func (s *scheduleService) validated(
	ctx context.Context, req *fireoncev1.CreateScheduleRequest, d draft, fresh store.Schedule, refused error,
) (*fireoncev1.CreateScheduleResponse, error) {
	bound, err := s.store.Schedule(ctx, store.Ref{Project: fresh.Project, Key: fresh.Key})
	switch {
	case err == nil:
		return s.repeated(ctx, d, fresh.Fingerprint, bound)
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("look up the key: %w", err)
	case refused != nil:
		return nil, refused
	}
	times, err := s.compile(fresh.ID, 1, d.spec)
	if err != nil {
		return nil, err
	}
	fresh.ID = job.ID{}
	out, err := scheduleToWire(fresh)
	if err != nil {
		return nil, err
	}
	out.NextFireTime = timeToWire(fresh.Next)
	beats, _ := schedule.Preview(times, s.cfg.Now().Add(time.Nanosecond), time.Time{}, fewest(shownFirings, req.GetSpec().GetMaxFirings()))
	return &fireoncev1.CreateScheduleResponse{Schedule: out, NextFirings: plannedListToWire(schedule.Due(beats, d.template))}, nil
}

// fewest is n, or a limit that is set and smaller.
func fewest(n int, limit int64) int {
	if limit > 0 && limit < int64(n) {
		return int(limit)
	}
	return n
}

// repeated answers a request whose key is bound: with the schedule that the same request made,
// as it is now, else with the fields that differ.
func (s *scheduleService) repeated(ctx context.Context, d draft, want job.Fingerprint, bound store.Schedule) (*fireoncev1.CreateScheduleResponse, error) {
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

func (s *scheduleService) createdSchedule(ctx context.Context, stored store.Schedule, created bool) (*fireoncev1.CreateScheduleResponse, error) {
	out, next, err := s.withNext(ctx, stored)
	return &fireoncev1.CreateScheduleResponse{Schedule: out, Created: created, NextFirings: next}, err
}

// GetSchedule implements the RPC.
func (s *scheduleService) GetSchedule(ctx context.Context, req *fireoncev1.GetScheduleRequest) (*fireoncev1.GetScheduleResponse, error) {
	found, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	out, next, err := s.withNext(ctx, found)
	if err != nil {
		return nil, err
	}
	if req.GetOmitPayload() && out.GetJobTemplate() != nil {
		out.JobTemplate.Content = nil
	}
	last, err := s.store.Firings(ctx, store.FiringQuery{Project: found.Project, Schedule: found.ID, Limit: shownFirings})
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("read the last firings: %w", err), scheduleNotFound(store.Ref{ID: found.ID}))
	}
	return &fireoncev1.GetScheduleResponse{Schedule: out, NextFirings: next, RecentFirings: firingsToWire(last.Firings)}, nil
}

// readSchedule reads the schedule that a request is about.
func (s *scheduleService) readSchedule(ctx context.Context, req scheduleNamed) (store.Schedule, error) {
	ref, err := scheduleRef(ctx, req)
	if err != nil {
		return store.Schedule{}, err
	}
	found, err := s.store.Schedule(ctx, ref)
	if err != nil {
		return found, notFoundAs(fmt.Errorf("read the schedule: %w", err), scheduleNotFound(ref))
	}
	return found, nil
}

// withNext converts a schedule, with its next firings.
func (s *scheduleService) withNext(ctx context.Context, of store.Schedule) (*fireoncev1.Schedule, []*fireoncev1.PlannedFiring, error) {
	out, err := s.scheduleWire(ctx, of)
	if err != nil {
		return nil, nil, err
	}
	next, err := s.cfg.Scheduler.Upcoming(of, s.cfg.Now(), shownFirings)
	if err != nil {
		s.unreadable(ctx, of, err)
	}
	if err := s.assign(ctx, of, next); err != nil {
		return nil, nil, err
	}
	return out, plannedListToWire(next), nil
}

// assign says which items of a schedule's queue its next firings take.
func (s *scheduleService) assign(ctx context.Context, of store.Schedule, next []schedule.Planned) error {
	if !of.Queued || len(next) == 0 {
		return nil
	}
	q := store.ItemQuery{Project: of.Project, Schedule: of.ID, States: []store.ItemState{store.ItemWaiting}, Limit: store.MaxBatch}
	var items []job.ID
	for len(items) <= len(next) { // a buffered firing takes one, too
		page, err := s.store.Items(ctx, q)
		if err != nil {
			return notFoundAs(fmt.Errorf("read the queue: %w", err), scheduleNotFound(store.Ref{ID: of.ID}))
		}
		for _, i := range page.Items {
			items = append(items, i.ID)
		}
		if q.After = page.Next; q.After.IsZero() {
			break
		}
	}
	if err := s.cfg.Scheduler.AssignItems(of, next, items); err != nil {
		s.unreadable(ctx, of, err)
	}
	return nil
}

// scheduleWire converts a schedule.
func (s *scheduleService) scheduleWire(ctx context.Context, of store.Schedule) (*fireoncev1.Schedule, error) {
	out, err := scheduleToWire(of)
	if err != nil {
		return nil, fmt.Errorf("read the stored schedule %s: %w", of.ID, err)
	}
	if of.State == store.ScheduleActive {
		out.NextFireTime = timeToWire(s.nextFire(ctx, of))
		if !of.Next.IsZero() && s.cfg.Now().Sub(of.Next) > firing.Late {
			out.OverdueTime = timeToWire(of.Next)
		}
	}
	return out, nil
}

// nextFire is when the next firing of an ACTIVE schedule that is not skipped is due; zero: not
// known. Mostly that is when the schedule is decided about next.
func (s *scheduleService) nextFire(ctx context.Context, of store.Schedule) time.Time {
	now := s.cfg.Now()
	if of.Buffered == nil && len(of.Skips) == 0 && of.Next.After(now) {
		return of.Next
	}
	next, err := s.cfg.Scheduler.Upcoming(of, now, len(of.Skips)+1)
	if err != nil {
		s.unreadable(ctx, of, err)
	}
	for _, p := range next {
		if !p.Skipped {
			return p.Fire
		}
	}
	return time.Time{}
}

// unreadable notes that a schedule's times cannot be evaluated. An answer leaves them out.
func (s *scheduleService) unreadable(ctx context.Context, of store.Schedule, err error) {
	s.log.LogAttrs(ctx, slog.LevelWarn, "a schedule cannot be evaluated", slog.String("schedule_id", of.ID.String()),
		slog.String("project", of.Project), slog.String("error", err.Error()))
}

// ListSchedules implements the RPC.
func (s *scheduleService) ListSchedules(ctx context.Context, req *fireoncev1.ListSchedulesRequest) (*fireoncev1.ListSchedulesResponse, error) {
	project := callerOf(ctx).project
	owner, err := s.pageOwner(project, &fireoncev1.ListSchedulesRequest{Filter: req.GetFilter()})
	if err != nil {
		return nil, err
	}
	after, err := parsePage(schedulePages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	q, err := s.scheduleSelection(ctx, project, req.GetFilter())
	if err != nil {
		return nil, err
	}
	q.After, q.Limit = after.id, pageSize(req.GetPageSize())
	page, err := s.schedulePage(ctx, q)
	if err != nil {
		return nil, err
	}
	out, size := &fireoncev1.ListSchedulesResponse{}, 0
	for i, of := range page.Schedules {
		wire, err := s.scheduleWire(ctx, of)
		if err != nil {
			return nil, err
		}
		if size += proto.Size(wire); size > maxAnswerBytes && i > 0 {
			page.Next = page.Schedules[i-1].ID
			break
		}
		out.Schedules = append(out.Schedules, wire)
	}
	if !page.Next.IsZero() {
		out.NextPageToken = place{kind: schedulePages, owner: owner, id: page.Next}.String()
	}
	return out, nil
}

// schedulePage reads a page of schedules. A place that was erased since is no place.
func (s *scheduleService) schedulePage(ctx context.Context, q store.ScheduleQuery) (store.SchedulePage, error) {
	page, err := s.store.ListSchedules(ctx, q)
	if err != nil {
		return page, notFoundAs(fmt.Errorf("list schedules: %w", err), refuse(fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID,
			"the schedule at which page_token goes on was erased; start from the first page", "field", "page_token"))
	}
	return page, nil
}

// scheduleSelection makes the query of what a filter selects.
func (s *scheduleService) scheduleSelection(ctx context.Context, project string, f *fireoncev1.ScheduleFilter) (store.ScheduleQuery, error) {
	q, err := schedulesFromWire(project, f)
	if err != nil {
		return q, err
	}
	q.Connections, err = s.andNamed(ctx, project, q.Connections, f.GetConnectionKeys())
	return q, err
}
