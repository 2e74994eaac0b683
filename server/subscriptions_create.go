package server

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/notice"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - the key comes before everything that may change between two tries, as in jobs_schedule.go;
//   - a subscription is stored with the ids of what its filter names by key, and its connection is
//     checked as a notice will be made for it. What changes later fails the notice, visibly.

// subscriptionDraft is what a request wants a subscription to be.
type subscriptionDraft struct {
	stated *subscriptionsv1.Subscription
	conn   job.ID
	named  store.Ref
	// refused is why it cannot be stored, apart from its key.
	refused error
}

// CreateSubscription implements the RPC.
func (s *subscriptionService) CreateSubscription(
	ctx context.Context, req *subscriptionsv1.CreateSubscriptionRequest,
) (*subscriptionsv1.CreateSubscriptionResponse, error) {
	if err := notReserved(req.GetIdempotencyKey(), ""); err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	d, err := s.draft(ctx, req, &subscriptionsv1.Subscription{
		Filter: req.GetFilter(), Rules: req.GetRules(), Target: req.GetTarget(), IncludeContent: req.GetIncludeContent(),
	})
	if err != nil {
		return nil, err
	}
	want, err := subscriptionPrint(req, d.conn)
	if err != nil {
		return nil, err
	}
	fresh := store.Subscription{
		ID: s.cfg.NewID(), Project: who.project, Key: req.GetIdempotencyKey(), DisplayName: req.GetDisplayName(),
		Connection: d.conn, CreatedBy: who.actor, Fingerprint: want,
	}
	if d.refused != nil || req.GetValidateOnly() {
		return s.validated(ctx, d, fresh)
	}
	if fresh.Spec, err = notice.EncodeSpec(d.stated); err != nil {
		return nil, err
	}
	if f, r := req.GetFilter(), req.GetRules(); f.GetHolds() || r.GetSilence() != nil {
		fresh.Next = s.cfg.Now() // its first step needs no event
	}
	if len(fresh.Spec) > store.MaxSubscriptionSpec {
		return nil, refuse(fireoncev1.ErrorReason_ERROR_REASON_REQUEST_TOO_LARGE, "the filter and the rules are too large")
	}
	stored, created, err := s.store.CreateSubscription(ctx, store.NewSubscription{
		Subscription: fresh, Most: s.quotas.limit(fresh.Project, QuotaSubscriptions),
	})
	if err := s.quotaFault(err, fresh.Project, QuotaSubscriptions); err != nil {
		return nil, fmt.Errorf("store the subscription: %w", err)
	}
	if !created {
		return s.repeated(ctx, d, want, stored)
	}
	s.logSubscription(ctx, "a subscription was created", stored)
	out, err := s.subscriptionWire(ctx, stored)
	return &subscriptionsv1.CreateSubscriptionResponse{Subscription: out, Created: true}, err
}

// draft resolves what a request names, and checks it.
func (s *subscriptionService) draft(ctx context.Context, req connectionOwned, stated *subscriptionsv1.Subscription) (subscriptionDraft, error) {
	d := subscriptionDraft{stated: stated}
	var err error
	if d.named, err = ownerRef(callerOf(ctx).project, req); err != nil {
		return d, err
	}
	if d.conn, d.refused = s.connectionID(ctx, d.named); d.refused == nil {
		d.refused = s.check(ctx, d.conn, d.named, stated)
	}
	if d.refused != nil && !ofItem(d.refused) {
		return d, d.refused
	}
	return d, nil
}

// check refuses a subscription that cannot be. It puts ids in the place of the filter's keys.
func (s *subscriptionService) check(ctx context.Context, id job.ID, named store.Ref, stated *subscriptionsv1.Subscription) error {
	who := callerOf(ctx)
	if stated.GetIncludeContent() && !who.has(ScopePayloadsRead) {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING,
			"include_content needs the scope "+ScopePayloadsRead, "scope", ScopePayloadsRead)
	}
	if err := s.filterByID(ctx, who.project, stated); err != nil {
		return err
	}
	switch r := stated.GetRules(); {
	case !stated.GetFilter().GetHolds():
	case !proto.Equal(r, &subscriptionsv1.NoticeRules{}) && r != nil:
		return badField("rules", "notice_filter.holds", "must be empty with filter.holds")
	case notice.ReportsItself(stated, id):
		return cannotCarry(id, errors.New("a connection that is on hold cannot report that: name another one to send by"))
	}
	conn, err := s.connections.connection(ctx, who.project, id)
	if err != nil {
		return notFoundAs(fmt.Errorf("read the connection: %w", err), ofConnection.noConnection(named))
	}
	if !conn.Deleted.IsZero() {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED, "connection "+conn.ID.String()+" was deleted", "connection_id", conn.ID.String())
	}
	err = notice.Check(s.cfg.Connectors, *conn, stated.GetTarget(), s.cfg.NewID())
	if cannot, ok := errors.AsType[*notice.CannotCarryError](err); ok {
		return cannotCarry(conn.ID, cannot)
	}
	if err != nil {
		return fmt.Errorf("check the connection: %w", err)
	}
	return nil
}

// cannotCarry is the error for a connection that cannot send notices.
func cannotCarry(conn job.ID, why error) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SUBSCRIPTION_CONNECTION, why.Error(), "connection_id", conn.String())
}

// filterByID replaces the keys of a filter by ids.
func (s *subscriptionService) filterByID(ctx context.Context, project string, stated *subscriptionsv1.Subscription) error {
	if stated.GetFilter() == nil {
		return nil
	}
	f := proto.CloneOf(stated.GetFilter())
	connections, err := idsFromWire("filter.connection_ids", f.GetConnectionIds())
	if err == nil {
		connections, err = s.addNamedConnections(ctx, project, connections, f.GetConnectionKeys())
	}
	if err != nil {
		return err
	}
	schedules, err := idsFromWire("filter.schedule_ids", f.GetScheduleIds())
	if err != nil {
		return err
	}
	for _, key := range f.GetScheduleKeys() {
		id, err := s.namedSchedule(ctx, project, job.ID{}, key)
		if err != nil {
			return err
		}
		schedules = append(schedules, id)
	}
	f.ConnectionIds, f.ConnectionKeys = convertAll(connections, idToWire), nil
	f.ScheduleIds, f.ScheduleKeys = convertAll(schedules, idToWire), nil
	stated.Filter = f
	return nil
}

// validated answers a request that is not to be stored: its key may be bound.
func (s *subscriptionService) validated(
	ctx context.Context, d subscriptionDraft, fresh store.Subscription,
) (*subscriptionsv1.CreateSubscriptionResponse, error) {
	bound, err := s.store.Subscription(ctx, store.Ref{Project: fresh.Project, Key: fresh.Key})
	switch {
	case err == nil:
		return s.repeated(ctx, d, fresh.Fingerprint, bound)
	case !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("look up the key: %w", err)
	case d.refused != nil:
		return nil, d.refused
	}
	fresh.ID, fresh.State = job.ID{}, store.SubscriptionActive
	if fresh.Spec, err = notice.EncodeSpec(d.stated); err != nil {
		return nil, err
	}
	out, err := s.subscriptionWire(ctx, fresh)
	return &subscriptionsv1.CreateSubscriptionResponse{Subscription: out}, err
}

// repeated answers a request whose key is bound: with the subscription that the same request made,
// as it is now, else with the fields that differ.
func (s *subscriptionService) repeated(
	ctx context.Context, d subscriptionDraft, want job.Fingerprint, bound store.Subscription,
) (*subscriptionsv1.CreateSubscriptionResponse, error) {
	differ := want.Diff(bound.Fingerprint)
	for i, field := range differ {
		if field == ofConnection.id {
			differ[i] = ofConnection.field(d.named)
		}
	}
	if len(differ) > 0 {
		return nil, keyReused(&fireoncev1.IdempotencyConflict{
			Holder: &fireoncev1.IdempotencyConflict_SubscriptionId{SubscriptionId: idToWire(bound.ID)}, MismatchedFields: differ,
		})
	}
	out, err := s.subscriptionWire(ctx, bound)
	return &subscriptionsv1.CreateSubscriptionResponse{Subscription: out}, err
}
