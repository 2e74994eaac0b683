package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/subscriptionsv1"
	"github.com/fireonce/fireonce/internal/proof/chaos/fleet"
)

// pageSize is that of lists.
const pageSize = 500

// history is what the service itself says in the end.
type history struct {
	// failed are the jobs that the log has as failed, in its order.
	failed []string
	// upTo is how many of them are before a cursor of a notice.
	upTo map[string]int
	// sent are the notices that the service lists, by number.
	sent map[int64]*subscriptionsv1.SentNotice
}

// quiet waits until the subscription has no notice under way.
func (s *side) quiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lastBy)
	defer cancel()
	for {
		var now *subscriptionsv1.Subscription
		if err := s.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
			resp, err := api.Subscriptions.GetSubscription(ctx, &subscriptionsv1.GetSubscriptionRequest{
				Subscription: &subscriptionsv1.GetSubscriptionRequest_SubscriptionId{SubscriptionId: s.subscription},
			})
			now = resp.GetSubscription()
			return err
		}); err != nil {
			return err
		}
		if !now.GetUnderWay() && now.GetFailedNoticeNumber() == 0 {
			return nil
		}
		if fleet.Pause(ctx, askEach); ctx.Err() != nil {
			return fmt.Errorf("notice %d has no outcome, %s: %w", now.GetLastNoticeNumber(), now.GetLastError(), ctx.Err())
		}
	}
}

// history reads the log of events and the notices, once nothing is under way.
func (s *side) history(ctx context.Context, notices []notice) (*history, error) {
	h := &history{upTo: make(map[string]int), sent: make(map[int64]*subscriptionsv1.SentNotice)}
	// A notice's cursor may be that of no event: its place is before what is listed after it.
	before := make(map[string][]string) // by the cursor of the event that follows
	for _, n := range notices {
		for _, cursor := range []string{n.body.Data.AfterCursor, n.body.Data.Cursor} {
			events, _, err := s.page(ctx, cursor, 1)
			if err != nil {
				return nil, err
			}
			next := ""
			if len(events) > 0 {
				next = events[0].GetCursor()
			}
			before[next] = append(before[next], cursor)
		}
	}
	for cursor, more := "", true; more; {
		events, next, err := s.page(ctx, cursor, pageSize)
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			for _, c := range before[e.GetCursor()] {
				h.upTo[c] = len(h.failed)
			}
			if c := e.GetJobChanged(); c.GetNewState() == fireoncev1.JobState_JOB_STATE_FAILED && c.GetOldState() != c.GetNewState() {
				h.failed = append(h.failed, c.GetJobId())
			}
		}
		cursor, more = next, next != ""
	}
	for _, c := range before[""] {
		h.upTo[c] = len(h.failed)
	}
	return h, s.listed(ctx, h)
}

// page lists events after a cursor. No next cursor: that was all.
func (s *side) page(ctx context.Context, after string, size int32) (events []*fireoncev1.JobEvent, next string, err error) {
	err = s.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
		for next = after; ; {
			resp, err := api.Jobs.ListJobEvents(ctx, &fireoncev1.ListJobEventsRequest{AfterCursor: next, PageSize: size})
			if err != nil {
				return err
			}
			if events, next = resp.GetEvents(), resp.GetNextCursor(); !resp.GetHasMore() {
				next = ""
				return nil
			}
			if len(events) > 0 { // a page may have none
				return nil
			}
		}
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the events: %w", err)
	}
	return events, next, nil
}

// listed reads the notices that the service lists.
func (s *side) listed(ctx context.Context, h *history) error {
	for token, more := "", true; more; more = token != "" {
		if err := s.fleet.Call(ctx, 0, func(ctx context.Context, api *fleet.API) error {
			resp, err := api.Subscriptions.ListNotices(ctx, &subscriptionsv1.ListNoticesRequest{
				Subscription: &subscriptionsv1.ListNoticesRequest_SubscriptionId{SubscriptionId: s.subscription}, PageSize: pageSize, PageToken: token,
			})
			if err != nil {
				return err
			}
			for _, n := range resp.GetNotices() {
				h.sent[n.GetNumber()] = n
			}
			token = resp.GetNextPageToken()
			return nil
		}); err != nil {
			return fmt.Errorf("list the notices: %w", err)
		}
	}
	return nil
}

// compare checks that notices have what the log has between their cursors, without a gap and in its
// order, and that each has an outcome.
func (h *history) compare(notices []notice, events int) error {
	known := make(map[string]bool)
	for _, id := range h.failed {
		known[id] = true
	}
	if len(h.failed) != events || len(known) != events {
		return fmt.Errorf("the log has %d failures of %d jobs, want %d", len(h.failed), len(known), events)
	}
	if len(h.sent) != len(notices) {
		return fmt.Errorf("the service lists %d notices, and %d came", len(h.sent), len(notices))
	}
	upTo := 0
	for _, n := range notices {
		d := n.body.Data
		after, to := h.upTo[d.AfterCursor], h.upTo[d.Cursor]
		if after != upTo || to <= after {
			return fmt.Errorf("notice %d is from failure %d to %d, the one before it was up to %d", d.Number, after, to, upTo)
		}
		upTo = to
		within := h.failed[after:to]
		count, _ := n.events()
		if count != len(within) {
			return fmt.Errorf("notice %d has %d failures, and the log has %d between its cursors", d.Number, count, len(within))
		}
		if d.Digest == nil && !slices.EqualFunc(d.Events, within, func(e event, id string) bool { return e.JobChanged.JobID == id }) {
			return fmt.Errorf("notice %d has not the order of the log", d.Number)
		}
		if d.Digest != nil {
			last := -1
			for _, e := range d.Digest.Examples {
				at := slices.Index(within, e.JobChanged.JobID)
				if at <= last {
					return fmt.Errorf("notice %d has the example %s at %d of its events, after one at %d", d.Number, e.JobChanged.JobID, at, last)
				}
				last = at
			}
		}
		if s := h.sent[d.Number]; s.GetOutcome() != fireoncev1.JobState_JOB_STATE_SUCCEEDED || s.GetEventCount() != int64(count) {
			return fmt.Errorf("notice %d has the outcome %v and %d events, it came with %d", d.Number, s.GetOutcome(), s.GetEventCount(), count)
		}
	}
	if upTo != events {
		return fmt.Errorf("the notices are up to failure %d of %d", upTo, events)
	}
	return nil
}
