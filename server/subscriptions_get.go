package server

import (
	"context"
	"fmt"
	"math"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/notice"
	"github.com/fireonce/fireonce/store"
)

// GetSubscription implements the RPC.
func (s *subscriptionService) GetSubscription(
	ctx context.Context, req *subscriptionsv1.GetSubscriptionRequest,
) (*subscriptionsv1.GetSubscriptionResponse, error) {
	found, err := s.readSubscription(ctx, req)
	if err != nil {
		return nil, err
	}
	out, err := s.subscriptionWire(ctx, found)
	return &subscriptionsv1.GetSubscriptionResponse{Subscription: out}, err
}

// ListSubscriptions implements the RPC.
func (s *subscriptionService) ListSubscriptions(
	ctx context.Context, req *subscriptionsv1.ListSubscriptionsRequest,
) (*subscriptionsv1.ListSubscriptionsResponse, error) {
	project := callerOf(ctx).project
	p, err := s.tokens.readPage(subscriptionPages, project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	limit := pageSize(req.GetPageSize())
	list, err := s.store.ListSubscriptions(ctx, project, p.after.id, limit)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list subscriptions: %w", err),
			refuse(fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID, "the subscription of page_token was erased", "field", "page_token"))
	}
	out := &subscriptionsv1.ListSubscriptionsResponse{}
	for _, one := range list {
		wire, err := s.subscriptionWire(ctx, one)
		if err != nil {
			return nil, err
		}
		out.Subscriptions = append(out.Subscriptions, wire)
	}
	if len(list) == limit {
		out.NextPageToken = p.nextToken(list[limit-1].ID, 0)
	}
	return out, nil
}

// ListNotices implements the RPC.
func (s *subscriptionService) ListNotices(
	ctx context.Context, req *subscriptionsv1.ListNoticesRequest,
) (*subscriptionsv1.ListNoticesResponse, error) {
	of, err := s.readSubscription(ctx, req)
	if err != nil {
		return nil, err
	}
	p, err := s.tokens.readPage(noticePages, of.Project, withoutPage(req), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	limit := pageSize(req.GetPageSize())
	list, err := s.store.Notices(ctx, store.Ref{Project: of.Project, ID: of.ID}, p.after.at, limit)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list notices: %w", err), subscriptionNotFound(store.Ref{ID: of.ID}))
	}
	out := &subscriptionsv1.ListNoticesResponse{}
	for _, n := range list {
		out.Notices = append(out.Notices, &subscriptionsv1.SentNotice{
			Number: n.Number, Kind: subscriptionsv1.NoticeKind(n.Kind), EventCount: n.Events, TryCount: int32(min(n.Tries, math.MaxInt32)),
			Outcome: stateToWire(n.Outcome), CreateTime: timeToWire(n.Made), EndTime: timeToWire(n.Ended),
			AfterCursor: s.NoticeCursor(of.Project, n.Incarnation, n.After), Cursor: s.NoticeCursor(of.Project, n.Incarnation, n.To),
		})
	}
	if len(list) == limit {
		out.NextPageToken = p.nextToken(job.ID{}, list[limit-1].Number)
	}
	return out, nil
}

// subscriptionWire converts a subscription.
func (s *subscriptionService) subscriptionWire(ctx context.Context, of store.Subscription) (*subscriptionsv1.Subscription, error) {
	spec, err := notice.SpecOf(of)
	if err != nil {
		return nil, err
	}
	keys, err := s.keys.keys(ctx, of.Project, []job.ID{of.Connection}, nil)
	if err != nil {
		return nil, err
	}
	out := &subscriptionsv1.Subscription{
		IdempotencyKey: of.Key, DisplayName: of.DisplayName, State: subscriptionsv1.SubscriptionState(of.State),
		PauseCause: subscriptionsv1.SubscriptionPauseCause(of.PauseCause), Note: text(of.Note), ConnectionKey: keys[of.Connection],
		Filter: spec.Stated.GetFilter(), Rules: spec.Stated.GetRules(), Target: spec.Stated.GetTarget(),
		IncludeContent: spec.Stated.GetIncludeContent(), LastNoticeNumber: of.Number, UnderWay: of.Open != 0,
		DeliveryTime: timeToWire(of.Delivered), FailureStartTime: timeToWire(of.Failing), FailedNoticeNumber: of.Failed,
		FailureCount: int32(min(of.Failures, math.MaxInt32)), LastError: text(of.LastError),
		SubscriptionId: idToWire(of.ID), ProjectId: of.Project, ConnectionId: idToWire(of.Connection),
		CreateTime: timeToWire(of.Created), UpdateTime: timeToWire(of.Updated), PauseTime: timeToWire(of.PausedAt),
		DeleteTime: timeToWire(of.Deleted), Creator: of.CreatedBy, Updater: of.UpdatedBy,
	}
	if of.State == store.SubscriptionActive {
		out.NextTime = timeToWire(of.Next)
	}
	if !of.ID.IsZero() {
		out.Etag = etagOf(of.ID, of.Version)
		out.Cursor = s.NoticeCursor(of.Project, of.Incarnation, of.Position)
	}
	return out, nil
}
