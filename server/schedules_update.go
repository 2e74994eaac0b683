package server

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/store"
)

// UpdateSchedule implements the RPC.
func (s *scheduleService) UpdateSchedule(ctx context.Context, req *schedulesv1.UpdateScheduleRequest) (*schedulesv1.UpdateScheduleResponse, error) {
	u, err := s.updateOf(ctx, req)
	if err != nil {
		return nil, err
	}
	after, err := s.change(ctx, req, scheduleChange{
		etag: req.GetEtag(), inPlace: u.inPlace, from: living, change: u.change, what: "a schedule was updated",
	})
	if err != nil {
		return nil, err
	}
	out, next, err := s.withNext(ctx, after)
	return &schedulesv1.UpdateScheduleResponse{Schedule: out, NextFirings: next}, err
}

// scheduleUpdate has the parts that a client wants a schedule to have.
type scheduleUpdate struct {
	schedules *scheduleService
	draft     scheduleDraft
	in        *validator
	name      *string
	labels    map[string]string // nil: left alone
}

// updateOf reads what update_mask names.
func (s *scheduleService) updateOf(ctx context.Context, req *schedulesv1.UpdateScheduleRequest) (*scheduleUpdate, error) {
	u := &scheduleUpdate{schedules: s, in: s.newValidator(ctx)}
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
			u.draft.spec = req.GetSpec()
			_, err = canonicalOrNil(path, req.GetSpec())
		case partPolicies:
			if u.draft.policies = req.GetPolicies(); u.draft.policies == nil {
				u.draft.policies = &schedulesv1.SchedulePolicies{}
			}
			_, err = canonicalOrNil(path, req.GetPolicies())
		case partTemplate:
			u.draft.template = req.GetJobTemplate()
			if _, err = canonicalOrNil(path, req.GetJobTemplate()); err == nil {
				err = u.draft.resolve(ctx, u.in)
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
	named := u.draft.unnamed == nil
	switch {
	case u.name != nil && *u.name != was.DisplayName,
		u.labels != nil && !maps.Equal(u.labels, was.Labels),
		u.draft.spec != nil && !proto.Equal(u.draft.spec, now.GetSpec()),
		u.draft.template != nil && (!named || !proto.Equal(u.draft.template, now.GetJobTemplate())),
		u.draft.policies != nil && !proto.Equal(policiesInForce(u.draft.policies, now.GetSpec()), now.GetPolicies()):
		return false, nil
	default:
		return true, nil
	}
}

// change makes of a schedule what is wanted. Only another spec moves its position in time.
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
		if err := u.schedules.passDue(ctx, c, "The schedule's spec was changed."); err != nil {
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
	times, err := u.schedules.compile(ctx, to.ID, to.Generation, spec)
	if err != nil {
		return err
	}
	if d.spec != nil {
		to.Skips = nil
		from, err := u.schedules.passed(ctx, *to)
		if err != nil {
			return err
		}
		if err := u.schedules.begin(ctx, c, times, spec.GetMaxFirings(), from); err != nil {
			return err
		}
	}
	if d.template != nil {
		if err := u.schedules.checkTemplate(ctx, u.in, *to, times, d); err != nil {
			return err
		}
		to.Connection = d.conn
	}
	return d.encode(to)
}
