package server

import (
	"context"
	"fmt"
	"strconv"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/store"
)

// TestSubscription implements the RPC.
func (s *subscriptionService) TestSubscription(
	ctx context.Context, req *subscriptionsv1.TestSubscriptionRequest,
) (*subscriptionsv1.TestSubscriptionResponse, error) {
	out, err := s.ask(ctx, req, store.AskedTest, "a test of a subscription was asked for")
	return &subscriptionsv1.TestSubscriptionResponse{Subscription: out}, err
}

// ask notes what the next step of a subscription does first.
func (s *subscriptionService) ask(ctx context.Context, of subscriptionNamed, what int64, line string) (*subscriptionsv1.Subscription, error) {
	return s.changeSubscription(ctx, of, subscriptionChange{
		from: livingSubscriptions, what: line,
		inPlace: func(was store.Subscription) (bool, error) { return was.Asked == what, nil },
		change: func(_ context.Context, to *store.Subscription) error {
			if to.Asked != 0 {
				return subscriptionState(*to, "another test or redelivery waits")
			}
			to.Asked = what
			return nil
		},
	})
}

// RedeliverNotices implements the RPC.
func (s *subscriptionService) RedeliverNotices(
	ctx context.Context, req *subscriptionsv1.RedeliverNoticesRequest,
) (*subscriptionsv1.RedeliverNoticesResponse, error) {
	was, err := s.readSubscription(ctx, req)
	if err != nil {
		return nil, err
	}
	var out *subscriptionsv1.Subscription
	if number := req.GetNumber(); number > 0 {
		if err := s.hasNotice(ctx, was, number); err != nil {
			return nil, err
		}
		out, err = s.ask(ctx, req, number, "a notice is sent again")
	} else {
		out, err = s.goBack(ctx, req, was.Project)
	}
	return &subscriptionsv1.RedeliverNoticesResponse{Subscription: out}, err
}

// hasNotice refuses a notice that is no longer kept.
func (s *subscriptionService) hasNotice(ctx context.Context, of store.Subscription, number int64) error {
	list, err := s.store.Notices(ctx, store.Ref{Project: of.Project, ID: of.ID}, number+1, 1)
	if err != nil {
		return notFoundAs(fmt.Errorf("read the notice: %w", err), subscriptionNotFound(store.Ref{ID: of.ID}))
	}
	if len(list) == 0 || list[0].Number != number {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_NOTICE_NOT_FOUND, "the subscription has no notice "+strconv.FormatInt(number, 10)+", or it is no longer kept",
			"subscription_id", of.ID.String(), "number", strconv.FormatInt(number, 10))
	}
	return nil
}

// goBack makes a subscription tell all events after a cursor again.
func (s *subscriptionService) goBack(ctx context.Context, req *subscriptionsv1.RedeliverNoticesRequest, project string) (*subscriptionsv1.Subscription, error) {
	to, err := s.tokens.parseCursor(project, req.GetAfterCursor())
	if err != nil {
		return nil, err
	}
	if to.kind != logCursor {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_CURSOR_INVALID, "after_cursor is of one job's history", "field", "after_cursor")
	}
	log, err := logEnd(ctx, s.store, project)
	if err != nil {
		return nil, err
	}
	if to.incarnation != log.Incarnation || to.at < log.Begin {
		return nil, fmt.Errorf("redeliver: %w", store.ErrCursorExpired)
	}
	return s.changeSubscription(ctx, req, subscriptionChange{
		from: livingSubscriptions, what: "a subscription went back in the log",
		inPlace: func(was store.Subscription) (bool, error) {
			return was.Position == to.at && was.Incarnation == to.incarnation && was.Failed == 0, nil
		},
		change: func(_ context.Context, next *store.Subscription) error {
			next.Position, next.Incarnation, next.Memory = to.at, to.incarnation, nil
			return nil
		},
	})
}
