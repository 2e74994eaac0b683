package server

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/notice"
	"github.com/fireonce/fireonce/store"
)

// UpdateSubscription implements the RPC.
func (s *subscriptionService) UpdateSubscription(
	ctx context.Context, req *subscriptionsv1.UpdateSubscriptionRequest,
) (*subscriptionsv1.UpdateSubscriptionResponse, error) {
	var next []byte
	name := func(was store.Subscription) string {
		for _, path := range req.GetUpdateMask().GetPaths() {
			if path == partName {
				return req.GetDisplayName()
			}
		}
		return was.DisplayName
	}
	out, err := s.changeSubscription(ctx, req, subscriptionChange{
		etag: req.GetEtag(), from: livingSubscriptions, what: "a subscription was updated",
		inPlace: func(was store.Subscription) (bool, error) {
			if was.State == store.SubscriptionDeleted {
				return false, nil
			}
			stated, err := s.updated(ctx, was, req)
			if err != nil {
				return false, err
			}
			if next, err = notice.EncodeSpec(stated); err != nil {
				return false, err
			}
			return string(next) == string(was.Spec) && name(was) == was.DisplayName, nil
		},
		change: func(ctx context.Context, to *store.Subscription) error {
			stated, err := s.updated(ctx, *to, req)
			if err == nil {
				err = s.check(ctx, to.Connection, store.Ref{ID: to.Connection}, stated)
			}
			to.Spec, to.DisplayName = next, name(*to)
			if to.State == store.SubscriptionActive && to.Failed == 0 && to.Open == 0 {
				// The new rules decide when what was collected is reported.
				to.OnlyThen, to.Next = false, to.Created
			}
			return err
		},
	})
	return &subscriptionsv1.UpdateSubscriptionResponse{Subscription: out}, err
}

// updated returns what a subscription says after an update.
func (s *subscriptionService) updated(
	ctx context.Context, was store.Subscription, req *subscriptionsv1.UpdateSubscriptionRequest,
) (*subscriptionsv1.Subscription, error) {
	spec, err := notice.SpecOf(was)
	if err != nil {
		return nil, err
	}
	out := proto.CloneOf(spec.Stated)
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case partName:
		case "filter":
			if req.GetFilter().GetHolds() != spec.Stated.GetFilter().GetHolds() {
				return nil, badField("filter.holds", "notice_filter.holds", "cannot be changed: make another subscription")
			}
			out.Filter = req.GetFilter()
		case "rules":
			out.Rules = req.GetRules()
		case "target":
			out.Target = req.GetTarget()
		case "include_content":
			out.IncludeContent = req.GetIncludeContent()
		default:
			return nil, badField("update_mask", "update_mask.path", "must name display_name, filter, rules, target or include_content")
		}
	}
	return out, s.filterByID(ctx, was.Project, out)
}
