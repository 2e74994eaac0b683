package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/gen/fireonce/v1/fireoncev1connect"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a schedule is read, the change is decided, and it is written for the
// revision that was read, which firings change too; if somebody came between, all again. What
// is in place already succeeds before the etag is compared, and the etag comes before every
// check, because the client judged by another state. After a restore, the firings that may
// have taken place in the state that was lost are decided before anything is changed.

// revision is what a client wants of one schedule.
type revision struct {
	etag string
	// inPlace reports whether a schedule is as it is wanted.
	inPlace func(store.Schedule) (bool, error)
	// from are the states that it can be changed in.
	from []store.ScheduleState
	// settles: so can a queue that a person has to look at after a restore, in any state.
	settles bool
	// deletes: it is carried out also where nobody can decide about the schedule.
	deletes bool
	// change makes of a copy what is to be written.
	change func(ctx context.Context, c *store.ScheduleChange) error
	// what is the line in the log.
	what string
}

// living are the states that are not for good.
var living = []store.ScheduleState{store.ScheduleActive, store.SchedulePaused, store.ScheduleEnded}

// revise carries a revision out on the schedule that a request is about.
func (s *scheduleService) revise(ctx context.Context, of scheduleNamed, r revision) (store.Schedule, error) {
	ref, err := scheduleRef(ctx, of)
	if err != nil {
		return store.Schedule{}, err
	}
	return s.reviseAt(ctx, ref, r)
}

func (s *scheduleService) reviseAt(ctx context.Context, ref store.Ref, r revision) (store.Schedule, error) {
	var was store.Schedule
	for range maxDecisions {
		var err error
		if was, err = s.store.Schedule(ctx, ref); err != nil {
			return was, notFoundAs(fmt.Errorf("read the schedule: %w", err), scheduleNotFound(ref))
		}
		if done, err := r.inPlace(was); err != nil || done {
			return was, err
		}
		if r.etag != "" && r.etag != etagOf(was.ID, was.Version) {
			return was, scheduleChanged(was)
		}
		if store.Settled(was.State, was.HeldUntil, was.State) != nil {
			err := s.settle(ctx, was)
			if err == nil {
				continue
			}
			if !r.deletes {
				return was, err
			}
		}
		if !slices.Contains(r.from, was.State) && !(r.settles && was.Doubtful()) {
			return was, scheduleState(was, "the schedule is "+stateName(was))
		}
		c := store.ScheduleChange{Schedule: was.Clone(), Actor: callerOf(ctx).actor}
		if err := r.change(ctx, &c); err != nil {
			return was, err
		}
		after, err := s.store.ChangeSchedule(ctx, c)
		if errors.Is(err, store.ErrStale) || errors.Is(err, store.ErrUndecided) {
			continue
		}
		if err != nil {
			return was, notFoundAs(fmt.Errorf("change the schedule: %w", err), scheduleNotFound(ref))
		}
		s.chronicled(ctx, r.what, after)
		return after, nil
	}
	return was, scheduleChanged(was)
}

// settle has the firings of a schedule's lost time decided.
func (s *scheduleService) settle(ctx context.Context, of store.Schedule) error {
	err := s.cfg.Scheduler.Settle(ctx, store.Ref{Project: of.Project, ID: of.ID})
	if err != nil {
		return s.firingFault(of, err)
	}
	return nil
}

func scheduleChanged(s store.Schedule) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH,
		fmt.Sprintf("schedule %s has changed since it was read; its etag is now %s", s.ID, etagOf(s.ID, s.Version)),
		"schedule_id", s.ID.String(), "etag", etagOf(s.ID, s.Version))
}

// scheduleState refuses what a schedule's state does not allow.
func scheduleState(s store.Schedule, why string) *fault {
	f := refuse(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_STATE,
		fmt.Sprintf("not possible with schedule %s: %s", s.ID, why), "schedule_id", s.ID.String(), "state", stateName(s))
	if cause := s.Cause(); cause != 0 {
		f.metadata["pause_cause"] = causeName(cause)
	}
	return f
}

// causeName is the contract's name of why a schedule is paused, without its prefix.
func causeName(c store.PauseCause) string {
	return fireoncev1.SchedulePauseCause(c).String()[len("SCHEDULE_PAUSE_CAUSE_"):]
}

// stateName is the contract's name of a schedule's state, without its prefix.
func stateName(s store.Schedule) string {
	return fireoncev1.ScheduleState(s.State).String()[len("SCHEDULE_STATE_"):]
}

// missBuffered takes the firing that waits out of a schedule: it makes no job.
func missBuffered(c *store.ScheduleChange, reason string) {
	if c.Schedule.Buffered == nil {
		return
	}
	f := *c.Schedule.Buffered
	f.Outcome, f.Reason = store.FiringMissed, reason
	c.Schedule.Buffered = nil
	c.Schedule.Counts.Missed++
	c.Firings = append(c.Firings, f)
}

// passDue takes the firings out of an ACTIVE schedule whose times have come and that no server
// has decided about: they make no job. Where the schedule cannot be evaluated, they stay unknown.
func (s *scheduleService) passDue(ctx context.Context, c *store.ScheduleChange, reason string) error {
	if c.Schedule.State != store.ScheduleActive || c.Schedule.Next.IsZero() {
		return nil
	}
	now, err := s.storeNow(ctx)
	if err != nil || c.Schedule.Next.After(now) {
		return err
	}
	plan, err := s.cfg.Scheduler.Plan(c.Schedule)
	if err != nil {
		s.unreadable(ctx, c.Schedule, err)
		return nil
	}
	passed, firings, err := firing.Pass(c.Schedule, plan.Times, now, reason)
	if err != nil {
		s.unreadable(ctx, c.Schedule, err)
		return nil
	}
	c.Schedule = passed
	c.Firings = append(c.Firings, firings...)
	return nil
}

// UpdateSchedule implements the RPC.
func (s *scheduleService) UpdateSchedule(ctx context.Context, req *fireoncev1.UpdateScheduleRequest) (*fireoncev1.UpdateScheduleResponse, error) {
	u, err := s.updateOf(ctx, req)
	if err != nil {
		return nil, err
	}
	after, err := s.revise(ctx, req, revision{
		etag: req.GetEtag(), inPlace: u.inPlace, from: living, change: u.change, what: "a schedule was updated",
	})
	if err != nil {
		return nil, err
	}
	out, next, err := s.withNext(ctx, after)
	return &fireoncev1.UpdateScheduleResponse{Schedule: out, NextFirings: next}, err
}

// scheduleUpdate is what a client wants a schedule to have.
type scheduleUpdate struct {
	*scheduleService
	draft
	in     *intake
	name   *string
	labels map[string]string // nil: left alone
}

// updateOf reads what update_mask names.
func (s *scheduleService) updateOf(ctx context.Context, req *fireoncev1.UpdateScheduleRequest) (*scheduleUpdate, error) {
	if err := noUnknown(req); err != nil {
		return nil, err
	}
	u := &scheduleUpdate{scheduleService: s, in: s.intake(ctx)}
	for _, path := range req.GetUpdateMask().GetPaths() {
		var err error
		switch path {
		case partName:
			name := req.GetDisplayName()
			u.name = &name
		case partLabels:
			if u.labels = req.GetLabels(); u.labels == nil {
				u.labels = map[string]string{}
			}
		case partSpec:
			u.spec = req.GetSpec()
			_, err = canonicalOrNil(path, req.GetSpec())
		case partPolicies:
			if u.policies = req.GetPolicies(); u.policies == nil {
				u.policies = &fireoncev1.SchedulePolicies{}
			}
			_, err = canonicalOrNil(path, req.GetPolicies())
		case partTemplate:
			u.template = req.GetJobTemplate()
			if _, err = canonicalOrNil(path, req.GetJobTemplate()); err == nil {
				err = u.resolve(ctx, u.in)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return u, nil
}

// inPlace reports whether a schedule has all that is wanted. What is in force counts: defaults
// that are named are the same as defaults that are not.
func (u *scheduleUpdate) inPlace(was store.Schedule) (bool, error) {
	now, err := scheduleToWire(was)
	if err != nil {
		return false, fmt.Errorf("read the stored schedule %s: %w", was.ID, err)
	}
	named := u.unnamed == nil
	switch {
	case u.name != nil && *u.name != was.DisplayName,
		u.labels != nil && !maps.Equal(u.labels, was.Labels),
		u.spec != nil && !proto.Equal(u.spec, now.GetSpec()),
		u.template != nil && (!named || !proto.Equal(u.template, now.GetJobTemplate())),
		u.policies != nil && !proto.Equal(policiesInForce(u.policies, now.GetSpec()), now.GetPolicies()):
		return false, nil
	default:
		return true, nil
	}
}

// change makes of a schedule what is wanted. Only another spec moves its place in time.
func (u *scheduleUpdate) change(ctx context.Context, c *store.ScheduleChange) error {
	to, d := &c.Schedule, u.draft
	stored, err := scheduleToWire(*to)
	if err != nil {
		return fmt.Errorf("read the stored schedule %s: %w", to.ID, err)
	}
	if u.name != nil {
		to.DisplayName = *u.name
	}
	if u.labels != nil {
		to.Labels = u.labels
	}
	if d.policies != nil {
		to.PauseAfterFailures = int(d.policies.GetPauseAfterFailures())
	}
	if proto.Equal(d.spec, stored.GetSpec()) {
		d.spec = nil
	}
	spec := stored.GetSpec()
	if d.spec != nil {
		if err := u.passDue(ctx, c, "The schedule's spec was changed."); err != nil {
			return err
		}
		spec = d.spec
		to.Generation++
	}
	if d.spec == nil && d.template == nil {
		return d.encode(to)
	}
	if d.template != nil && schedule.Queued(d.template) != to.Queued && !to.HeldUntil.IsZero() {
		return scheduleState(*to, "its queue may have items that were sent in the time that a restore lost: ResumeSchedule first")
	}
	times, err := u.compile(to.ID, to.Generation, spec)
	if err != nil {
		return err
	}
	if d.spec != nil {
		to.Skips = nil
		if err := u.begin(ctx, c, times, spec.GetMaxFirings()); err != nil {
			return err
		}
	}
	if d.template != nil {
		if err := u.checkTemplate(ctx, u.in, *to, times, d); err != nil {
			return err
		}
		to.Connection = d.conn
	}
	return d.encode(to)
}

// begin puts a schedule where it fires from now on. What waits in the buffer stays there, unless
// no job may be made any more.
func (s *scheduleService) begin(ctx context.Context, c *store.ScheduleChange, times *recur.Schedule, maxFirings int64) error {
	to := &c.Schedule
	from, err := s.passed(ctx, *to)
	if err != nil {
		return err
	}
	cursor, next, left, err := schedule.Begin(times, maxFirings, to.Run, from)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	to.Cursor, to.Next = cursor, time.Time{}
	if maxFirings > 0 && to.Run >= maxFirings {
		missBuffered(c, "max_firings is reached.")
	}
	switch {
	case to.State == store.SchedulePaused:
	case left:
		to.State, to.Next = store.ScheduleActive, next
	case to.Buffered == nil:
		to.State = store.ScheduleEnded
	}
	return nil
}

// passed is the time up to which a schedule's times are passed: now, or, where the store's clock
// was set back, the newest nominal time that made a job or may have made one in a state that was
// lost. Under another version of the spec that time has another name, and would make a second
// job. The change is written only if the schedule has not fired since it was read.
func (s *scheduleService) passed(ctx context.Context, of store.Schedule) (time.Time, error) {
	now, err := s.storeNow(ctx)
	if err != nil {
		return now, err
	}
	page, err := s.store.Firings(ctx, store.FiringQuery{
		Project: of.Project, Schedule: of.ID, Outcomes: []store.FiringOutcome{store.FiringFired}, Limit: newestFirings,
	})
	if err != nil {
		return now, fmt.Errorf("read the newest firings: %w", err)
	}
	for _, f := range page.Firings {
		if f.Nominal.After(now) {
			now = f.Nominal
		}
	}
	if b := of.Buffered; b != nil && b.Nominal.After(now) {
		now = b.Nominal
	}
	if of.HeldUntil.After(now) {
		now = of.HeldUntil
	}
	return now, nil
}

// newestFirings are the firings among which the newest nominal time is: one decision makes
// that many jobs at most.
const newestFirings = store.MaxFiringJobs

// DeleteSchedule implements the RPC.
func (s *scheduleService) DeleteSchedule(ctx context.Context, req *fireoncev1.DeleteScheduleRequest) (*fireoncev1.DeleteScheduleResponse, error) {
	after, err := s.revise(ctx, req, revision{
		etag: req.GetEtag(), from: living, what: "a schedule was deleted", deletes: true,
		inPlace: func(was store.Schedule) (bool, error) { return was.State == store.ScheduleDeleted, nil },
		change: func(ctx context.Context, c *store.ScheduleChange) error {
			const reason = "The schedule was deleted."
			missBuffered(c, reason)
			if err := s.passDue(ctx, c, reason); err != nil {
				return err
			}
			c.Schedule.State = store.ScheduleDeleted
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	out, err := s.scheduleWire(ctx, after)
	return &fireoncev1.DeleteScheduleResponse{Schedule: out}, err
}

// PauseSchedule implements the RPC.
func (s *scheduleService) PauseSchedule(ctx context.Context, req *fireoncev1.PauseScheduleRequest) (*fireoncev1.PauseScheduleResponse, error) {
	after, err := s.revise(ctx, req, s.pausing(req.GetEtag(), req.GetNote()))
	if err != nil {
		return nil, err
	}
	out, err := s.scheduleWire(ctx, after)
	return &fireoncev1.PauseScheduleResponse{Schedule: out}, err
}

// pausing is the revision that pauses a schedule.
func (s *scheduleService) pausing(etag, note string) revision {
	return revision{
		etag: etag, from: []store.ScheduleState{store.ScheduleActive, store.SchedulePaused}, what: "a schedule was paused",
		inPlace: func(was store.Schedule) (bool, error) {
			return was.State == store.SchedulePaused && (note == "" || note == was.Note), nil
		},
		change: func(ctx context.Context, c *store.ScheduleChange) error {
			to := &c.Schedule
			to.Note = note
			if to.State == store.ScheduleActive {
				const reason = "The schedule was paused."
				missBuffered(c, reason)
				if err := s.passDue(ctx, c, reason); err != nil {
					return err
				}
				to.State, to.PauseCause, to.Next = store.SchedulePaused, store.PausedByPerson, time.Time{}
			}
			return nil
		},
	}
}

// ResumeSchedule implements the RPC.
func (s *scheduleService) ResumeSchedule(ctx context.Context, req *fireoncev1.ResumeScheduleRequest) (*fireoncev1.ResumeScheduleResponse, error) {
	after, err := s.revise(ctx, req, s.resuming(req.GetEtag(), req.GetNote()))
	if err != nil {
		return nil, err
	}
	out, err := s.scheduleWire(ctx, after)
	return &fireoncev1.ResumeScheduleResponse{Schedule: out}, err
}

// resuming is the revision that has a schedule fire again.
func (s *scheduleService) resuming(etag, note string) revision {
	return revision{
		etag: etag, from: []store.ScheduleState{store.SchedulePaused}, settles: true, what: "a schedule was resumed",
		inPlace: func(was store.Schedule) (bool, error) {
			// The word of a person who has not seen that it pauses after a restore does not count.
			return was.State == store.ScheduleActive || was.State == store.ScheduleEnded && !was.Doubtful(), nil
		},
		change: func(ctx context.Context, c *store.ScheduleChange) error {
			to := &c.Schedule
			plan, err := s.cfg.Scheduler.Plan(*to)
			if err != nil {
				return evaluated(*to, err)
			}
			left, err := s.skipsLeft(*to)
			if err != nil {
				return evaluated(*to, err)
			}
			to.State, to.PauseCause, to.Note, to.Skips = store.ScheduleActive, 0, note, left
			err = s.begin(ctx, c, plan.Times, plan.Spec.GetMaxFirings())
			to.HeldUntil = time.Time{} // after begin, which passes the lost time
			return err
		},
	}
}

// evaluated refuses what needs the times of a schedule that cannot be evaluated.
func evaluated(of store.Schedule, err error) error {
	if bad := new(schedule.UnreadableError); errors.As(err, &bad) {
		return scheduleState(of, "it cannot be evaluated: "+bad.Error()+". UpdateSchedule with another spec")
	}
	return err
}

// bulkFor bounds the time in which a call on many schedules begins with another one.
const bulkFor = 5 * time.Second

// bulkSchedules is what a client asks of many schedules.
type bulkSchedules struct {
	// item is the procedure that does the same to one.
	item   string
	filter *fireoncev1.ScheduleFilter
	// acts is the state that the call acts on.
	acts      store.ScheduleState
	revision  revision
	dryRun    bool
	pageToken string
	// request is the whole request without its page token.
	request proto.Message
}

// BulkPauseSchedules implements the RPC.
func (s *scheduleService) BulkPauseSchedules(ctx context.Context, req *fireoncev1.BulkPauseSchedulesRequest) (*fireoncev1.BulkPauseSchedulesResponse, error) {
	bound := proto.CloneOf(req)
	bound.PageToken = ""
	out, err := s.bulk(ctx, bulkSchedules{
		item: fireoncev1connect.ScheduleServicePauseScheduleProcedure, filter: req.GetFilter(), acts: store.ScheduleActive,
		revision: s.pausing("", req.GetNote()), dryRun: req.GetDryRun(), pageToken: req.GetPageToken(), request: bound,
	})
	return &fireoncev1.BulkPauseSchedulesResponse{Result: out}, err
}

// BulkResumeSchedules implements the RPC.
func (s *scheduleService) BulkResumeSchedules(ctx context.Context, req *fireoncev1.BulkResumeSchedulesRequest) (*fireoncev1.BulkResumeSchedulesResponse, error) {
	bound := proto.CloneOf(req)
	bound.PageToken = ""
	out, err := s.bulk(ctx, bulkSchedules{
		item: fireoncev1connect.ScheduleServiceResumeScheduleProcedure, filter: req.GetFilter(), acts: store.SchedulePaused,
		revision: s.resuming("", req.GetNote()), dryRun: req.GetDryRun(), pageToken: req.GetPageToken(), request: bound,
	})
	return &fireoncev1.BulkResumeSchedulesResponse{Result: out}, err
}

var errSelectedNoMore = errors.New("the filter selects the schedule no more")

// bulk runs one call on one page, one schedule after the other: each is a write of its own.
func (s *scheduleService) bulk(ctx context.Context, b bulkSchedules) (*fireoncev1.BulkScheduleResult, error) {
	project, out := callerOf(ctx).project, &fireoncev1.BulkScheduleResult{}
	owner, err := s.pageOwner(project, b.request)
	if err != nil {
		return nil, err
	}
	after, err := parsePage(bulkSchedulePages, owner, b.pageToken)
	if err != nil {
		return nil, err
	}
	q, err := s.scheduleSelection(ctx, project, b.filter)
	if err != nil {
		return nil, err
	}
	if len(q.States) > 0 && !slices.Contains(q.States, b.acts) {
		return out, nil
	}
	q.States, q.After, q.Limit = []store.ScheduleState{b.acts}, after.id, maxPage
	page, err := s.schedulePage(ctx, q)
	if err != nil {
		return nil, err
	}
	next, begun := page.Next, time.Now()
	for i, of := range page.Schedules {
		if i > 0 && time.Since(begun) > bulkFor {
			next = page.Schedules[i-1].ID
			break
		}
		if err := s.bulkOne(ctx, b, q, of, out); err != nil {
			return nil, err
		}
	}
	if !next.IsZero() {
		out.NextPageToken = place{kind: bulkSchedulePages, owner: owner, id: next}.String()
	}
	return out, nil
}

// bulkOne changes one schedule that was selected, unless it is selected no more.
func (s *scheduleService) bulkOne(ctx context.Context, b bulkSchedules, q store.ScheduleQuery, of store.Schedule, out *fireoncev1.BulkScheduleResult) error {
	r := b.revision
	r.inPlace = func(was store.Schedule) (bool, error) {
		if !q.Selects(was) {
			return false, errSelectedNoMore
		}
		return false, nil
	}
	if b.dryRun {
		r.change = func(ctx context.Context, c *store.ScheduleChange) error {
			return errors.Join(b.revision.change(ctx, c), errDryRun)
		}
	}
	_, err := s.reviseAt(ctx, store.Ref{Project: of.Project, ID: of.ID}, r)
	switch f := new(fault); {
	case errors.Is(err, errSelectedNoMore):
		return nil
	case errors.As(err, &f):
		out.Failures = append(out.Failures, &fireoncev1.BulkScheduleFailure{
			ScheduleId: idToWire(of.ID), Error: (&jobService{Server: s.Server}).itemError(ctx, b.item, err),
		})
	case err != nil && !errors.Is(err, errDryRun):
		return err
	default:
		out.Changed++
		out.ChangedScheduleIds = append(out.ChangedScheduleIds, idToWire(of.ID))
	}
	out.Matched++
	return nil
}

// errDryRun ends a change that is not to be written.
var errDryRun = errors.New("dry run")
