package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

// TestConnectionsOverEveryProtocol calls each RPC that changes a connection as a user
// would.
func TestConnectionsOverEveryProtocol(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, withSocial(nil))
			c := dial(f)
			conn := f.connect(c, "c", "ann-1")
			id := conn.GetConnectionId()
			if got := f.test(c, id); !got.GetOk() || got.GetAccountIdentity() != "ann" || !got.GetPlatformReached() {
				t.Errorf("test: %v", got)
			}
			rotated, err := f.rotate(c, conn, "ann-2", "")
			f.must(err)
			if rotated.GetCredentialFingerprint() == conn.GetCredentialFingerprint() || rotated.GetAccountIdentity() != "ann" {
				t.Errorf("rotated: %v", rotated)
			}
			named, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{
				Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Etag: rotated.GetEtag(), DisplayName: "Bob",
			}, "display_name")
			if err != nil || named.GetDisplayName() != "Bob" || named.GetEtag() == rotated.GetEtag() {
				t.Errorf("updated: %v, %v", named, err)
			}
			if got := f.pause(c, id, "holiday"); got.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_PAUSED || got.GetStateReason() != "holiday" {
				t.Errorf("paused: %v", got)
			}
			if got := f.resume(c, id, false); got.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE {
				t.Errorf("resumed: %v", got)
			}
			f.must(f.remove(c, id, ""))
			list, err := ask[connectionsv1.ListConnectorsResponse](t, c, connsPath+"ListConnectors", &connectionsv1.ListConnectorsRequest{})
			f.must(err)
			got := list.GetConnectors()
			if len(got) != 3 || got[0].GetName() != "social" || got[0].GetSettingsKind() != "custom" || got[2].GetSettingsKind() != "webhook" ||
				len(got[0].GetEffectClasses()) != 2 || got[0].GetPromise() != "none" || len(got[1].GetPayloadKinds()) != 2 {
				t.Errorf("connectors: %v", got)
			}
		})
	}
}

func TestRotateCredential(t *testing.T) {
	tests := 0
	f := start(t, withSocial(func() { tests++ }))
	c := overConnect(f)
	conn := f.connect(c, "c", "ann-1")
	if conn.GetAccountIdentity() != "" || tests != 0 {
		t.Fatalf("connection %v after %d tests", conn, tests)
	}
	// The same again, whatever the etag: nothing is asked, nothing changes.
	same, err := f.rotate(c, conn, "ann-1", "e1")
	if err != nil || !proto.Equal(same, conn) || tests != 0 {
		t.Errorf("the same credential: %v, %v, %d tests", same, err, tests)
	}
	_, err = f.rotate(c, conn, "ann-2", "e1")
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
	_, err = f.rotate(c, conn, "refused-2", "")
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH)
	// Whose account it is becomes known; until then a platform that is down is no reason.
	down, err := f.rotate(c, conn, "down-2", conn.GetEtag())
	if err != nil || down.GetAccountIdentity() != "" {
		t.Errorf("not known whose: %v, %v", down, err)
	}
	ann, err := f.rotate(c, conn, "ann-2", "")
	if err != nil || ann.GetAccountIdentity() != "ann" {
		t.Errorf("rotated: %v, %v", ann, err)
	}
	_, err = f.rotate(c, conn, "bob-1", ann.GetEtag())
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_IDENTITY_MISMATCH)
	_, err = f.rotate(c, conn, "down-1", "")
	if e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PLATFORM_UNAVAILABLE); strings.Contains(err.Error(), "secret") || !slices.Contains(e.types, "google.rpc.RetryInfo") {
		t.Errorf("a platform that is down: %v", err)
	}
	if now := f.connection(c, conn.GetConnectionId()); !proto.Equal(now, ann) {
		t.Errorf("after the refusals: %v, want %v", now, ann)
	}
	_, err = ask[connectionsv1.RotateCredentialResponse](t, c, connsPath+"RotateCredential", &connectionsv1.RotateCredentialRequest{
		Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: conn.GetConnectionId()}, Credential: &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: "ann"}}},
	})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_MISMATCH)
	_, err = f.rotate(c, &connectionsv1.Connection{ConnectionId: absent}, "ann-3", "")
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
	if strings.Contains(f.logs.String(), "ann-2") {
		t.Error("a credential is in the log")
	}
}

// TestRotateLiftsHold: a held credential is tried again when it is given again, and a
// hold by the one before does not come back.
func TestRotateLiftsHold(t *testing.T) {
	f := start(t, withSocial(nil))
	c := overConnect(f)
	conn := f.connect(c, "c", "ann-1")
	f.schedule(f.request("k", func(r *fireoncev1.ScheduleJobRequest) { r.Connection = onConnection(conn.GetConnectionId()) }))
	refuse := func(l store.Leased, version int) {
		f.learn(l.ID, job.Deferred{Kind: job.FailAuth, Message: "Reconnect this account", CredentialVersion: version})
	}
	refuse(f.claim(), 1)
	held := f.connection(c, conn.GetConnectionId())
	if held.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD || held.GetStateReason() != "Reconnect this account" {
		t.Fatalf("held: %v", held)
	}
	f.resume(c, conn.GetConnectionId(), false) // lifts no hold
	got, err := f.rotate(c, conn, "ann-1", "")
	if err != nil || got.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE || got.GetCredentialFingerprint() != conn.GetCredentialFingerprint() {
		t.Fatalf("the same credential, held: %v, %v", got, err)
	}
	refuse(f.claim(), 1)
	if got := f.connection(c, conn.GetConnectionId()); got.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE {
		t.Errorf("a late refusal of version 1 holds version 2: %v", got)
	}
	if l := f.claim(); l.Connection.CredentialVersion != 2 {
		t.Errorf("version %d in the lease", l.Connection.CredentialVersion)
	}
}

func TestPauseAndResume(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	due := f.schedule(f.request("due"))
	f.clock.advance(time.Second)
	first := f.pause(c, f.conn, "holiday")
	f.clock.advance(time.Minute)
	again := f.pause(c, f.conn, "something else")
	if !proto.Equal(first, again) {
		t.Errorf("paused again: %v, want %v", again, first)
	}
	now := f.schedule(f.request("now"))
	if want := "The connection is paused: holiday"; now.GetBlockedReason().GetMessage() != want {
		t.Errorf("blocked by %q, want %q", now.GetBlockedReason().GetMessage(), want)
	}
	f.schedule(f.request("later", at(f.clock.Now().Add(time.Hour))))
	f.clock.advance(time.Minute)
	f.claimAny()
	resumed := f.resume(c, f.conn, true)
	if resumed.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE || resumed.GetPauseTime() != nil {
		t.Errorf("resumed: %v", resumed)
	}
	expired := f.snapshot(now.GetJobId())
	if expired.State != job.Expired || expired.LastError.Kind != job.FailWindowOver {
		t.Errorf("missed: %+v", expired.Status)
	}
	if last := f.history(now.GetJobId()); last[1].Actor != "api" || last[1].Cause != job.CauseWindowOver || len(last) != 2 {
		t.Errorf("events of a job that was missed: %+v", last)
	}
	if l := f.claim(); l.ID.String() != due.GetJobId() {
		t.Errorf("claimed %s, want %s, which was due before the pause", l.ID, due.GetJobId())
	}
	if got := f.resume(c, f.conn, true); !proto.Equal(got, resumed) {
		t.Errorf("resumed again: %v", got)
	}
	if got := f.schedule(f.request("after")); got.GetBlockedReason() != nil {
		t.Errorf("blocked by %q after the pause", got.GetBlockedReason().GetMessage())
	}
}

// TestResumeExpiresMany: more than one batch expires, and a job that was not missed runs
// immediately.
func TestResumeExpiresMany(t *testing.T) {
	f := start(t)
	c := overConnect(f)
	f.pause(c, f.conn, "")
	const many = store.MaxBatch + 7
	items := make([]store.NewJob, 0, many)
	for i := range many {
		items = append(items, store.NewJob{Spec: job.Spec{
			ID: job.ID{1, 15: byte(i), 14: byte(i >> 8)}, Project: server.DefaultProject, Key: fmt.Sprint(i), Connection: f.id(f.conn), HoldKey: "h",
		}})
	}
	for _, part := range [][]store.NewJob{items[:store.MaxBatch], items[store.MaxBatch:]} {
		_, err := f.store.Create(t.Context(), part)
		f.must(err)
	}
	f.resume(c, f.conn, true)
	stats, err := f.store.Stats(t.Context(), store.StatsQuery{Project: server.DefaultProject, Window: time.Hour})
	f.must(err)
	if n := stats.Counts; n[job.Expired] != many || n[job.Scheduled] != 0 {
		t.Errorf("jobs by state: %v", n)
	}
}

func TestUpdateConnection(t *testing.T) {
	f := start(t, withSocial(nil))
	c := overConnect(f)
	conn := f.connect(c, "c", "ann-1")
	id := conn.GetConnectionId()
	type request = connectionsv1.UpdateConnectionRequest
	// A value that is in place is no change, whatever the etag.
	same, err := f.updateConnection(c, &request{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Etag: "e1", DisplayName: "Ann", Limits: &connectionsv1.ConnectionLimits{}}, "display_name", "limits")
	if err != nil || !proto.Equal(same, conn) {
		t.Errorf("in place: %v, %v", same, err)
	}
	_, err = f.updateConnection(c, &request{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Etag: "e1", DisplayName: "Bob"}, "display_name")
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
	// Only what the mask names, to what is given: nothing clears it.
	got, err := f.updateConnection(c, &request{
		Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Limits: &connectionsv1.ConnectionLimits{MaxInFlight: 2, MaxPerMinute: 60}, DisplayName: "ignored",
	}, "limits")
	if err != nil || got.GetLimits().GetMaxInFlight() != 2 || got.GetDisplayName() != "Ann" {
		t.Errorf("limits: %v, %v", got, err)
	}
	for _, d := range []time.Duration{-time.Second, 31*24*time.Hour + time.Second} {
		_, err = f.updateConnection(c, &request{
			Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Limits: &connectionsv1.ConnectionLimits{CoolDown: durationpb.New(d)},
		}, "limits")
		if err == nil || !strings.Contains(err.Error(), "limits.cool_down") {
			t.Errorf("a cool-down of %v: %v", d, err)
		}
	}
	got, err = f.updateConnection(c, &request{
		Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Limits: &connectionsv1.ConnectionLimits{CoolDown: durationpb.New(31 * 24 * time.Hour)},
	}, "limits")
	if err != nil || got.GetLimits().GetCoolDown().AsDuration() != 31*24*time.Hour || got.GetLimits().GetMaxInFlight() != 0 {
		t.Errorf("a cool-down: %v, %v", got, err)
	}
	got, err = f.updateConnection(c, &request{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}}, "limits", "display_name")
	if err != nil || got.GetLimits() != nil || got.GetDisplayName() != "" {
		t.Errorf("cleared: %v, %v", got, err)
	}
	// The class of new jobs follows the settings, immediately.
	old := f.schedule(f.request("old", at(f.clock.Now().Add(time.Hour)), on(id)))
	got, err = f.updateConnection(c, &request{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Settings: &connectionsv1.UpdateConnectionRequest_Custom{Custom: settingsOf("keyed")}}, "custom")
	if err != nil || got.GetEffectClass() != fireoncev1.EffectClass_EFFECT_CLASS_KEYED {
		t.Errorf("settings: %v, %v", got, err)
	}
	made := f.schedule(f.request("new", at(f.clock.Now().Add(time.Hour)), on(id)))
	if made.GetEffectClass() != fireoncev1.EffectClass_EFFECT_CLASS_KEYED || old.GetEffectClass() != fireoncev1.EffectClass_EFFECT_CLASS_OPAQUE {
		t.Errorf("classes: %s before, %s after", old.GetEffectClass(), made.GetEffectClass())
	}
	if c := f.connectionOf(id); c.KeyWindow != time.Hour {
		t.Errorf("key window %s", c.KeyWindow)
	}
	for name, settings := range map[string]*request{
		"wrong":             {Settings: &connectionsv1.UpdateConnectionRequest_Custom{Custom: settingsOf("wrong")}},
		"another connector": {Settings: &connectionsv1.UpdateConnectionRequest_Slack{Slack: &connectionsv1.SlackSettings{Channel: "C1"}}},
	} {
		settings.Connection = &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}
		mask := "custom"
		if settings.GetSlack() != nil {
			mask = "slack"
		}
		_, err = f.updateConnection(c, settings, mask)
		t.Log(name, wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID))
	}
	f.test(c, id) // learns the account
	_, err = f.updateConnection(c, &request{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Settings: &connectionsv1.UpdateConnectionRequest_Custom{Custom: settingsOf("elsewhere")}}, "custom")
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID)
	_, err = f.updateConnection(c, &request{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: absent}}, "display_name")
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
}

func on(conn string) func(*fireoncev1.ScheduleJobRequest) {
	return func(r *fireoncev1.ScheduleJobRequest) { r.Connection = onConnection(conn) }
}

func (f *fixture) connectionOf(id string) store.Connection {
	f.tb.Helper()
	conn, err := f.store.Connection(f.tb.Context(), store.Ref{Project: server.DefaultProject, ID: f.id(id)})
	f.must(err)
	return conn
}

func TestDeleteConnection(t *testing.T) {
	f := start(t, withSocial(nil))
	c := overConnect(f)
	conn := f.connect(c, "c", "ann-1")
	id := conn.GetConnectionId()
	f.schedule(f.request("k", on(id)))
	wantReason(t, f.remove(c, id, ""), fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_IN_USE)
	failed := f.fail()
	wantReason(t, f.remove(c, id, "e9"), fireoncev1.ErrorReason_ERROR_REASON_ETAG_MISMATCH)
	f.must(f.remove(c, id, conn.GetEtag()))
	f.must(f.remove(c, id, "e9"))
	wantReason(t, f.remove(c, absent, ""), fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)

	gone := f.connection(c, id)
	if gone.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_DELETED || gone.GetCredentialFingerprint() != "" || gone.GetDeleteTime() == nil {
		t.Errorf("deleted: %v", gone)
	}
	for shown, want := range map[bool]int{false: 1, true: 2} {
		list, err := ask[connectionsv1.ListConnectionsResponse](t, c, connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{Filter: &connectionsv1.ConnectionFilter{ShowDeleted: shown}})
		if err != nil || len(list.GetConnections()) != want {
			t.Errorf("show_deleted %t: %v, %v", shown, list, err)
		}
	}
	// Its jobs have their history, and no other.
	const isGone = fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED
	_, err := ask[fireoncev1.ScheduleJobResponse](t, c, scheduleJob, f.request("new", on(id)))
	wantReason(t, err, isGone)
	if again := f.schedule(f.request("k", on(id))); again.GetJobId() != failed.ID.String() {
		t.Errorf("the job of a bound key: %v", again)
	}
	_, err = f.retry(c, &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: failed.ID.String()}, Etag: f.read(c, failed.ID.String()).GetEtag()})
	wantReason(t, err, isGone)
	bulk, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now())})
	f.must(err)
	wantCounts(t, bulk, 1, 0, 1)
	// And nothing of it changes any more.
	_, err = f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, DisplayName: gone.GetDisplayName()}, "display_name")
	wantReason(t, err, isGone)
	_, err = f.rotate(c, conn, "ann-2", "")
	wantReason(t, err, isGone)
	_, err = ask[connectionsv1.TestConnectionResponse](t, c, connsPath+"TestConnection", &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: id}})
	wantReason(t, err, isGone)
	for _, got := range []*connectionsv1.Connection{f.pause(c, id, ""), f.resume(c, id, true)} {
		if !proto.Equal(got, gone) {
			t.Errorf("paused or resumed: %v", got)
		}
	}
}

// TestRetryWhileTheConnectionIsDeleted: the connection is deleted between the check and the
// write. The answer names the connection, and not a job that is there.
func TestRetryWhileTheConnectionIsDeleted(t *testing.T) {
	const isGone = fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_DISABLED
	for name, retry := range map[string]func(f *fixture, c client, id string) error{
		"one": func(f *fixture, c client, id string) error {
			_, err := f.retry(c, &fireoncev1.RetryJobRequest{Job: &fireoncev1.RetryJobRequest_JobId{JobId: id}, Etag: f.read(c, id).GetEtag()})
			return err
		},
		"bulk": func(f *fixture, c client, _ string) error {
			r, err := f.bulkRetry(c, &adminv1.BulkRetryJobsRequest{Filter: anyJob(), AsOfTime: timestamppb.New(f.clock.Now())})
			f.must(err)
			wantCounts(t, r, 1, 0, 1)
			wantItem(t, r.GetFailures()[0].GetError(), isGone)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var f *fixture
			f = start(t, func(c *server.Config) {
				c.Store = meddling{c.Store, &sync.Once{}, func() {
					_, err := f.store.ChangeConnection(t.Context(), store.ConnectionChange{
						Project: server.DefaultProject, ID: f.id(f.conn), Version: f.connectionOf(f.conn).Version, Actor: "another server", Delete: true,
					})
					f.must(err)
				}}
			})
			c := overConnect(f)
			id := f.schedule(f.request("k")).GetJobId()
			f.fail()
			if err := retry(f, c, id); err != nil {
				wantReason(t, err, isGone)
			} else if name == "one" {
				t.Error("the job was retried on a deleted connection")
			}
		})
	}
}

func TestTestConnection(t *testing.T) {
	f := start(t, withSocial(nil))
	c := overConnect(f)
	for name, tt := range map[string]struct {
		secret   string
		settings []string
		want     *connectionsv1.TestConnectionResponse
	}{
		"fine": {"ann-1", nil, &connectionsv1.TestConnectionResponse{
			Ok: true, AccountIdentity: "ann", PlatformReached: true,
			Detail: "Settings and credential are in order. The account of ann.",
		}},
		"refused": {"refused-1", nil, &connectionsv1.TestConnectionResponse{
			Detail: "Reconnect this account", FailureKind: fireoncev1.FailureKind_FAILURE_KIND_AUTH, PlatformReached: true,
		}},
		"down": {"down-1", nil, &connectionsv1.TestConnectionResponse{
			Detail: "the platform could not be reached", FailureKind: fireoncev1.FailureKind_FAILURE_KIND_TRANSIENT,
		}},
		"unsure": {"ann-2", []string{"unsure"}, &connectionsv1.TestConnectionResponse{
			Ok: true, AccountIdentity: "ann", PlatformReached: true,
			Detail: "Settings and credential are in order. The account of ann. Jobs will be of class OBSERVABLE.",
		}},
	} {
		conn := f.connect(c, name, tt.secret, tt.settings...)
		if got := f.test(c, conn.GetConnectionId()); !proto.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
		now := f.connection(c, conn.GetConnectionId())
		if now.GetAccountIdentity() != tt.want.GetAccountIdentity() {
			t.Errorf("%s: account %q", name, now.GetAccountIdentity())
		}
		if !tt.want.GetOk() && !proto.Equal(now, conn) {
			t.Errorf("%s: a failed test has changed it: %v", name, now)
		}
		f.test(c, conn.GetConnectionId())
		if again := f.connection(c, conn.GetConnectionId()); !proto.Equal(again, now) {
			t.Errorf("%s: a second test has changed it: %v", name, again)
		}
	}
	// One that cannot ask.
	got := f.test(c, f.conn)
	if !got.GetOk() || got.GetPlatformReached() || got.GetAccountIdentity() != "account-1" || !strings.Contains(got.GetDetail(), "Nothing was sent") {
		t.Errorf("webhook: %v", got)
	}
	// Settings that do not hold any more.
	id := job.ID{9, 15: 9}
	_, _, err := f.store.CreateConnection(t.Context(), store.NewConnection{Connection: store.Connection{
		ID: id, Project: server.DefaultProject, Connector: "stub", Class: job.Opaque, Settings: []byte("wrong"),
	}})
	f.must(err)
	if got := f.test(c, id.String()); got.GetOk() || got.GetFailureKind() != fireoncev1.FailureKind_FAILURE_KIND_PERMANENT || got.GetPlatformReached() {
		t.Errorf("wrong settings: %v", got)
	}
	_, err = ask[connectionsv1.TestConnectionResponse](t, c, connsPath+"TestConnection", &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: absent}})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND)
}

// forgetful is a store that does not confirm the changes of connections that it writes.
type forgetful struct {
	server.Store
	lost *bool
}

func (s forgetful) ChangeConnection(ctx context.Context, c store.ConnectionChange) (store.Connection, error) {
	out, err := s.Store.ChangeConnection(ctx, c)
	if err == nil && *s.lost {
		return store.Connection{}, store.ErrUnconfirmed
	}
	return out, err
}

// TestUnconfirmedChanges: a change whose outcome was lost is repeated as it was, and
// is done once.
func TestUnconfirmedChanges(t *testing.T) {
	lost := false
	f := start(t, withSocial(nil), func(c *server.Config) { c.Store = forgetful{c.Store, &lost} })
	c := overConnect(f)
	id := f.connect(c, "c", "ann-1").GetConnectionId()
	for name, call := range map[string]func(etag string) error{
		"update": func(etag string) error {
			_, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Etag: etag, DisplayName: "Bob"}, "display_name")
			return err
		},
		"rotate": func(etag string) error {
			_, err := f.rotate(c, &connectionsv1.Connection{ConnectionId: id}, "ann-2", etag)
			return err
		},
		"pause": func(string) error {
			_, err := ask[connectionsv1.PauseConnectionResponse](t, c, connsPath+"PauseConnection", &connectionsv1.PauseConnectionRequest{Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: id}})
			return err
		},
	} {
		before := f.connectionOf(id)
		lost = true
		wantReason(t, call(f.connection(c, id).GetEtag()), fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
		lost = false
		if err := call("e" + before.ID.String()[:3]); err != nil {
			t.Errorf("%s, repeated: %v", name, err)
		}
		if after := f.connectionOf(id); after.Version != before.Version+1 {
			t.Errorf("%s: version %d after %d", name, after.Version, before.Version)
		}
	}
	lost = true
	wantReason(t, f.remove(c, id, ""), fireoncev1.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE)
	lost = false
	f.must(f.remove(c, id, "e1"))
}

// homed is a connector whose connections name their server.
type homed struct {
	stub
	asked *atomic.Int32
}

func (h homed) Test(context.Context, connector.Opening) (connector.Tested, error) {
	h.asked.Add(1)
	return connector.Tested{Identity: "account-1"}, nil
}

// TestSecretsStayWithTheirServer: a caller that may change settings and not read the secret
// cannot have it sent to a server of its own, not even by the check of its account.
func TestSecretsStayWithTheirServer(t *testing.T) {
	var asked atomic.Int32
	f := start(t, func(c *server.Config) {
		registry, err := connector.NewRegistry(
			homed{stub{"mastodon", []job.Class{job.Opaque}, false}, &asked}, homed{stub{"http", []job.Class{job.Opaque}, false}, &asked}, homed{stub{"smtp", []job.Class{job.Opaque}, false}, &asked},
			stub{"stub", []job.Class{job.Opaque}, true})
		if err != nil {
			t.Fatal(err)
		}
		c.Connectors = registry
	})
	c := overConnect(f)
	made := func(conn *connectionsv1.Connection, cred *connectionsv1.Credential) string {
		res, err := ask[connectionsv1.CreateConnectionResponse](t, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: conn.GetConnector() + fmt.Sprint(cred), Connection: conn, Credential: cred,
		})
		f.must(err)
		return res.GetConnection().GetConnectionId()
	}
	at := func(base string) *connectionsv1.Connection {
		return &connectionsv1.Connection{Connector: "mastodon", Settings: &connectionsv1.Connection_Mastodon{Mastodon: &connectionsv1.MastodonSettings{BaseUrl: base}}}
	}
	relay := &connectionsv1.Connection{Connector: "smtp", Settings: &connectionsv1.Connection_Smtp{Smtp: &connectionsv1.SmtpSettings{Host: "mail.example.org", Port: 587}}}
	with, without, mail := made(at("https://home.example.org"), token("ann-1")), made(at("https://home.example.org"), nil), made(relay, token("ann-2"))

	calls := func(origins ...string) *connectionsv1.HttpSettings {
		return &connectionsv1.HttpSettings{ReceiverDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO, Origins: origins}
	}
	api := made(&connectionsv1.Connection{Connector: "http", Settings: &connectionsv1.Connection_Http{
		Http: calls("https://a.example.org", "https://b.example.org"),
	}}, token("ann-3"))
	address := func(origins ...string) error {
		_, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{
			Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: api}, Settings: &connectionsv1.UpdateConnectionRequest_Http{Http: calls(origins...)},
		}, "http")
		return err
	}

	move := func(id, base string) error {
		_, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, Settings: &connectionsv1.UpdateConnectionRequest_Mastodon{
			Mastodon: &connectionsv1.MastodonSettings{BaseUrl: base, ServerDedupes: connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO},
		}}, "mastodon")
		return err
	}
	post := func(host string, port int32) error {
		_, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: mail}, Settings: &connectionsv1.UpdateConnectionRequest_Smtp{
			Smtp: &connectionsv1.SmtpSettings{Host: host, Port: port},
		}}, "smtp")
		return err
	}
	for _, elsewhere := range []string{"https://evil.example.org", "http://home.example.org", "https://home.example.org:8443", "https://home.example.org/~eve"} {
		wantReason(t, move(with, elsewhere), fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID)
	}
	wantReason(t, post("evil.example.org", 587), fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID)
	// Another port of the relay, or another path of a server, may be another user's.
	for _, port := range []int32{465, 25, 2587} {
		wantReason(t, post("mail.example.org", port), fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID)
	}
	nested := made(at("https://shared.example.org/Ann"), token("ann-4"))
	for _, path := range []string{"", "/", "/ann", "/Ann/", "/Ann/x", "/%41nn"} {
		wantReason(t, move(nested, "https://shared.example.org"+path), fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID)
	}
	for _, origins := range [][]string{{"https://evil.example.org"}, {"https://a.example.org", "https://evil.example.org"}, nil} {
		wantReason(t, address(origins...), fireoncev1.ErrorReason_ERROR_REASON_SETTINGS_INVALID)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("a platform was asked %d times", n)
	}
	f.must(address("https://A.example.org/"))
	f.must(move(nested, "https://SHARED.example.org:443/Ann"))
	f.must(move(with, "https://HOME.example.org/")) // the same one
	f.must(move(without, "https://other.example.org"))
	f.must(post("MAIL.example.org", 587))
	f.must(post("mail.example.org", 0)) // the same port, said otherwise
}

// TestRetryPolicyOfAConnection: a job has the policy of its connection as it is now, less what
// the job states itself.
func TestRetryPolicyOfAConnection(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		id := f.request("any").GetConnectionId()
		stated := &fireoncev1.RetryPolicy{
			MaxAttempts: 9, KeepTrying: durationpb.New(5 * time.Hour),
			Delays: []*durationpb.Duration{durationpb.New(time.Second), durationpb.New(3 * time.Hour)},
		}
		conn, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{
			Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, RetryPolicy: stated,
		}, "retry_policy")
		f.must(err)
		if !proto.Equal(conn.GetRetryPolicy(), stated) {
			t.Errorf("stated %v, stored %v", stated, conn.GetRetryPolicy())
		}
		j := f.schedule(f.request("j", at(f.clock.Now().Add(time.Hour)), func(r *scheduleRequest) {
			r.RetryPolicy = &fireoncev1.RetryPolicy{MaxAttempts: 2}
		}))
		want := proto.CloneOf(stated)
		want.MaxAttempts = 2
		if got := j.GetRetryPolicy(); !proto.Equal(got, want) {
			t.Errorf("in force %v, want %v", got, want)
		}
		_, err = f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{
			Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id},
		}, "retry_policy")
		f.must(err)
		if got := f.read(c, j.GetJobId()).GetRetryPolicy(); got.GetKeepTrying().AsDuration() != job.DefaultKeepTrying || got.GetMaxAttempts() != 2 ||
			got.GetMultiplier() != job.DefaultMultiplier {
			t.Errorf("with the defaults again: %v", got)
		}
	})
}
