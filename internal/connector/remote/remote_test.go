package remote_test

import (
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/remote/remotetest"
	"github.com/fireonce/fireonce/internal/job"
)

func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		class  job.Class
		secure bool
	}{
		"KEYED":            {job.Keyed, false},
		"KEYED/https":      {job.Keyed, true},
		"OBSERVABLE":       {job.Observable, false},
		"OBSERVABLE/https": {job.Observable, true},
		"OPAQUE":           {job.Opaque, false},
	} {
		t.Run(name, func(t *testing.T) {
			remotetest.Run(t, remotetest.Service{
				Class: c.class, Dial: func(tb testing.TB) *remote.Connector { return (&service{class: c.class}).start(tb) },
				Payload: &fireoncev1.Payload{Kind: &fireoncev1.Payload_Custom{Custom: &fireoncev1.CustomPayload{
					Schema: "acme.entry/v1", Data: []byte("Grüße"),
				}}},
			}, c.secure)
		})
	}
}
