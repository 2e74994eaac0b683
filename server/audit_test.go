package server_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
	"github.com/fireonce/fireonce/store"
)

func called(name string) func(*store.NewAPIKey) {
	return func(k *store.NewAPIKey) { k.Name = name }
}

// TestConnectionActors: a connection names its creator and the actor of its last change, and the
// log has a line for each change, without values.
func TestConnectionActors(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, withSocial(nil), requireKey)
			c := dial(f)
			ann := f.issue(server.DefaultProject, server.Scopes(), called("ann"))
			bare := f.issue(server.DefaultProject, server.Scopes())
			annCtx, bareCtx := bring(t.Context(), ann.Reveal()), bring(t.Context(), bare.Reveal())
			made, err := askWith[connectionsv1.CreateConnectionResponse](annCtx, c, connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
				IdempotencyKey: "c", Credential: token("secret-1"), Connection: &connectionsv1.Connection{Connector: "social", DisplayName: "a private name"},
			})
			f.must(err)
			id := made.GetConnection().GetConnectionId()
			want := func(by string) {
				t.Helper()
				got, err := askWith[connectionsv1.GetConnectionResponse](annCtx, c, connsPath+"GetConnection", &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: id}})
				f.must(err)
				if conn := got.GetConnection(); conn.GetCreatedBy() != "api:ann/"+ann.ID || conn.GetUpdatedBy() != by {
					t.Errorf("created by %q, updated by %q; want %q", conn.GetCreatedBy(), conn.GetUpdatedBy(), by)
				}
			}
			want("api:ann/" + ann.ID)
			changed := func(by, parts string, err error) {
				t.Helper()
				f.must(err)
				want(by)
				log := f.logs.String()
				line, _, _ := strings.Cut(log[strings.LastIndex(log, `"msg":"a connection was changed"`):], "\n")
				if !strings.Contains(line, `"by":"`+by+`"`) || !strings.Contains(line, `"changed":[`+parts+`]`) || !strings.Contains(line, id) {
					t.Errorf("log: %s", line)
				}
			}
			_, err = askWith[connectionsv1.PauseConnectionResponse](bareCtx, c, connsPath+"PauseConnection", &connectionsv1.PauseConnectionRequest{Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: id}, Reason: "a private reason"})
			changed("api:"+bare.ID, `"paused"`, err)
			_, err = askWith[connectionsv1.RotateCredentialResponse](annCtx, c, connsPath+"RotateCredential", &connectionsv1.RotateCredentialRequest{Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: id}, Credential: token("secret-2")})
			changed("api:ann/"+ann.ID, `"account_identity","credential"`, err)
			_, err = askWith[connectionsv1.UpdateConnectionResponse](bareCtx, c, connsPath+"UpdateConnection", &connectionsv1.UpdateConnectionRequest{
				Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, DisplayName: "another private name", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}},
			})
			changed("api:"+bare.ID, `"display_name"`, err)
			// A repeat changes nothing, and has no line.
			lines := strings.Count(f.logs.String(), "a connection was changed")
			_, err = askWith[connectionsv1.UpdateConnectionResponse](annCtx, c, connsPath+"UpdateConnection", &connectionsv1.UpdateConnectionRequest{
				Connection: &connectionsv1.UpdateConnectionRequest_ConnectionId{ConnectionId: id}, DisplayName: "another private name", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"display_name"}},
			})
			f.must(err)
			want("api:" + bare.ID)
			log := f.logs.String()
			if n := strings.Count(log, "a connection was changed"); n != lines || strings.Count(log, "a connection was created") != 1 {
				t.Errorf("%d lines, then %d", lines, n)
			}
			if strings.Contains(log, "private") || strings.Contains(log, "secret-") {
				t.Errorf("the log has values: %s", log)
			}
		})
	}
}

// TestKeyNames: two live keys of a project cannot be taken for each other.
func TestKeyNames(t *testing.T) {
	const taken = fireoncev1.ErrorReason_ERROR_REASON_API_KEY_NAME_TAKEN
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, withOperator)
			c, operator := dial(f), bring(t.Context(), operatorKey)
			create := func(project, name string) (*adminv1.CreateApiKeyResponse, error) {
				return askWith[adminv1.CreateApiKeyResponse](operator, c, accessPath+"CreateApiKey", &adminv1.CreateApiKeyRequest{
					ProjectId: project, CreateProject: true, Name: name, Scopes: []string{server.ScopeJobsRead},
				})
			}
			first, err := create("shop", "till")
			f.must(err)
			_, err = create("shop", "till")
			if e := wantReason(t, err, taken); e.detail.GetMetadata()["name"] != "till" {
				t.Errorf("metadata %v", e.detail)
			}
			_, err = create("other", "till")
			f.must(err)
			for _, bad := range []string{first.GetApiKey().GetApiKeyId(), "0123456789ABCDEF", "key", "a/b", "a b"} {
				if _, err := create("shop", bad); err == nil || !strings.Contains(err.Error(), "ErrorDetail") {
					t.Errorf("name %q: %v", bad, err)
				}
			}
			_, err = askWith[adminv1.RevokeApiKeyResponse](operator, c, accessPath+"RevokeApiKey", &adminv1.RevokeApiKeyRequest{ApiKeyId: first.GetApiKey().GetApiKeyId()})
			f.must(err)
			_, err = create("shop", "till")
			f.must(err)
		})
	}
}
