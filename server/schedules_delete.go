package server

import (
	"context"

	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/store"
)

// DeleteSchedule implements the RPC.
func (s *scheduleService) DeleteSchedule(ctx context.Context, req *schedulesv1.DeleteScheduleRequest) (*schedulesv1.DeleteScheduleResponse, error) {
	out, err := s.changeSchedule(ctx, req, scheduleChange{
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
	return &schedulesv1.DeleteScheduleResponse{Schedule: out}, err
}
