package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

const createPause, endPause, listPauses = pausesPath + "CreatePause", pausesPath + "EndPause", pausesPath + "ListPauses"

func pauseOfLabel(name, value string) *adminv1.PauseTarget {
	return &adminv1.PauseTarget{Target: &adminv1.PauseTarget_Label{Label: &adminv1.PauseLabel{Name: name, Value: value}}}
}

func pauseEverything() *adminv1.PauseTarget {
	return &adminv1.PauseTarget{Target: &adminv1.PauseTarget_Everything{Everything: true}}
}

func (f *fixture) everyPauseTarget() map[string]*adminv1.PauseTarget {
	return map[string]*adminv1.PauseTarget{
		"everything":  pauseEverything(),
		"project":     {Target: &adminv1.PauseTarget_Project{Project: true}},
		"connector":   {Target: &adminv1.PauseTarget_Connector{Connector: "stub"}},
		"connectors":  {Target: &adminv1.PauseTarget_Connector{Connector: "stub"}, AllProjects: true},
		"connection":  {Target: &adminv1.PauseTarget_ConnectionId{ConnectionId: f.conn}},
		"key":         {Target: &adminv1.PauseTarget_ConnectionKey{ConnectionKey: "fixture"}},
		"label":       pauseOfLabel("team", "red"),
		"destination": {Target: &adminv1.PauseTarget_Destination{Destination: "HTTPS://Example.com/hook?x=1"}},
	}
}

// TestPauseShowsEverywhere: each kind of pause is stored, shown by every surface, and ended.
func TestPauseShowsEverywhere(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		j := f.schedule(f.request("job", func(r *scheduleRequest) {
			r.Labels = map[string]string{"team": "red"}
			r.ScheduleTime = timestamppb.New(f.clock.Now().Add(time.Hour))
		}))
		for name, target := range f.everyPauseTarget() {
			made, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: target, Note: "provider down"})
			f.must(err)
			p := made.GetPause()
			if !made.GetCreated() || p.GetState() != adminv1.PauseState_PAUSE_STATE_IN_FORCE || p.GetNote() != "provider down" || p.GetCreatedBy() == "" {
				t.Fatalf("%s: made %v", name, made)
			}
			again, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: target, Note: "still down"})
			f.must(err)
			if again.GetCreated() || again.GetPause().GetPauseId() != p.GetPauseId() || again.GetPause().GetNote() != "still down" {
				t.Errorf("%s: made again %v", name, again)
			}
			reason := f.read(c, j.GetJobId()).GetBlockedReason()
			if name == "destination" {
				if p.GetTarget().GetDestination() != "https://example.com:443" || reason != nil {
					t.Errorf("%s: %v blocks %v", name, p, reason)
				}
			} else if reason.GetKind() != fireoncev1.BlockedReason_KIND_PAUSED || reason.GetPauseId() != p.GetPauseId() || !strings.Contains(reason.GetMessage(), "still down") {
				t.Errorf("%s: blocked_reason %v", name, reason)
			}
			list, err := ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{})
			f.must(err)
			if len(list.GetPauses()) != 1 || !proto.Equal(list.GetPauses()[0], again.GetPause()) {
				t.Errorf("%s: listed %v", name, list)
			}
			f.clock.advance(time.Minute) // answers of GetStats are cached
			stats, err := ask[adminv1.GetStatsResponse](t, c, statsPath+"GetStats", &adminv1.GetStatsRequest{})
			f.must(err)
			if len(stats.GetPauses()) != 1 {
				t.Errorf("%s: GetStats has %v", name, stats.GetPauses())
			}
			if _, text := f.do(http.MethodGet, "/status", "", nil); !strings.Contains(text, p.GetPauseId()) || !strings.Contains(text, "still down") {
				t.Errorf("%s: /status %s", name, text)
			}
			for range 2 {
				ended, err := ask[adminv1.EndPauseResponse](t, c, endPause, &adminv1.EndPauseRequest{PauseId: p.GetPauseId()})
				f.must(err)
				if e := ended.GetPause(); e.GetState() != adminv1.PauseState_PAUSE_STATE_ENDED || e.GetEndedBy() == "" || e.GetEndedTime() == nil {
					t.Errorf("%s: ended %v", name, e)
				}
			}
			if got := f.read(c, j.GetJobId()).GetBlockedReason(); got != nil {
				t.Errorf("%s: blocked after the end: %v", name, got)
			}
		}
		var all []*adminv1.Pause
		for token := ""; ; {
			page, err := ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{ShowEnded: true, PageSize: 3, PageToken: token})
			f.must(err)
			all = append(all, page.GetPauses()...)
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if len(all) != len(f.everyPauseTarget()) {
			t.Errorf("%d pauses that have ended", len(all))
		}
	})
}

// TestPausePlanned: a window of time is announced, and shown as such.
func TestPausePlanned(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	from, to := f.clock.Now().Add(time.Hour), f.clock.Now().Add(2*time.Hour)
	made, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{
		Target: pauseEverything(), BeginTime: timestamppb.New(from), EndTime: timestamppb.New(to),
	})
	f.must(err)
	j := f.schedule(f.request("job", func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(from) }))
	state := func() adminv1.PauseState {
		list, err := ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{ShowEnded: true})
		f.must(err)
		return list.GetPauses()[0].GetState()
	}
	for _, step := range []struct {
		state   adminv1.PauseState
		blocked bool
	}{{adminv1.PauseState_PAUSE_STATE_ANNOUNCED, false}, {adminv1.PauseState_PAUSE_STATE_IN_FORCE, true}, {adminv1.PauseState_PAUSE_STATE_ENDED, false}} {
		if got := state(); got != step.state {
			t.Errorf("state %v, want %v", got, step.state)
		}
		reason := f.read(c, j.GetJobId()).GetBlockedReason()
		if (reason != nil) != step.blocked || step.blocked && !reason.GetEndTime().AsTime().Equal(to) {
			t.Errorf("%v: blocked_reason %v", step.state, reason)
		}
		f.clock.advance(time.Hour)
	}
	_, err = ask[adminv1.EndPauseResponse](t, c, endPause, &adminv1.EndPauseRequest{PauseId: made.GetPause().GetPauseId()})
	f.must(err)
}

// TestPauseDryRun: it shows what would end, and stores nothing.
func TestPauseDryRun(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	soon := f.schedule(f.request("soon", func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(f.clock.Now().Add(time.Minute)) }))
	f.schedule(f.request("later", func(r *scheduleRequest) { r.ScheduleTime = timestamppb.New(f.clock.Now().Add(48 * time.Hour)) }))
	got, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: pauseEverything(), DryRun: true})
	f.must(err)
	p := got.GetPreview()
	if p.GetWaitingCount() != 2 || p.GetWindowEndCount() != 1 || p.GetUnderWayCount() != 0 || len(p.GetWindowEnds()) != 1 || p.GetWindowEnds()[0].GetIdempotencyKey() != "soon" ||
		!p.GetWindowEnds()[0].GetEndTime().AsTime().Equal(soon.GetStartDeadline().AsTime()) {
		t.Errorf("preview %v", p)
	}
	if got.GetCreated() || got.GetPause().GetPauseId() != "" {
		t.Errorf("made %v", got)
	}
	held, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: pauseEverything(), HoldWindows: true, DryRun: true})
	f.must(err)
	if !held.GetPause().GetHoldWindows() || got.GetPause().GetHoldWindows() || held.GetPreview().GetWindowEndCount() != 1 {
		t.Errorf("a pause that holds windows: %v", held)
	}
	list, err := ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{ShowEnded: true})
	f.must(err)
	if len(list.GetPauses()) > 0 {
		t.Errorf("stored %v", list)
	}
}

// TestPauseHoldsWindows: a pause that holds windows is beside one that does not, and says so
// wherever it is shown.
func TestPauseHoldsWindows(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		shown := func(p *adminv1.Pause) bool { return p.GetHoldWindows() }
		made := make(map[bool]*adminv1.Pause)
		for _, hold := range []bool{false, true} {
			got, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: pauseEverything(), HoldWindows: hold})
			f.must(err)
			if !got.GetCreated() || shown(got.GetPause()) != hold {
				t.Errorf("hold_windows %v: made %v", hold, got)
			}
			again, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: pauseEverything(), HoldWindows: hold})
			f.must(err)
			if made[hold] = got.GetPause(); again.GetCreated() || again.GetPause().GetPauseId() != made[hold].GetPauseId() {
				t.Errorf("hold_windows %v: made again %v", hold, again)
			}
		}
		list, err := ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{})
		f.must(err)
		if p := list.GetPauses(); len(p) != 2 || shown(p[0]) == shown(p[1]) {
			t.Errorf("listed %v", p)
		}
		if _, text := f.do(http.MethodGet, "/status", "", nil); strings.Count(text, `"hold_windows":true`) != 1 {
			t.Errorf("GET /status: %s", text)
		}
		ended, err := ask[adminv1.EndPauseResponse](t, c, endPause, &adminv1.EndPauseRequest{PauseId: made[true].GetPauseId()})
		f.must(err)
		if !shown(ended.GetPause()) {
			t.Errorf("ended %v", ended)
		}
	})
}

// TestPausesShowWhatTheyHoldBack: a list has what ends in a pause from now on, and a connection has
// the pause over it.
func TestPausesShowWhatTheyHoldBack(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	f.schedule(f.request("soon"))
	made, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: pauseEverything(), Note: "storm"})
	f.must(err)
	for _, asked := range []bool{false, true} {
		list, err := ask[adminv1.ListPausesResponse](t, c, listPauses, &adminv1.ListPausesRequest{ShowPreview: asked})
		f.must(err)
		p := list.GetPauses()[0].GetPreview()
		if (p != nil) != asked || asked && (p.GetWindowEndCount() != 1 || p.GetWindowEnds()[0].GetIdempotencyKey() != "soon") {
			t.Errorf("asked %v: %v", asked, p)
		}
	}
	conns, err := ask[connectionsv1.ListConnectionsResponse](t, c, connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{})
	f.must(err)
	for _, conn := range conns.GetConnections() {
		if conn.GetPauseId() != made.GetPause().GetPauseId() || !strings.HasSuffix(conn.GetPauseReason(), ": storm") {
			t.Errorf("connection %v", conn)
		}
	}
	if len(conns.GetConnections()) == 0 {
		t.Error("no connection")
	}
}

// TestPausesThatCannotBeRead: a connection is not shown without them, and the answer to a change that
// is stored does not fail for them.
func TestPausesThatCannotBeRead(t *testing.T) {
	var away atomic.Bool
	f := start(t, func(c *server.Config) { c.Store = stopless{c.Store, &away} })
	overEvery := &adminv1.CreatePauseRequest{Target: pauseEverything()}
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			away.Store(false)
			c := dial(f)
			made, err := ask[adminv1.CreatePauseResponse](t, c, createPause, overEvery)
			f.must(err)
			away.Store(true)
			of := &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: f.conn}}
			_, err = ask[connectionsv1.GetConnectionResponse](t, c, connsPath+"GetConnection", of)
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
			_, err = ask[connectionsv1.ListConnectionsResponse](t, c, connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{})
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
			changed, err := ask[connectionsv1.PauseConnectionResponse](t, c, connsPath+"PauseConnection", &connectionsv1.PauseConnectionRequest{
				Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: f.conn}, Reason: name,
			})
			f.must(err)
			if changed.GetConnection().GetPauseTime() == nil || changed.GetConnection().GetPauseId() != "" {
				t.Errorf("changed: %v", changed)
			}
			away.Store(false)
			got, err := ask[connectionsv1.GetConnectionResponse](t, c, connsPath+"GetConnection", of)
			f.must(err)
			if got.GetConnection().GetPauseId() != made.GetPause().GetPauseId() {
				t.Errorf("read: %v", got)
			}
		})
	}
}

// stopless is a store that cannot read what stops cover while away is set.
type stopless struct {
	server.Store
	away *atomic.Bool
}

func (s stopless) StopsOver(ctx context.Context, targets []store.StopTarget) ([]*store.Stop, error) {
	if s.away.Load() {
		return nil, store.ErrUnavailable
	}
	return s.Store.StopsOver(ctx, targets)
}

// TestPausesOfOthers: a key pauses its own project alone, and ends no pause of the operator's.
func TestPausesOfOthers(t *testing.T) {
	f := start(t, requireKey)
	c := overGRPC(f)
	mine := bring(t.Context(), f.issue(server.DefaultProject, server.Scopes()).Reveal())
	for name, target := range f.everyPauseTarget() {
		_, err := askWith[adminv1.CreatePauseResponse](mine, c, createPause, &adminv1.CreatePauseRequest{Target: target})
		if name == "everything" || name == "connectors" {
			wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_OPERATOR_REQUIRED)
			continue
		}
		f.must(err)
	}
	everything := store.Stop{ID: f.id(newUUID()), Scope: store.StopEverything, Cause: store.StoppedByPerson, Note: "all hands"}
	_, _, err := f.store.CreateStop(t.Context(), store.NewStop{Stop: everything})
	f.must(err)
	_, err = askWith[adminv1.EndPauseResponse](mine, c, endPause, &adminv1.EndPauseRequest{PauseId: everything.ID.String()})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAUSE_NOT_FOUND)
	list, err := askWith[adminv1.ListPausesResponse](mine, c, listPauses, &adminv1.ListPausesRequest{})
	f.must(err)
	if !strings.Contains(list.String(), "all hands") {
		t.Errorf("a key does not see what stops its jobs: %v", list)
	}
	others := bring(t.Context(), f.issue("other", server.Scopes()).Reveal())
	list, err = askWith[adminv1.ListPausesResponse](others, c, listPauses, &adminv1.ListPausesRequest{})
	f.must(err)
	if len(list.GetPauses()) != 1 {
		t.Errorf("another project sees %v", list)
	}
}

// TestPauseRefusals.
func TestPauseRefusals(t *testing.T) {
	f := start(t)
	c := overGRPC(f)
	at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(f.clock.Now().Add(d)) }
	for name, tt := range map[string]struct {
		req   *adminv1.CreatePauseRequest
		field string
	}{
		"no target":            {&adminv1.CreatePauseRequest{}, "target"},
		"an empty target":      {&adminv1.CreatePauseRequest{Target: &adminv1.PauseTarget{}}, "target.target"},
		"ends before":          {&adminv1.CreatePauseRequest{Target: pauseEverything(), BeginTime: at(2 * time.Hour), EndTime: at(time.Hour)}, "end_time"},
		"is over":              {&adminv1.CreatePauseRequest{Target: pauseEverything(), BeginTime: at(-2 * time.Hour), EndTime: at(-time.Hour)}, "end_time"},
		"an account":           {&adminv1.CreatePauseRequest{Target: &adminv1.PauseTarget{Target: &adminv1.PauseTarget_Destination{Destination: "account"}}}, "target.destination"},
		"a label of all":       {&adminv1.CreatePauseRequest{Target: &adminv1.PauseTarget{Target: pauseOfLabel("a", "b").GetTarget(), AllProjects: true}}, "target.all_projects"},
		"a note of many lines": {&adminv1.CreatePauseRequest{Target: pauseEverything(), Note: "a\nb"}, "note"},
	} {
		_, err := ask[adminv1.CreatePauseResponse](t, c, createPause, tt.req)
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_REQUEST_INVALID)
		if v := e.detail.GetViolations(); len(v) != 1 || v[0].GetField() != tt.field {
			t.Errorf("%s: violations %v", name, v)
		}
	}
	for _, dry := range []bool{false, true} {
		_, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{
			Target: &adminv1.PauseTarget{Target: &adminv1.PauseTarget_ConnectionId{ConnectionId: newUUID()}}, DryRun: dry,
		})
		wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
	}
	f.must(f.deleteConnection())
	_, err := ask[adminv1.CreatePauseResponse](t, c, createPause, &adminv1.CreatePauseRequest{Target: &adminv1.PauseTarget{Target: &adminv1.PauseTarget_ConnectionId{ConnectionId: f.conn}}})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
}

func (f *fixture) deleteConnection() error {
	_, err := ask[connectionsv1.DeleteConnectionResponse](f.tb, overGRPC(f), connsPath+"DeleteConnection",
		&connectionsv1.DeleteConnectionRequest{Connection: &connectionsv1.DeleteConnectionRequest_ConnectionId{ConnectionId: f.conn}})
	return err
}

func newUUID() string { return "0197c1f0-0000-7000-8000-00000000abcd" }
