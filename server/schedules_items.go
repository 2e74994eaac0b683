package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/internal/submit"
	"github.com/fireonce/fireonce/server/wire"
	"github.com/fireonce/fireonce/store"
)

// Rules of this file:
//   - content is checked when it is added, as that of a job of the schedule's connection. An
//     item that is refused later, when its turn comes, stops nothing;
//   - its bytes count against the project's quota, as those of the job that it becomes;
//   - what is in place already succeeds before the etag is compared.

// maxLabels bounds the labels of a job.
const maxLabels = 32

// subjectOfItem is the schedule that an item belongs to.
var subjectOfItem = names{"schedule_id", "schedule_key"}

// itemOwned is a request about items of a schedule.
type itemOwned interface {
	GetScheduleId() string
	GetScheduleKey() string
}

// itemNamed is a request about one item.
type itemNamed interface {
	itemOwned
	GetItemId() string
	GetEtag() string
}

// scheduleOfItems reads the schedule of a request about items.
func (s *scheduleService) scheduleOfItems(ctx context.Context, req itemOwned) (store.Schedule, error) {
	return s.scheduleNamed(ctx, subjectOfItem, req.GetScheduleId(), req.GetScheduleKey())
}

// itemContent is the content of an item, in a form to store.
type itemContent struct {
	store.ItemContent
	print job.Fingerprint
}

// contentOfItem reads the content of an item, without checking whether it can be sent.
func contentOfItem(payload *fireoncev1.Payload, labels map[string]string) (out itemContent, err error) {
	enc, err := canonicalOrNil("payload", payload)
	if err != nil {
		return out, err
	}
	out.print.Set("payload", enc)
	var named []byte
	if len(labels) > 0 {
		if named, err = wire.Canonical((&schedulesv1.ScheduleItem{Labels: labels}).ProtoReflect()); err != nil {
			return out, err
		}
	}
	out.print.Set("labels", named)
	out.Labels = labels
	if out.PayloadKind, out.Payload, err = submit.Payload(payload); err != nil {
		return out, err
	}
	return out, checkSize(out.Payload)
}

// checkContent checks whether the content of an item can be a job of its schedule.
func (s *scheduleService) checkContent(ctx context.Context, of store.Schedule, c itemContent) error {
	switch {
	case of.State == store.ScheduleDeleted:
		return scheduleState(of, "the schedule was deleted")
	case !of.Queued:
		return scheduleState(of, "its job_template has no queue")
	}
	template := &schedulesv1.JobTemplate{}
	if err := proto.Unmarshal(of.Template, template); err != nil {
		return fmt.Errorf("read the stored template of schedule %s: %w", of.ID, err)
	}
	if n := len(schedule.Labels(template, c.Labels)); n > maxLabels {
		return refuse(fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID,
			fmt.Sprintf("with those of the schedule's job_template there are %d labels, at most %d are allowed", n, maxLabels),
			"field", "labels", "limit", strconv.Itoa(maxLabels))
	}
	in := s.newValidator(ctx)
	conn, err := in.connection(ctx, of.Connection, store.Ref{Project: of.Project, ID: of.Connection})
	if err != nil {
		return err
	}
	_, err = in.prepare(ctx, conn, job.Spec{
		Project: of.Project, Key: store.FiringKey(of.ID, "item"), Connection: conn.ID, PayloadKind: c.PayloadKind, Payload: c.Payload,
	}, store.Ref{})
	return err
}

// itemQuota returns the fault for a queue that is full.
func itemQuota(of store.Schedule, err error) error {
	var full *store.QuotaError
	if !errors.As(err, &full) {
		return err
	}
	name := quotaItems
	if full.Limit == store.MaxItemsBytes {
		name = quotaItemBytes
	}
	f := overQuota(name, full.Used, full.Limit)
	f.metadata["schedule_id"] = of.ID.String()
	return f
}

// AddScheduleItem implements the RPC.
func (s *scheduleService) AddScheduleItem(ctx context.Context, req *schedulesv1.AddScheduleItemRequest) (*schedulesv1.AddScheduleItemResponse, error) {
	of, err := s.scheduleOfItems(ctx, req)
	if err != nil {
		return nil, err
	}
	content, bad := contentOfItem(req.GetPayload(), req.GetLabels())
	bound, err := s.store.Item(ctx, store.ItemRef{Project: of.Project, Schedule: of.ID, Key: req.GetIdempotencyKey()})
	switch {
	case err == nil && bad == nil:
		return s.repeatedItem(of, content, bound)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("look up the key: %w", err)
	case bad != nil:
		return nil, bad
	}
	if err := s.checkContent(ctx, of, content); err != nil {
		return nil, err
	}
	in := s.newValidator(ctx)
	defer in.settle()
	if err := in.count(ctx, store.StoredJobs{Bytes: int64(len(content.Payload))}); err != nil {
		return nil, err
	}
	item, created, err := s.store.AddItem(ctx, store.NewItem{Project: of.Project, Front: req.GetAtFront(), Item: store.ScheduleItem{
		ID: s.cfg.NewID(), Schedule: of.ID, Key: req.GetIdempotencyKey(), Fingerprint: content.print, Payload: content.Payload,
		PayloadKind: content.PayloadKind, Labels: content.Labels, CreatedBy: callerOf(ctx).actor,
	}})
	if created || errors.Is(err, store.ErrUnconfirmed) {
		in.kept = in.taken
	}
	if errors.Is(err, store.ErrIllegal) {
		of.State = store.ScheduleDeleted // since it was read
		return nil, scheduleState(of, "the schedule was deleted")
	}
	if err != nil {
		return nil, notFoundAs(itemQuota(of, fmt.Errorf("store the item: %w", err)), scheduleNotFound(store.Ref{ID: of.ID}))
	}
	if !created {
		return s.repeatedItem(of, content, item)
	}
	s.logScheduleChange(ctx, "an item was added", of, "item_id", item.ID.String())
	wire, err := itemToWire(of, item)
	return &schedulesv1.AddScheduleItemResponse{Item: wire, Created: true}, err
}

// repeatedItem answers a request whose key is bound, or refuses it as another one.
func (s *scheduleService) repeatedItem(of store.Schedule, want itemContent, bound store.ScheduleItem) (*schedulesv1.AddScheduleItemResponse, error) {
	if differ := want.print.Diff(bound.Fingerprint); len(differ) > 0 {
		return nil, keyReused(&fireoncev1.IdempotencyConflict{
			Holder: &fireoncev1.IdempotencyConflict_ScheduleId{ScheduleId: idToWire(bound.Schedule)}, MismatchedFields: differ,
		})
	}
	wire, err := itemToWire(of, bound)
	return &schedulesv1.AddScheduleItemResponse{Item: wire}, err
}

// itemToWire converts an item of a schedule.
func itemToWire(of store.Schedule, i store.ScheduleItem) (*schedulesv1.ScheduleItem, error) {
	out := &schedulesv1.ScheduleItem{
		ScheduleId: idToWire(i.Schedule), ScheduleKey: of.Key, ItemId: idToWire(i.ID), IdempotencyKey: i.Key, Labels: maps.Clone(i.Labels),
		State: schedulesv1.ScheduleItemState(i.State), Position: int32(i.Position), FiringName: i.Firing, JobId: idToWire(i.Job),
		RefuseReason: text(i.Reason), CreateTime: timeToWire(i.Created), CreatedBy: i.CreatedBy, UpdateTime: timeToWire(i.Updated),
		Etag: etagOf(i.ID, i.Version),
	}
	if i.Payload == nil {
		return out, nil
	}
	out.Payload = &fireoncev1.Payload{}
	if err := proto.Unmarshal(i.Payload, out.Payload); err != nil {
		return nil, fmt.Errorf("read the stored item %s: %w", i.ID, err)
	}
	return out, nil
}

// lowestPosition makes the positions of waiting items, which may be negative, numbers of a token.
const lowestPosition = 1 << 61

// ListScheduleItems implements the RPC.
func (s *scheduleService) ListScheduleItems(ctx context.Context, req *schedulesv1.ListScheduleItemsRequest) (*schedulesv1.ListScheduleItemsResponse, error) {
	of, err := s.scheduleOfItems(ctx, req)
	if err != nil {
		return nil, err
	}
	p, after, err := s.itemPage(of, req)
	if err != nil {
		return nil, err
	}
	q := store.ItemQuery{
		Project: of.Project, Schedule: of.ID, Limit: pageSize(req.GetPageSize()), After: after,
		States:   castAll[store.ItemState](req.GetStates()),
		Payloads: req.GetIncludePayloads() && callerOf(ctx).has(ScopePayloadsRead),
	}
	page, err := s.store.Items(ctx, q)
	if err != nil {
		return nil, notFoundAs(fmt.Errorf("list items: %w", err), scheduleNotFound(store.Ref{ID: of.ID}))
	}
	out := &schedulesv1.ListScheduleItemsResponse{Waiting: int32(page.Waiting)}
	for _, i := range page.Items {
		wire, err := itemToWire(of, i)
		if err != nil {
			return nil, err
		}
		withheld := i.State == store.ItemWaiting || i.State == store.ItemRefused
		wire.ContentWithheld = withheld && req.GetIncludePayloads() && !q.Payloads
		out.Items = append(out.Items, wire)
	}
	switch next := page.Next; {
	case next.IsZero():
	case next.Ended:
		p.kind = endedItemPages
		out.NextPageToken = p.tokenAfter(next.ID, next.At)
	default:
		p.kind = itemPages
		out.NextPageToken = p.tokenAfter(next.ID, next.At+lowestPosition)
	}
	return out, nil
}

// itemPage reads a page token of items, of whichever part of the list.
func (s *scheduleService) itemPage(of store.Schedule, req *schedulesv1.ListScheduleItemsRequest) (pager, store.ItemPlace, error) {
	query := &schedulesv1.ListScheduleItemsRequest{
		Schedule: &schedulesv1.ListScheduleItemsRequest_ScheduleId{ScheduleId: idToWire(of.ID)}, States: req.GetStates(),
	}
	p, err := s.tokens.readPage(endedItemPages, of.Project, query, req.GetPageToken())
	if err == nil && req.GetPageToken() != "" {
		return p, store.ItemPlace{Ended: true, At: p.after.at, ID: p.after.id}, nil
	}
	p, err = s.tokens.readPage(itemPages, of.Project, query, req.GetPageToken())
	if err != nil || req.GetPageToken() == "" {
		return p, store.ItemPlace{}, err
	}
	return p, store.ItemPlace{At: p.after.at - lowestPosition, ID: p.after.id}, nil
}

// itemChange is a change of one item that a client asks for.
type itemChange struct {
	// inPlace reports whether an item of a schedule has the change already.
	inPlace func(of store.Schedule, was store.ScheduleItem) (bool, error)
	// from are the states that it can be changed in.
	from store.ItemState
	// check refuses an impossible change.
	check  func(of store.Schedule, was store.ScheduleItem) error
	change store.ItemChange
	what   string
}

// changeItem makes a change of the item that a request is about.
func (s *scheduleService) changeItem(ctx context.Context, req itemNamed, r itemChange) (*schedulesv1.ScheduleItem, error) {
	of, err := s.scheduleOfItems(ctx, req)
	if err != nil {
		return nil, err
	}
	id, err := idFromWire("item_id", req.GetItemId())
	if err != nil {
		return nil, err
	}
	ref := store.ItemRef{Project: of.Project, Schedule: of.ID, ID: id}
	after, err := decideAgain(func() (store.ScheduleItem, error) {
		was, err := s.store.Item(ctx, ref)
		if err != nil {
			return was, notFoundAs(fmt.Errorf("read the item: %w", err), itemNotFound(of, id))
		}
		if done, err := r.inPlace(of, was); err != nil || done {
			return was, err
		}
		if err := checkEtag(req.GetEtag(), "item", id, was.Version); err != nil {
			return was, err
		}
		if was.State != store.ItemWaiting && was.State != r.from {
			return was, itemState(was)
		}
		if r.check != nil {
			if err := r.check(of, was); err != nil {
				return was, err
			}
		}
		r.change.Ref, r.change.Version, r.change.Actor = ref, was.Version, callerOf(ctx).actor
		after, err := s.store.ChangeItem(ctx, r.change)
		switch {
		case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrIllegal):
			return was, store.ErrStale
		case err != nil:
			return was, notFoundAs(itemQuota(of, fmt.Errorf("change the item: %w", err)), itemNotFound(of, id))
		}
		s.logScheduleChange(ctx, r.what, of, "item_id", id.String())
		return after, nil
	}, itemState)
	if err != nil {
		return nil, err
	}
	return itemToWire(of, after)
}

func itemNotFound(of store.Schedule, id job.ID) *fault {
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_ITEM_NOT_FOUND,
		fmt.Sprintf("schedule %s has no item %s", of.ID, id), "schedule_id", of.ID.String(), "item_id", id.String())
}

// itemState is the error for a change that an item's state does not allow.
func itemState(i store.ScheduleItem) error {
	name := schedulesv1.ScheduleItemState(i.State).String()[len("SCHEDULE_ITEM_STATE_"):]
	return refuse(fireoncev1.ErrorReason_ERROR_REASON_SCHEDULE_ITEM_STATE,
		fmt.Sprintf("not possible with item %s, which is %s", i.ID, name), "item_id", i.ID.String(), "state", name)
}

// UpdateScheduleItem implements the RPC.
func (s *scheduleService) UpdateScheduleItem(ctx context.Context, req *schedulesv1.UpdateScheduleItemRequest) (*schedulesv1.UpdateScheduleItemResponse, error) {
	content, err := contentOfItem(req.GetPayload(), req.GetLabels())
	if err != nil {
		return nil, err
	}
	out, err := s.changeItem(ctx, req, itemChange{
		from: store.ItemWaiting, what: "an item was changed", change: store.ItemChange{Content: &content.ItemContent},
		inPlace: func(_ store.Schedule, was store.ScheduleItem) (bool, error) {
			return was.State == store.ItemWaiting && bytes.Equal(was.Payload, content.Payload) && maps.Equal(was.Labels, content.Labels), nil
		},
		check: func(of store.Schedule, was store.ScheduleItem) error {
			if err := s.checkContent(ctx, of, content); err != nil {
				return err
			}
			return s.admission.takeGrowth(ctx, of.Project, len(content.Payload)-len(was.Payload))
		},
	})
	return &schedulesv1.UpdateScheduleItemResponse{Item: out}, err
}

// MoveScheduleItem implements the RPC.
func (s *scheduleService) MoveScheduleItem(ctx context.Context, req *schedulesv1.MoveScheduleItemRequest) (*schedulesv1.MoveScheduleItemResponse, error) {
	before, err := idFromWire("before_item_id", req.GetBeforeItemId())
	if err != nil {
		return nil, err
	}
	to := store.ItemTarget{Front: req.GetFront(), Before: before}
	out, err := s.changeItem(ctx, req, itemChange{
		from: store.ItemWaiting, what: "an item was moved", change: store.ItemChange{To: &to},
		inPlace: func(of store.Schedule, was store.ScheduleItem) (bool, error) { return s.isAt(ctx, of, was, to) },
	})
	return &schedulesv1.MoveScheduleItemResponse{Item: out}, err
}

// isAt reports whether an item is where it is to go. It refuses a position before an item that
// does not wait.
func (s *scheduleService) isAt(ctx context.Context, of store.Schedule, was store.ScheduleItem, to store.ItemTarget) (bool, error) {
	if was.State != store.ItemWaiting {
		return false, nil
	}
	if to.Before.IsZero() {
		page, err := s.store.Items(ctx, store.ItemQuery{
			Project: of.Project, Schedule: of.ID, States: []store.ItemState{store.ItemWaiting}, Limit: 1,
		})
		return to.Front && was.Position == 1 || !to.Front && was.Position == page.Waiting, err
	}
	before, err := s.store.Item(ctx, store.ItemRef{Project: of.Project, Schedule: of.ID, ID: to.Before})
	switch {
	case err != nil:
		return false, notFoundAs(fmt.Errorf("read the item: %w", err), itemNotFound(of, to.Before))
	case before.State != store.ItemWaiting:
		return false, itemState(before)
	default:
		return before.Position == was.Position+1 || before.ID == was.ID, nil
	}
}

// RemoveScheduleItem implements the RPC.
func (s *scheduleService) RemoveScheduleItem(ctx context.Context, req *schedulesv1.RemoveScheduleItemRequest) (*schedulesv1.RemoveScheduleItemResponse, error) {
	out, err := s.changeItem(ctx, req, itemChange{
		from: store.ItemRefused, what: "an item was removed", change: store.ItemChange{Remove: true},
		inPlace: func(_ store.Schedule, was store.ScheduleItem) (bool, error) {
			return was.State == store.ItemRemoved, nil
		},
	})
	return &schedulesv1.RemoveScheduleItemResponse{Item: out}, err
}
