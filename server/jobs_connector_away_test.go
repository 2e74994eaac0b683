package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// TestConnectorAway: while a connector cannot be asked, jobs are stored all the
// same, and connections are not.
func TestConnectorAway(t *testing.T) {
	overEach(t, func(t *testing.T, f *fixture, c client) {
		stored := &fireoncev1.ScheduleJobResponse{}
		f.must(c.call(t.Context(), scheduleJob, f.request("k", func(r *scheduleRequest) { r.Payload = custom("away/v1", "") }), stored))
		if !stored.GetCreated() || f.claim().HoldKey != "hold of one who is away" {
			t.Errorf("stored as %v", stored)
		}
		err := c.call(t.Context(), connsPath+"CreateConnection", &connectionsv1.CreateConnectionRequest{
			IdempotencyKey: "new", Connection: &connectionsv1.Connection{Connector: "stub", Settings: &connectionsv1.Connection_Custom{
				Custom: &connectionsv1.CustomSettings{Values: map[string]string{"is": "away"}},
			}},
		}, &connectionsv1.CreateConnectionResponse{})
		e := wantReason(t, err, fireoncev1.ErrorReason_ERROR_REASON_CONNECTOR_UNAVAILABLE)
		if !strings.Contains(e.msg, "nobody there") || !slices.Contains(e.types, "google.rpc.RetryInfo") {
			t.Errorf("error %v, want UNAVAILABLE with the connector's words", err)
		}
	})
}
