package server_test

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

const noConnection = fireoncev1.ErrorReason_ERROR_REASON_CONNECTION_NOT_FOUND

// TestLostLogin: the way back from a login is lost, after the server has ended it. The
// key that the application gave the login answers whether the connection came about.
func TestLostLogin(t *testing.T) {
	_, with := withOAuth(t)
	f := start(t, with)
	c := overConnect(f)
	byKey := func() (*connectionsv1.Connection, error) {
		res, err := ask[connectionsv1.GetConnectionResponse](t, c, connsPath+"GetConnection", &connectionsv1.GetConnectionRequest{
			Connection: &connectionsv1.GetConnectionRequest_IdempotencyKey{IdempotencyKey: "user-42:member"},
		})
		return res.GetConnection(), err
	}
	begun := f.startLogin(c, own(newMember("user-42:member")))
	_, err := byKey()
	e := wantReason(t, err, noConnection)
	if want := map[string]string{"idempotency_key": "user-42:member"}; !maps.Equal(e.detail.GetMetadata(), want) {
		t.Errorf("before the login has ended: %v", e.detail.GetMetadata())
	}
	_, _ = f.endLogin(c, begun.GetState(), "ann") // the answer is not read
	conn, err := byKey()
	if err != nil || conn.GetIdempotencyKey() != "user-42:member" || conn.GetAccountIdentity() != "ann" || conn.GetCredentialFingerprint() == "" {
		t.Fatalf("after it: %v, %v", conn, err)
	}
	// And another login for it, by the key.
	again := f.startLogin(c, own(&connectionsv1.StartOAuthRequest{
		App: "app", Target: &connectionsv1.StartOAuthRequest_IdempotencyKey{IdempotencyKey: "user-42:member"},
	}))
	done, err := f.endLogin(c, again.GetState(), "ann-2")
	if err != nil || done.GetCreated() || done.GetConnection().GetConnectionId() != conn.GetConnectionId() ||
		done.GetConnection().GetCredentialFingerprint() == conn.GetCredentialFingerprint() {
		t.Errorf("logged in again: %v, %v", done, err)
	}
}

// TestConnectionByKey: every RPC that takes a connection takes its key, and an error
// names what the request named.
func TestConnectionByKey(t *testing.T) {
	f := start(t, withSocial(nil))
	c := overConnect(f)
	conn := f.connect(c, "user-7", "ann-1")
	for name, tt := range map[string]struct {
		of  func(key string) proto.Message
		res proto.Message
	}{
		"GetConnection": {func(key string) proto.Message {
			return &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_IdempotencyKey{IdempotencyKey: key}}
		}, &connectionsv1.GetConnectionResponse{}},
		"TestConnection": {func(key string) proto.Message {
			return &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_IdempotencyKey{IdempotencyKey: key}}
		}, &connectionsv1.TestConnectionResponse{}},
		"PauseConnection": {func(key string) proto.Message {
			return &connectionsv1.PauseConnectionRequest{Connection: &connectionsv1.PauseConnectionRequest_IdempotencyKey{IdempotencyKey: key}}
		}, &connectionsv1.PauseConnectionResponse{}},
		"ResumeConnection": {func(key string) proto.Message {
			return &connectionsv1.ResumeConnectionRequest{Connection: &connectionsv1.ResumeConnectionRequest_IdempotencyKey{IdempotencyKey: key}}
		}, &connectionsv1.ResumeConnectionResponse{}},
		"RotateCredential": {func(key string) proto.Message {
			return &connectionsv1.RotateCredentialRequest{
				Connection: &connectionsv1.RotateCredentialRequest_IdempotencyKey{IdempotencyKey: key}, Credential: token("ann-2"),
			}
		}, &connectionsv1.RotateCredentialResponse{}},
	} {
		if err := c.call(t.Context(), connsPath+name, tt.of("user-7"), tt.res); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got, ok := tt.res.(interface {
			GetConnection() *connectionsv1.Connection
		}); ok && got.GetConnection().GetConnectionId() != conn.GetConnectionId() {
			t.Errorf("%s: %v", name, got.GetConnection())
		}
		err := c.call(t.Context(), connsPath+name, tt.of("user-8"), tt.res)
		if e := wantReason(t, err, noConnection); !maps.Equal(e.detail.GetMetadata(), map[string]string{"idempotency_key": "user-8"}) {
			t.Errorf("%s of nothing: %v", name, e.detail.GetMetadata())
		}
	}
	byKey := &connectionsv1.UpdateConnectionRequest_IdempotencyKey{IdempotencyKey: "user-7"}
	got, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{Connection: byKey, Labels: map[string]string{"user": "7"}}, "labels")
	if err != nil || got.GetLabels()["user"] != "7" {
		t.Fatalf("labels: %v, %v", got, err)
	}
	same, err := f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{Connection: byKey, Labels: map[string]string{"user": "7"}, Etag: "e1"}, "labels")
	if err != nil || !proto.Equal(same, got) {
		t.Errorf("labels that are in place: %v, %v", same, err)
	}
	if got, err = f.updateConnection(c, &connectionsv1.UpdateConnectionRequest{Connection: byKey}, "labels"); err != nil || len(got.GetLabels()) != 0 {
		t.Errorf("no labels: %v, %v", got, err)
	}
	// A deleted connection keeps its key.
	gone := &connectionsv1.DeleteConnectionRequest{Connection: &connectionsv1.DeleteConnectionRequest_IdempotencyKey{IdempotencyKey: "user-7"}}
	f.must(c.call(t.Context(), connsPath+"DeleteConnection", gone, &connectionsv1.DeleteConnectionResponse{}))
	again := f.connect(c, "user-7", "ann-1")
	if again.GetConnectionId() != conn.GetConnectionId() || again.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_DELETED {
		t.Errorf("created again: %v", again)
	}
}

func TestListConnectionsFilter(t *testing.T) {
	f := start(t, withSocial(nil))
	c := overConnect(f)
	for _, user := range []string{"1", "2", "3"} {
		_, err := ask[connectionsv1.CreateConnectionResponse](t, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "user-" + user, Connection: &connectionsv1.Connection{
				Connector: "social", DisplayName: "Account of " + user, Labels: map[string]string{"user": user, "tenant": "acme"},
				Settings: &connectionsv1.Connection_Custom{Custom: settingsOf()},
			},
		})
		f.must(err)
	}
	_, err := ask[connectionsv1.PauseConnectionResponse](t, c, connsPath+"PauseConnection", &connectionsv1.PauseConnectionRequest{
		Connection: &connectionsv1.PauseConnectionRequest_IdempotencyKey{IdempotencyKey: "user-2"},
	})
	f.must(err)
	const paused = connectionsv1.ConnectionState_CONNECTION_STATE_PAUSED
	for name, tt := range map[string]struct {
		filter *connectionsv1.ConnectionFilter
		want   []string
	}{
		"labels":    {&connectionsv1.ConnectionFilter{Labels: map[string]string{"tenant": "acme", "user": "3"}}, []string{"user-3"}},
		"a state":   {&connectionsv1.ConnectionFilter{States: []connectionsv1.ConnectionState{paused}}, []string{"user-2"}},
		"keys":      {&connectionsv1.ConnectionFilter{IdempotencyKeys: []string{"user-1", "user-3"}}, []string{"user-3", "user-1"}},
		"connector": {&connectionsv1.ConnectionFilter{Connectors: []string{"social"}}, []string{"user-3", "user-2", "user-1"}},
		"a text":    {&connectionsv1.ConnectionFilter{Text: "account OF 1"}, []string{"user-1"}},
		"nothing":   {&connectionsv1.ConnectionFilter{AccountIdentity: "nobody"}, nil},
	} {
		var got []string
		req := &connectionsv1.ListConnectionsRequest{Filter: tt.filter, PageSize: 1}
		for range 9 {
			page, err := ask[connectionsv1.ListConnectionsResponse](t, c, connsPath+"ListConnections", req)
			f.must(err)
			for _, conn := range page.GetConnections() {
				got = append(got, conn.GetIdempotencyKey())
			}
			if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	// A page token is one query's.
	page, err := ask[connectionsv1.ListConnectionsResponse](t, c, connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{PageSize: 1})
	f.must(err)
	_, err = ask[connectionsv1.ListConnectionsResponse](t, c, connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{
		PageToken: page.GetNextPageToken(), Filter: &connectionsv1.ConnectionFilter{Text: "x"},
	})
	wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_PAGE_TOKEN_INVALID)
}
