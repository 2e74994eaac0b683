package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
)

// social is a connector whose platform names the account of a token: what is before its first
// dash.
type social struct {
	stub
	tests func() // called with each test
}

func (s social) Check(settings []byte, cred connector.Credential) (connector.Capability, error) {
	capability, err := s.stub.Check(settings, cred)
	capability.Identity, capability.Unsure = "", strings.Contains(string(settings), "unsure")
	if strings.Contains(string(settings), "keyed") {
		capability.Traits = job.Traits{Class: job.Keyed, KeyWindow: time.Hour}
	}
	return capability, err
}

func (s social) Test(ctx context.Context, o connector.Opening) (connector.Tested, error) {
	if s.tests != nil {
		s.tests()
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return connector.Tested{}, errors.New("not bounded")
	}
	var c connectionsv1.Credential
	if err := proto.Unmarshal(o.Credential.Data, &c); err != nil {
		return connector.Tested{}, err
	}
	name, _, _ := strings.Cut(c.GetBearerToken().GetToken(), "-")
	switch {
	case strings.Contains(string(o.Settings), "elsewhere"):
		return connector.Tested{Identity: name + " elsewhere"}, nil
	case name == "refused":
		return connector.Tested{}, &connector.Refusal{Kind: job.FailAuth, Msg: "Reconnect this account"}
	case name == "down":
		return connector.Tested{}, fmt.Errorf("dial: secret-address")
	}
	return connector.Tested{Identity: name, Detail: "the account of " + name}, nil
}

func (s social) Probe(context.Context, connector.Opening) (job.Traits, error) {
	return job.Traits{Class: job.Observable}, nil
}

func withSocial(tests func()) func(*server.Config) {
	return func(c *server.Config) {
		var err error
		c.Connectors, err = connector.NewRegistry(
			stub{"stub", []job.Class{job.Opaque}, true}, stub{"webhook", []job.Class{job.Opaque}, false},
			social{stub{"social", []job.Class{job.Opaque, job.Keyed}, false}, tests},
		)
		if err != nil {
			panic(err)
		}
	}
}

func token(text string) *connectionsv1.Credential {
	return &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: text}}}
}

func settingsOf(values ...string) *connectionsv1.CustomSettings {
	out := &connectionsv1.CustomSettings{Values: map[string]string{}}
	for _, v := range values {
		out.Values[v] = "x"
	}
	return out
}

// connect makes a connection of connector social.
func (f *fixture) connect(c client, key, secret string, settings ...string) *connectionsv1.Connection {
	f.tb.Helper()
	req := &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: key, Credential: token(secret), Connection: &connectionsv1.Connection{
			Connector: "social", DisplayName: "Ann", Settings: &connectionsv1.Connection_Custom{Custom: settingsOf(settings...)},
		},
	}
	res, err := ask[connectionsv1.CreateConnectionResponse](f.tb, c, connsPath+"CreateConnection", req)
	f.must(err)
	return res.GetConnection()
}

func (f *fixture) rotate(c client, conn *connectionsv1.Connection, secret, etag string) (*connectionsv1.Connection, error) {
	res, err := ask[connectionsv1.RotateCredentialResponse](f.tb, c, connsPath+"RotateCredential", &connectionsv1.RotateCredentialRequest{
		Connection: &connectionsv1.RotateCredentialRequest_ConnectionId{ConnectionId: conn.GetConnectionId()}, Credential: token(secret), Etag: etag,
	})
	return res.GetConnection(), err
}

func (f *fixture) updateConnection(c client, req *connectionsv1.UpdateConnectionRequest, mask ...string) (*connectionsv1.Connection, error) {
	req.UpdateMask = &fieldmaskpb.FieldMask{Paths: mask}
	res, err := ask[connectionsv1.UpdateConnectionResponse](f.tb, c, connsPath+"UpdateConnection", req)
	return res.GetConnection(), err
}

func (f *fixture) pause(c client, id, reason string) *connectionsv1.Connection {
	f.tb.Helper()
	res, err := ask[connectionsv1.PauseConnectionResponse](f.tb, c, connsPath+"PauseConnection", &connectionsv1.PauseConnectionRequest{Connection: &connectionsv1.PauseConnectionRequest_ConnectionId{ConnectionId: id}, Reason: reason})
	f.must(err)
	return res.GetConnection()
}

func (f *fixture) resume(c client, id string, expire bool) *connectionsv1.Connection {
	f.tb.Helper()
	res, err := ask[connectionsv1.ResumeConnectionResponse](f.tb, c, connsPath+"ResumeConnection", &connectionsv1.ResumeConnectionRequest{Connection: &connectionsv1.ResumeConnectionRequest_ConnectionId{ConnectionId: id}, ExpireMissed: expire})
	f.must(err)
	return res.GetConnection()
}

func (f *fixture) remove(c client, id, etag string) error {
	_, err := ask[connectionsv1.DeleteConnectionResponse](f.tb, c, connsPath+"DeleteConnection", &connectionsv1.DeleteConnectionRequest{Connection: &connectionsv1.DeleteConnectionRequest_ConnectionId{ConnectionId: id}, Etag: etag})
	return err
}

func (f *fixture) test(c client, id string) *connectionsv1.TestConnectionResponse {
	f.tb.Helper()
	res, err := ask[connectionsv1.TestConnectionResponse](f.tb, c, connsPath+"TestConnection", &connectionsv1.TestConnectionRequest{Connection: &connectionsv1.TestConnectionRequest_ConnectionId{ConnectionId: id}})
	f.must(err)
	return res
}

func (f *fixture) connection(c client, id string) *connectionsv1.Connection {
	f.tb.Helper()
	res, err := ask[connectionsv1.GetConnectionResponse](f.tb, c, connsPath+"GetConnection", &connectionsv1.GetConnectionRequest{Connection: &connectionsv1.GetConnectionRequest_ConnectionId{ConnectionId: id}})
	f.must(err)
	return res.GetConnection()
}
