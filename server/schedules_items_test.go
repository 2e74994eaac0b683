package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/clients/go/schedulesv1"
	"github.com/fireonce/fireonce/internal/schedule"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// fromQueue takes a schedule's content from its queue.
func fromQueue(r *createScheduleRequest) {
	r.JobTemplate.Content = &schedulesv1.JobTemplate_Queue{Queue: &schedulesv1.QueueContent{}}
}

func addItem(of, key string, p *fireoncev1.Payload) *schedulesv1.AddScheduleItemRequest {
	return &schedulesv1.AddScheduleItemRequest{
		Schedule: &schedulesv1.AddScheduleItemRequest_ScheduleId{ScheduleId: of}, IdempotencyKey: key, Payload: p,
	}
}

func removeItem(i *schedulesv1.ScheduleItem) *schedulesv1.RemoveScheduleItemRequest {
	return &schedulesv1.RemoveScheduleItemRequest{
		Schedule: &schedulesv1.RemoveScheduleItemRequest_ScheduleId{ScheduleId: i.GetScheduleId()}, ItemId: i.GetItemId(),
	}
}

// moveItem moves an item before another one, or to the end.
func moveItem(i, before *schedulesv1.ScheduleItem) *schedulesv1.MoveScheduleItemRequest {
	r := &schedulesv1.MoveScheduleItemRequest{
		Schedule: &schedulesv1.MoveScheduleItemRequest_ScheduleId{ScheduleId: i.GetScheduleId()}, ItemId: i.GetItemId(),
		To: &schedulesv1.MoveScheduleItemRequest_End{End: true},
	}
	if before != nil {
		r.To = &schedulesv1.MoveScheduleItemRequest_BeforeItemId{BeforeItemId: before.GetItemId()}
	}
	return r
}

func (f *fixture) addItem(c client, of, key string, p *fireoncev1.Payload) *schedulesv1.AddScheduleItemResponse {
	f.tb.Helper()
	res, err := askWith[schedulesv1.AddScheduleItemResponse](f.tb.Context(), c, schedsPath+"AddScheduleItem", addItem(of, key, p))
	f.must(err)
	return res
}

func (f *fixture) listItems(c client, of string, edit func(*schedulesv1.ListScheduleItemsRequest)) []*schedulesv1.ScheduleItem {
	f.tb.Helper()
	r := &schedulesv1.ListScheduleItemsRequest{Schedule: &schedulesv1.ListScheduleItemsRequest_ScheduleId{ScheduleId: of}}
	edit(r)
	var out []*schedulesv1.ScheduleItem
	for range 20 {
		res, err := askWith[schedulesv1.ListScheduleItemsResponse](f.tb.Context(), c, schedsPath+"ListScheduleItems", r)
		f.must(err)
		out = append(out, res.GetItems()...)
		if r.PageToken = res.GetNextPageToken(); r.PageToken == "" {
			return out
		}
	}
	f.tb.Fatal("the list has no end")
	return nil
}

func keysOf(items []*schedulesv1.ScheduleItem) (keys []string) {
	for _, i := range items {
		keys = append(keys, i.GetIdempotencyKey())
	}
	return keys
}

// TestQuotaOfItems: waiting items count as stored jobs do, once, and no longer when they are
// removed.
func TestQuotaOfItems(t *testing.T) {
	f := start(t, limitedTo("bytes=1000"))
	c := overGRPC(f)
	id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue)).GetScheduleId()
	of := func(n int) *fireoncev1.Payload { return custom("good/v1", strings.Repeat("x", n)) }
	add := func(key string, n int) error {
		_, err := askWith[schedulesv1.AddScheduleItemResponse](t.Context(), c, schedsPath+"AddScheduleItem", addItem(id, key, of(n)))
		return err
	}
	first := f.addItem(c, id, "a", of(700)).GetItem()
	wantReason(t, add("b", 400), quotaExceeded)
	_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("b", func(r *scheduleRequest) { r.Payload = of(400) }))
	wantReason(t, err, quotaExceeded)
	for range 3 { // a repeat adds nothing
		f.addItem(c, id, "a", of(700))
	}
	f.must(add("b", 100))
	change := func(n int) error {
		_, err := askWith[schedulesv1.UpdateScheduleItemResponse](t.Context(), c, schedsPath+"UpdateScheduleItem", &schedulesv1.UpdateScheduleItemRequest{
			Schedule: &schedulesv1.UpdateScheduleItemRequest_ScheduleId{ScheduleId: id}, ItemId: first.GetItemId(), Payload: of(n),
		})
		return err
	}
	wantReason(t, change(900), quotaExceeded)
	f.must(change(750))
	if _, err := f.trigger(c, id, "k", false); err != nil {
		t.Errorf("the content of a job was counted twice: %v", err)
	}
	f.clock.advance(server.MeasureEvery * 2)
	wantReason(t, add("c", 400), quotaExceeded) // the job has it now
	items := f.listItems(c, id, func(r *schedulesv1.ListScheduleItemsRequest) {
		r.States = []schedulesv1.ScheduleItemState{schedulesv1.ScheduleItemState_SCHEDULE_ITEM_STATE_WAITING}
	})
	_, err = askWith[schedulesv1.RemoveScheduleItemResponse](t.Context(), c, schedsPath+"RemoveScheduleItem", removeItem(items[0]))
	f.must(err)
	f.clock.advance(server.MeasureEvery * 2)
	f.must(add("c", 100))
}

// TestSlots: items are added, moved, changed and removed over both protocols, and go out in
// their order, as previews say.
func TestSlots(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			var fires *schedule.Scheduler
			f := start(t, firing(&fires))
			c := dial(f)
			id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue, func(r *createScheduleRequest) {
				r.JobTemplate.Labels = map[string]string{"from": "template"}
				r.Policies = &schedulesv1.SchedulePolicies{MaxPerDay: 2, Overlap: schedulesv1.OverlapPolicy_OVERLAP_POLICY_ALLOW}
			})).GetScheduleId()
			items := make(map[string]*schedulesv1.ScheduleItem)
			for _, key := range []string{"a", "b", "c", "d"} {
				res := f.addItem(c, id, key, custom("good/v1", "{{zone}} "+key))
				if items[key] = res.GetItem(); !res.GetCreated() || res.GetItem().GetPosition() != int32(len(items)) || res.GetItem().GetPayload() == nil {
					t.Errorf("added %v", res)
				}
			}
			if again := f.addItem(c, id, "a", custom("good/v1", "{{zone}} a")); again.GetCreated() || again.GetItem().GetItemId() != items["a"].GetItemId() {
				t.Errorf("repeat %v", again)
			}
			for range 2 { // the second one is in place
				res, err := askWith[schedulesv1.MoveScheduleItemResponse](t.Context(), c, schedsPath+"MoveScheduleItem", moveItem(items["c"], items["a"]))
				f.must(err)
				if res.GetItem().GetPosition() != 1 {
					t.Errorf("moved %v", res)
				}
			}
			for range 2 {
				res, err := askWith[schedulesv1.RemoveScheduleItemResponse](t.Context(), c, schedsPath+"RemoveScheduleItem", removeItem(items["b"]))
				f.must(err)
				if i := res.GetItem(); i.GetState() != schedulesv1.ScheduleItemState_SCHEDULE_ITEM_STATE_REMOVED || i.GetPayload() != nil || i.GetPosition() != 0 {
					t.Errorf("removed %v", res)
				}
			}
			update := &schedulesv1.UpdateScheduleItemRequest{
				Schedule: &schedulesv1.UpdateScheduleItemRequest_ScheduleKey{ScheduleKey: "s"}, ItemId: items["a"].GetItemId(), Etag: items["a"].GetEtag(),
				Payload: custom("good/v1", "new a"), Labels: map[string]string{"from": "item", "x": "y"},
			}
			changed, err := askWith[schedulesv1.UpdateScheduleItemResponse](t.Context(), c, schedsPath+"UpdateScheduleItem", update)
			f.must(err)
			if changed.GetItem().GetPosition() != 2 || changed.GetItem().GetEtag() == items["a"].GetEtag() || changed.GetItem().GetLabels()["x"] != "y" {
				t.Errorf("changed %v", changed)
			}
			if got := keysOf(f.listItems(c, id, func(r *schedulesv1.ListScheduleItemsRequest) { r.PageSize = 1 })); !slices.Equal(got, []string{"c", "a", "d", "b"}) {
				t.Errorf("listed %q", got)
			}
			next := f.getSchedule(c, id).GetNextFirings() // 15:00 and on; two a day
			for i, key := range map[int]string{0: "c", 1: "a", 9: "d"} {
				if got, want := next[i].GetItemId(), items[key].GetItemId(); got != want {
					t.Errorf("firing %d takes %s, want %s (%s)", i, got, want, key)
				}
			}
			for i := range 4 {
				f.firesAfter(fires, time.Hour)
				if used := f.listItems(c, id, func(r *schedulesv1.ListScheduleItemsRequest) {
					r.States = []schedulesv1.ScheduleItemState{schedulesv1.ScheduleItemState_SCHEDULE_ITEM_STATE_USED}
				}); len(used) != min(i+1, 2) || used[0].GetFiringName() == "" || used[0].GetJobId() == "" || used[0].GetPayload() != nil {
					t.Errorf("used %v", used)
				}
			}
			page, err := f.store.List(t.Context(), store.JobQuery{Project: "default", Schedule: f.id(id), Order: store.ByCreatedDesc})
			f.must(err)
			if len(page.Jobs) != 2 || page.Jobs[0].Labels["from"] != "item" || page.Jobs[1].Labels["from"] != "template" {
				t.Errorf("jobs %+v", page.Jobs)
			}
			if counts := f.getSchedule(c, id).GetSchedule().GetCounts(); counts.GetFired() != 2 || counts.GetSkippedByLimit() != 2 {
				t.Errorf("counts %v", counts)
			}
			f.firesAfter(fires, 24*time.Hour)
			f.firesAfter(fires, time.Hour)
			if counts := f.getSchedule(c, id).GetSchedule().GetCounts(); counts.GetFired() != 3 || counts.GetNoContent() == 0 {
				t.Errorf("counts %v", counts)
			}
		})
	}
}

// TestItemsAreChecked: an item that cannot be a job of the schedule is refused when it is added.
func TestItemsAreChecked(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	plain := f.recurring(t.Context(), c, f.newSchedule("plain")).GetScheduleId()
	gone := f.recurring(t.Context(), c, f.newSchedule("gone", fromQueue)).GetScheduleId()
	_, err := f.deleteSchedule(c, gone, "")
	f.must(err)
	id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue, func(r *createScheduleRequest) {
		r.JobTemplate.Labels = map[string]string{"a": "b"}
	})).GetScheduleId()
	first := f.addItem(c, id, "first", custom("good/v1", "x")).GetItem()
	many := make(map[string]string)
	for i := range 32 {
		many[fmt.Sprintf("l%d", i)] = "x"
	}
	good := custom("good/v1", "x")
	for name, tt := range map[string]struct {
		procedure string
		request   proto.Message
		code      connect.Code
	}{
		"a bad payload":       {"AddScheduleItem", addItem(id, "k", custom("bad/v1", "x")), connect.CodeInvalidArgument},
		"another kind":        {"AddScheduleItem", addItem(id, "k", letter()), connect.CodeInvalidArgument},
		"no payload":          {"AddScheduleItem", addItem(id, "k", nil), connect.CodeInvalidArgument},
		"another content":     {"AddScheduleItem", addItem(id, "first", custom("good/v1", "y")), connect.CodeAlreadyExists},
		"no queue":            {"AddScheduleItem", addItem(plain, "k", good), connect.CodeFailedPrecondition},
		"a deleted schedule":  {"AddScheduleItem", addItem(gone, "k", good), connect.CodeFailedPrecondition},
		"no schedule":         {"AddScheduleItem", addItem(first.GetItemId(), "k", good), connect.CodeNotFound},
		"an item elsewhere":   {"RemoveScheduleItem", removeItem(&schedulesv1.ScheduleItem{ScheduleId: plain, ItemId: first.GetItemId()}), connect.CodeNotFound},
		"before nothing":      {"MoveScheduleItem", moveItem(first, &schedulesv1.ScheduleItem{ItemId: plain}), connect.CodeNotFound},
		"labels of a job":     {"AddScheduleItem", &schedulesv1.AddScheduleItemRequest{Schedule: addItem(id, "", nil).Schedule, IdempotencyKey: "k", Payload: good, Labels: many}, connect.CodeInvalidArgument},
		"an old etag":         {"RemoveScheduleItem", &schedulesv1.RemoveScheduleItemRequest{Schedule: removeItem(first).Schedule, ItemId: first.GetItemId(), Etag: "x"}, connect.CodeAborted},
		"a bad new payload":   {"UpdateScheduleItem", &schedulesv1.UpdateScheduleItemRequest{Schedule: &schedulesv1.UpdateScheduleItemRequest_ScheduleId{ScheduleId: id}, ItemId: first.GetItemId(), Payload: custom("bad/v1", "x")}, connect.CodeInvalidArgument},
		"a page token at all": {"ListScheduleItems", &schedulesv1.ListScheduleItemsRequest{Schedule: &schedulesv1.ListScheduleItemsRequest_ScheduleId{ScheduleId: id}, PageToken: "x"}, connect.CodeInvalidArgument},
	} {
		_, err := askWith[schedulesv1.AddScheduleItemResponse](t.Context(), c, schedsPath+tt.procedure, tt.request)
		if e := new(wireError); !asWire(err, &e) || e.code != tt.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if items := f.listItems(c, id, func(*schedulesv1.ListScheduleItemsRequest) {}); len(items) != 1 || items[0].GetEtag() != first.GetEtag() {
		t.Errorf("items %v", items)
	}
}

// TestPreviewOfAQueue: the firings before those that are asked for take items, too.
func TestPreviewOfAQueue(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue)).GetScheduleId() // 15:00 and on
		var items []string
		for _, key := range []string{"a", "b", "c"} {
			items = append(items, f.addItem(c, id, key, custom("good/v1", key)).GetItem().GetItemId())
		}
		f.must(second2(f.skipFiring(c, id, "2026-07-01T16:00:00/1", false)))
		for _, tt := range []struct {
			after time.Duration
			want  []string
		}{
			{-2 * time.Hour, []string{"", "", "", items[0]}},      // 12:00, 13:00 and 14:00 have passed
			{2 * time.Hour, []string{"", items[1], items[2], ""}}, // 16:00 is skipped
			{4 * time.Hour, []string{items[2], "", "", ""}},
			{48 * time.Hour, []string{"", "", "", ""}},
		} {
			res, err := ask[schedulesv1.PreviewScheduleResponse](t, c, schedsPath+"PreviewSchedule", &schedulesv1.PreviewScheduleRequest{
				Subject: &schedulesv1.PreviewScheduleRequest_ScheduleId{ScheduleId: id}, Count: 4, StartTime: timestamppb.New(f.clock.Now().Add(tt.after)),
			})
			f.must(err)
			var got []string
			for _, p := range res.GetFirings() {
				got = append(got, p.GetItemId())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("after %s: %q, want %q", tt.after, got, tt.want)
			}
		}
	})
}

// TestBackfillOfAQueue: the answer has which times got an item and which did not.
func TestBackfillOfAQueue(t *testing.T) {
	var fires *schedule.Scheduler
	f := start(t, firing(&fires), limitedTo("jobs=2"))
	c := overGRPC(f)
	id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue)).GetScheduleId()
	from := f.clock.Now().Add(time.Second)
	f.firesAfter(fires, 4*time.Hour+time.Minute)
	for _, key := range []string{"a", "b"} {
		f.addItem(c, id, key, custom("good/v1", key))
	}
	for _, dry := range []bool{true, false} {
		res, err := f.backfill(c, id, from, f.clock.Now(), func(r *schedulesv1.BackfillScheduleRequest) { r.DryRun = dry })
		f.must(err)
		if got := namesOf(res.GetFirings()); !slices.Equal(got, []string{"b:2026-07-01T15:00:00/1", "b:2026-07-01T16:00:00/1"}) {
			t.Errorf("dry run %t: made %q", dry, got)
		}
		if got := namesOf(res.GetWithoutContent()); !slices.Equal(got, []string{"b:2026-07-01T17:00:00/1", "b:2026-07-01T18:00:00/1"}) {
			t.Errorf("dry run %t: without content %q", dry, got)
		}
	}
	// The next one has no item, so it needs no quota either.
	res, err := f.backfill(c, id, from, f.clock.Now())
	if err != nil || len(res.GetFirings()) != 0 || len(res.GetWithoutContent()) != 2 || res.GetPresent() != 2 {
		t.Errorf("repeat %v, %v", res, err)
	}
	f.addItem(c, id, "c", custom("good/v1", "c"))
	_, err = f.backfill(c, id, from, f.clock.Now())
	wantReason(t, err, quotaExceeded)
}

// TestDryBackfillOfAQueueInPages: a page of a dry run knows the items that the pages before it
// would take.
func TestDryBackfillOfAQueueInPages(t *testing.T) {
	var fires *schedule.Scheduler
	f := start(t, firing(&fires))
	c := overGRPC(f)
	id := f.recurring(t.Context(), c, f.newSchedule("s", fromQueue)).GetScheduleId()
	from := f.clock.Now().Add(time.Second)
	f.firesAfter(fires, 150*time.Hour)
	for n := range 110 {
		f.addItem(c, id, fmt.Sprint(n), custom("good/v1", fmt.Sprint(n)))
	}
	for _, dry := range []bool{true, false} {
		made, without, token := 0, 0, ""
		for range 2 {
			res, err := f.backfill(c, id, from, from.Add(150*time.Hour-time.Second), func(r *schedulesv1.BackfillScheduleRequest) { r.DryRun, r.PageToken = dry, token })
			f.must(err)
			made, without, token = made+len(res.GetFirings()), without+len(res.GetWithoutContent()), res.GetNextPageToken()
		}
		if made != 110 || without != 150-1-110 || token != "" {
			t.Errorf("dry run %t: %d made, %d without content, next %q", dry, made, without, token)
		}
	}
}
