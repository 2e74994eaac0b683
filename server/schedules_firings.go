package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/firing"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file: a call that makes jobs counts them against the project's quotas as a
// submit does, and a repeat is answered from the ledger before anything is counted.

// ListFirings implements the RPC.
func (s *scheduleService) ListFirings(ctx context.Context, req *fireoncev1.ListFiringsRequest) (*fireoncev1.ListFiringsResponse, error) {
	of, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	owner, err := s.pageOwner(of.Project, &fireoncev1.ListFiringsRequest{
		Schedule: &fireoncev1.ListFiringsRequest_ScheduleId{ScheduleId: idToWire(of.ID)}, Outcomes: req.GetOutcomes(),
	})
	if err != nil {
		return nil, err
	}
	after, err := parsePage(firingPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	page, err := s.store.Firings(ctx, store.FiringQuery{
		Project: of.Project, Schedule: of.ID, Outcomes: outcomesFromWire(req.GetOutcomes()),
		Before: after.at, Limit: pageSize(req.GetPageSize()),
	})
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list firings: %w", err), scheduleNotFound(store.Ref{ID: of.ID}))
	}
	out := &fireoncev1.ListFiringsResponse{Firings: firingsToWire(page.Firings)}
	if page.Next > 0 {
		out.NextPageToken = place{kind: firingPages, owner: owner, at: page.Next}.String()
	}
	return out, nil
}

// firingNamed reads one firing of the ledger; nil: there is none of that name.
func (s *Server) firingNamed(ctx context.Context, project string, of job.ID, name string) (*store.Firing, error) {
	page, err := s.store.Firings(ctx, store.FiringQuery{Project: project, Schedule: of, Name: name, Limit: 1})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil // erased since
	case err != nil:
		return nil, fmt.Errorf("read the firing: %w", err)
	case len(page.Firings) == 0:
		return nil, nil
	default:
		return &page.Firings[0], nil
	}
}

// madeBy reads the firing that made a job; nil: none, or it is not kept any more.
func (s *Server) madeBy(ctx context.Context, snap job.Snapshot) (*fireoncev1.Firing, error) {
	name, named := strings.CutPrefix(snap.Key, store.FiringKey(snap.Schedule, ""))
	if snap.Schedule.IsZero() || !named {
		return nil, nil
	}
	f, err := s.firingNamed(ctx, snap.Project, snap.Schedule, name)
	if err != nil || f == nil || f.Job != snap.ID {
		return nil, err
	}
	return firingToWire(*f), nil
}

// searchedFirings is how many firings to come SkipFiring looks through.
const searchedFirings = 1000

// SkipFiring implements the RPC.
func (s *scheduleService) SkipFiring(ctx context.Context, req *fireoncev1.SkipFiringRequest) (*fireoncev1.SkipFiringResponse, error) {
	name, undo := req.GetName(), req.GetUndo()
	after, err := s.revise(ctx, req, revision{
		from: []store.ScheduleState{store.ScheduleActive, store.SchedulePaused}, what: "a firing was skipped, or put back",
		inPlace: func(was store.Schedule) (bool, error) {
			return !undo && slices.Contains(was.Skips, name), nil
		},
		change: func(ctx context.Context, c *store.ScheduleChange) error {
			to := &c.Schedule
			if at := slices.Index(to.Skips, name); at >= 0 {
				to.Skips = slices.Delete(to.Skips, at, at+1)
				return nil
			}
			if err := s.mayComeYet(ctx, *to, name); err != nil {
				return err
			}
			if undo {
				return errInPlace
			}
			return s.skip(to, name)
		},
	})
	if err != nil && !errors.Is(err, errInPlace) {
		return nil, err
	}
	out, next, err := s.withNext(ctx, after)
	return &fireoncev1.SkipFiringResponse{Schedule: out, NextFirings: next}, err
}

// errInPlace ends a change that turns out to be made already.
var errInPlace = errors.New("nothing to change")

// mayComeYet refuses a name that no firing to come has.
func (s *scheduleService) mayComeYet(ctx context.Context, of store.Schedule, name string) error {
	next, err := s.cfg.Scheduler.Upcoming(of, s.cfg.Now(), searchedFirings)
	if err != nil {
		return evaluated(of, err)
	}
	if slices.ContainsFunc(next, func(p schedule.Planned) bool { return p.Name == name }) {
		return nil
	}
	decided := of.Buffered != nil && of.Buffered.Name == name
	if !decided {
		known, err := s.firingNamed(ctx, of.Project, of.ID, name)
		if err != nil {
			return err
		}
		plan, err := s.cfg.Scheduler.Plan(of)
		if err != nil {
			return evaluated(of, err)
		}
		decided = known != nil || schedule.Passed(plan.Times, name, s.cfg.Now())
	}
	if decided {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_DECIDED,
			fmt.Sprintf("the time of firing %s has passed", name), "schedule_id", of.ID.String(), "name", name)
	}
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_NOT_FOUND,
		fmt.Sprintf("the next %d firings of schedule %s have no %s", searchedFirings, of.ID, name), "schedule_id", of.ID.String(), "name", name)
}

// skip takes a firing out. Of a paused schedule's skips those go whose time has passed.
func (s *scheduleService) skip(to *store.Schedule, name string) error {
	left, err := s.skipsLeft(*to)
	if err != nil {
		return evaluated(*to, err)
	}
	if n := len(left); n >= store.MaxSkips {
		f := overQuota(quotaSkips, int64(n), store.MaxSkips)
		f.metadata["schedule_id"] = to.ID.String()
		return f
	}
	to.Skips = append(left, name)
	return nil
}

// skipsLeft are the skips of a schedule whose times are to come.
func (s *scheduleService) skipsLeft(of store.Schedule) ([]string, error) {
	if len(of.Skips) == 0 || of.State == store.ScheduleActive {
		return of.Skips, nil
	}
	plan, err := s.cfg.Scheduler.Plan(of)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Now()
	return slices.DeleteFunc(slices.Clone(of.Skips), func(name string) bool { return schedule.Passed(plan.Times, name, now) }), nil
}

// TriggerSchedule implements the RPC.
func (s *scheduleService) TriggerSchedule(ctx context.Context, req *fireoncev1.TriggerScheduleRequest) (*fireoncev1.TriggerScheduleResponse, error) {
	of, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	known, err := s.firingNamed(ctx, of.Project, of.ID, firing.TriggerName(req.GetTriggerKey()))
	if err != nil {
		return nil, err
	}
	if known != nil {
		return &fireoncev1.TriggerScheduleResponse{Firing: firingToWire(*known)}, nil
	}
	in := s.intake(ctx)
	defer in.settle()
	if err := in.countMany(ctx, 1, contentSize(of)); err != nil {
		return nil, err
	}
	f, created, err := s.cfg.Scheduler.Trigger(ctx, store.Ref{Project: of.Project, ID: of.ID}, req.GetTriggerKey(), req.GetAllowOverlap())
	if created || errors.Is(err, store.ErrUnconfirmed) {
		in.kept = in.taken
	}
	if err != nil {
		return nil, s.firingFault(of, err)
	}
	if created {
		s.chronicled(ctx, "a schedule was triggered", of)
	}
	return &fireoncev1.TriggerScheduleResponse{Firing: firingToWire(f), Created: created}, nil
}

// contentSize is about what the content of a job that a client asks for adds to the project's
// bytes. That of a queue counts already.
func contentSize(of store.Schedule) int {
	if of.Queued {
		return 0
	}
	return len(of.Template)
}

// firingFault makes a fault of what Trigger and Backfill fail with.
func (s *scheduleService) firingFault(of store.Schedule, err error) error {
	id := of.ID.String()
	var blocked *firing.BlockedError
	switch {
	case errors.As(err, &blocked):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED,
			fmt.Sprintf("job %s of schedule %s has not ended; nothing was stored", blocked.Job, id), "schedule_id", id, "job_id", blocked.Job.String())
	case errors.Is(err, firing.ErrDoubtful):
		f := scheduleState(of, err.Error())
		f.metadata["pause_cause"] = causeName(store.PausedByRestore) // also of one that has ended
		return f
	case errors.Is(err, schedule.ErrUndecided), errors.Is(err, store.ErrUndecided):
		f := refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED,
			fmt.Sprintf("schedule %s is about to decide about firings whose time has come; repeat the call", id), "schedule_id", id)
		f.retry = time.Second
		return f
	case errors.As(err, new(*schedule.NoZoneError)):
		f := refuse(fireoncev1.ErrorReason_ERROR_REASON_FIRING_BLOCKED,
			fmt.Sprintf("schedule %s: %v; another server may have it: repeat the call", id, err), "schedule_id", id)
		f.retry = time.Second
		return f
	case errors.Is(err, firing.ErrNoContent):
		return scheduleState(of, err.Error())
	case errors.Is(err, firing.ErrEnded):
		return scheduleState(of, "max_firings is reached")
	case errors.Is(err, schedule.ErrDeleted):
		of.State = store.ScheduleDeleted
		return scheduleState(of, "the schedule was deleted")
	case errors.Is(err, schedule.ErrRange):
		return backfillRange("end_time", "the range has more firings than can be searched for; take a shorter one")
	case errors.Is(err, schedule.ErrNoConnection), errors.As(err, new(*schedule.NoConnectorError)):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED,
			fmt.Sprintf("connection %s: %v", of.Connection, err), "connection_id", of.Connection.String())
	case errors.Is(err, schedule.ErrTooLarge):
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_PAYLOAD_TOO_LARGE, err.Error(), "limit", strconv.Itoa(job.MaxPayload))
	case errors.Is(err, store.ErrStale):
		return scheduleChanged(of)
	case errors.As(err, new(*connector.InputError)), errors.As(err, new(*schedule.UnreadableError)):
		return evaluated(of, err)
	default:
		return notFoundAs(fmt.Errorf("fire schedule %s: %w", id, err), scheduleNotFound(store.Ref{ID: of.ID}))
	}
}

// BackfillSchedule implements the RPC.
func (s *scheduleService) BackfillSchedule(ctx context.Context, req *fireoncev1.BackfillScheduleRequest) (*fireoncev1.BackfillScheduleResponse, error) {
	of, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, err
	}
	from, until, err := s.backfillSpan(req)
	if err != nil {
		return nil, err
	}
	bound := proto.CloneOf(req)
	bound.PageToken = ""
	owner, err := s.pageOwner(of.Project, bound)
	if err != nil {
		return nil, err
	}
	after, err := parsePage(backfillPages, owner, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	if at := after.time(); at.After(from) {
		from = at
	}
	items, err := s.waitingItems(ctx, of)
	if err != nil {
		return nil, err
	}
	done, err := s.backfill(ctx, of, from, until, items, req.GetDryRun())
	if err != nil {
		return nil, s.firingFault(of, err)
	}
	taken := itemsTaken(after.id)
	switch {
	case !req.GetDryRun() && len(done.Firings) > 0:
		s.chronicled(ctx, "a schedule was backfilled", of, "jobs", len(done.Firings))
	case req.GetDryRun() && of.Queued:
		done.Share(max(0, items-taken))
		taken += len(done.Firings)
	}
	out := &fireoncev1.BackfillScheduleResponse{
		Firings: firingsToWire(done.Firings), Present: int32(done.Present), WithoutContent: firingsToWire(done.Empty),
	}
	if !done.Next.IsZero() {
		out.NextPageToken = place{kind: backfillPages, owner: owner, at: done.Next.UnixMicro(), id: idOfTaken(taken)}.String()
	}
	return out, nil
}

// backfill makes the jobs of one page of a backfill, and counts them against the project's
// quotas. items is how many wait in the schedule's queue: it makes no more jobs.
func (s *scheduleService) backfill(
	ctx context.Context, of store.Schedule, from, until time.Time, items int, dry bool,
) (done schedule.Backfilled, err error) {
	ref := store.Ref{Project: of.Project, ID: of.ID}
	if dry {
		return s.cfg.Scheduler.Backfill(ctx, ref, from, until, nil)
	}
	in := s.intake(ctx)
	defer in.settle()
	done, err = s.cfg.Scheduler.Backfill(ctx, ref, from, until, func(jobs int) error {
		if in.taken.Jobs > 0 {
			return nil // counted before the schedule changed
		}
		if of.Queued {
			jobs = min(jobs, items)
		}
		return in.countMany(ctx, jobs, contentSize(of))
	})
	switch made := int64(len(done.Firings)); {
	case errors.Is(err, store.ErrUnconfirmed):
		in.kept = in.taken
	case err == nil:
		in.kept = store.StoredJobs{Jobs: made, Bytes: made * int64(contentSize(of))}
	}
	return done, err
}

// waitingItems is how many items of a schedule's queue wait; 0 where it has none.
func (s *scheduleService) waitingItems(ctx context.Context, of store.Schedule) (int, error) {
	if !of.Queued {
		return 0, nil
	}
	page, err := s.store.Items(ctx, store.ItemQuery{
		Project: of.Project, Schedule: of.ID, States: []store.ItemState{store.ItemWaiting}, Limit: 1,
	})
	if err != nil {
		return 0, notFoundAs(fmt.Errorf("read the queue: %w", err), scheduleNotFound(store.Ref{ID: of.ID}))
	}
	return page.Waiting, nil
}

// idOfTaken has a page token of a dry run say how many items the pages before have taken: the
// queue itself does not.
func idOfTaken(items int) (id job.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(items))
	return id
}

func itemsTaken(id job.ID) int { return int(binary.BigEndian.Uint64(id[8:])) }

// backfillSpan reads the range of a backfill.
func (s *scheduleService) backfillSpan(req *fireoncev1.BackfillScheduleRequest) (from, until time.Time, err error) {
	if from, err = timeFromWire("start_time", req.GetStartTime()); err != nil {
		return from, until, err
	}
	if until, err = timeFromWire("end_time", req.GetEndTime()); err != nil {
		return from, until, err
	}
	switch now := s.cfg.Now(); {
	case until.After(now):
		return from, until, backfillRange("end_time", "end_time is in the future")
	case !from.Before(until):
		return from, until, backfillRange("end_time", "end_time must be after start_time")
	case from.Before(now.Add(-schedule.BackfillKept)):
		return from, until, backfillRange("start_time", fmt.Sprintf("start_time is more than %d days ago", int(schedule.BackfillKept/(24*time.Hour))))
	default:
		return from, until, nil
	}
}

func backfillRange(field, msg string) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_BACKFILL_RANGE, msg, "field", field)
}
