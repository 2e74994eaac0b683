package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/inflight"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/recur"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

const (
	defaultPreview = 10
	maxPreviewed   = 1000
	// maxPreviews bounds the previews that are computed concurrently, half of them for one project;
	// others wait for previewWait.
	maxPreviews = 2
	previewWait = 3 * time.Second
)

// PreviewSchedule implements the RPC.
func (s *scheduleService) PreviewSchedule(ctx context.Context, req *schedulesv1.PreviewScheduleRequest) (*schedulesv1.PreviewScheduleResponse, error) {
	hold, err := s.previews.Take(ctx, callerOf(ctx).project, 1)
	if errors.Is(err, inflight.ErrBusy) {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_SERVER_BUSY, "other previews are being computed; repeat the call unchanged")
	}
	if err != nil {
		return nil, err
	}
	defer hold.Release()
	from, err := timeFromWire("start_time", req.GetStartTime())
	if err != nil {
		return nil, err
	}
	until, err := timeFromWire("end_time", req.GetEndTime())
	if err != nil {
		return nil, err
	}
	n := cmp.Or(int(min(req.GetCount(), maxPreviewed)), defaultPreview)
	out := &schedulesv1.PreviewScheduleResponse{TzdataVersion: s.cfg.Scheduler.Zones().Version().Version}
	var list []schedule.Planned
	if spec := req.GetSpec(); spec != nil {
		if _, err := canonicalOrNil(partSpec, spec); err != nil {
			return nil, err
		}
		times, err := s.compile(ctx, job.ID{}, 1, spec)
		if err != nil {
			return nil, err
		}
		if list, out.More, err = s.previewed(ctx, times, nil, from, until, n, spec.GetMaxFirings()); err != nil {
			return nil, specCost(err)
		}
	} else if list, out.More, err = s.previewStored(ctx, req, from, until, n); err != nil {
		return nil, err
	}
	out.Firings = convertAll(list, plannedToWire)
	return out, nil
}

// previewed are the firings of times from an instant on, zero: from now on. limit, if it is
// set, bounds all firings. template is that of a stored schedule.
func (s *scheduleService) previewed(
	ctx context.Context, times *recur.Schedule, template *schedulesv1.JobTemplate, from, until time.Time, n int, limit int64,
) ([]schedule.Planned, bool, error) {
	if from.IsZero() {
		now, err := s.storeNow(ctx)
		if err != nil {
			return nil, false, err
		}
		from = now.Add(time.Nanosecond) // a time that is now has passed
	}
	most := fewest(n, limit)
	beats, more, err := schedule.Preview(ctx, times, from, until, most)
	if err != nil {
		return nil, false, err
	}
	return schedule.Due(beats, template), more && (len(beats) < most || most == n && int64(n) != limit), nil
}

// previewStored are the firings of a stored schedule, from where it stands or, by its present
// spec, from an instant on.
func (s *scheduleService) previewStored(ctx context.Context, req *schedulesv1.PreviewScheduleRequest, from, until time.Time, n int) ([]schedule.Planned, bool, error) {
	of, err := s.readSchedule(ctx, req)
	if err != nil {
		return nil, false, err
	}
	if from.IsZero() {
		now, err := s.storeNow(ctx)
		if err != nil {
			return nil, false, err
		}
		list, more, err := s.cfg.Scheduler.UpcomingUntil(ctx, of, now, until, n)
		if err != nil {
			return nil, false, evaluated(of, err)
		}
		return list, more, s.assign(ctx, of, list)
	}
	plan, err := s.cfg.Scheduler.Plan(of)
	if err != nil {
		return nil, false, evaluated(of, err)
	}
	list, more, err := s.previewed(ctx, plan.Times, plan.Template, from, until, n, 0)
	if err != nil {
		return nil, false, evaluated(of, err)
	}
	for i := range list {
		list[i].Skipped = slices.Contains(of.Skips, list[i].Name)
	}
	return list, more, s.assignLater(ctx, of, list)
}

// maxAssigned bounds the firings that are looked through for the items that later ones take.
const maxAssigned = 2 * maxPreviewed

// assignLater returns which items of a schedule's queue firings take that are not its next ones:
// those before them take items, too.
func (s *scheduleService) assignLater(ctx context.Context, of store.Schedule, list []schedule.Planned) error {
	if !of.Queued || len(list) == 0 {
		return nil
	}
	now, err := s.storeNow(ctx)
	if err != nil {
		return err
	}
	next, _, err := s.cfg.Scheduler.UpcomingUntil(ctx, of, now, list[len(list)-1].Instant.Add(time.Nanosecond), maxAssigned)
	if err != nil {
		return evaluated(of, err)
	}
	if err := s.assign(ctx, of, next); err != nil {
		return err
	}
	items := make(map[string]job.ID, len(next))
	for _, p := range next {
		items[p.Name] = p.Item
	}
	for i := range list {
		list[i].Item = items[list[i].Name]
	}
	return nil
}
