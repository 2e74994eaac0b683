package server_test

import (
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/server"
)

// needy is a connector that does nothing without a credential.
type needy struct{ stub }

func (n needy) Describe() connector.Description {
	d := n.stub.Describe()
	d.CredentialRequired = true
	return d
}

// TestNoCredentialHoldsFromTheStart: a connection without the credential that it needs is
// on hold before its first job, and its jobs say what they wait for.
func TestNoCredentialHoldsFromTheStart(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *server.Config) {
		all, err := connector.NewRegistry(
			stub{"stub", []job.Class{job.Opaque}, true}, needy{stub{"needy", []job.Class{job.Opaque}, true}})
		if err != nil {
			t.Fatal(err)
		}
		c.Connectors = all
	})
	c := overGRPC(f)
	var made connectionsv1.CreateConnectionResponse
	f.must(c.call(t.Context(), connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
		IdempotencyKey: "needy", Connection: &connectionsv1.Connection{Connector: "needy"},
	}, &made))
	id := made.GetConnection().GetConnectionId()
	for name, got := range map[string]*connectionsv1.Connection{"made": made.GetConnection(), "read": f.connection(c, id)} {
		if got.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD || got.GetAuthHoldTime() == nil ||
			got.GetStateCause() != fireoncev1.ConnectionStateCause_CONNECTION_STATE_CAUSE_CREDENTIAL_MISSING || got.GetStateReason() == "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	var held connectionsv1.ListConnectionsResponse
	f.must(c.call(t.Context(), connsPath+"ListConnections", &connectionsv1.ListConnectionsRequest{Filter: &connectionsv1.ConnectionFilter{
		States: []connectionsv1.ConnectionState{connectionsv1.ConnectionState_CONNECTION_STATE_AUTH_HOLD},
	}}, &held))
	if len(held.GetConnections()) != 1 || held.GetConnections()[0].GetConnectionId() != id {
		t.Errorf("on hold: %v", held.GetConnections())
	}
	j := f.schedule(f.request("k", func(r *scheduleRequest) { r.Connection = onConnection(id) }))
	if got := j.GetBlockedReason(); got.GetKind() != fireoncev1.BlockedReason_KIND_CREDENTIAL || got.GetMessage() == "" {
		t.Errorf("blocked by %v", got)
	}
	after, err := f.rotate(c, made.GetConnection(), "token-of-the-account", "")
	f.must(err)
	if after.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE || after.GetStateCause() != 0 {
		t.Errorf("with a credential: %v", after)
	}
	if got := f.read(c, j.GetJobId()).GetBlockedReason(); got != nil {
		t.Errorf("with a credential the job is blocked by %v", got)
	}
	if other := f.connection(c, f.conn); other.GetState() != connectionsv1.ConnectionState_CONNECTION_STATE_ACTIVE {
		t.Errorf("one that needs none: %v", other)
	}
}
