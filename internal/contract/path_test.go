package contract_test

import (
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
)

// TestPathIn checks that a path is cut where it leaves the message.
func TestPathIn(t *testing.T) {
	t.Parallel()
	request := (&fireoncev1.ScheduleJobRequest{}).ProtoReflect().Descriptor()
	for path, want := range map[string]string{
		"":                                    "",
		"payload":                             "payload",
		"payload.webhook.headers[2].name":     "payload.webhook.headers[2].name",
		"payload.webhook.headers":             "payload.webhook.headers",
		`labels["team"]`:                      `labels["team"]`,
		`labels["a\"].b[0]"]`:                 `labels["a\"].b[0]"]`,
		"connection":                          "connection", // a oneof
		"payload.kind":                        "payload.kind",
		"schedule_time":                       "schedule_time",
		"settings.http":                       "",
		"Payload":                             "",
		"payload.":                            "payload",
		"payload.nothing":                     "payload",
		"payload.custom.data.amount":          "payload.custom.data",
		"payload.webhook.headers.name":        "payload.webhook.headers",
		"payload.webhook.headers[x].name":     "payload.webhook.headers",
		"payload.webhook.headers[-1]":         "payload.webhook.headers",
		"payload.webhook.headers[1":           "payload.webhook.headers",
		"payload.webhook.headers[1]name":      "payload.webhook.headers[1]",
		"payload[0]":                          "payload",
		"labels[team]":                        "labels",
		`labels["team`:                        "labels",
		`labels["team"].name`:                 `labels["team"]`,
		"connection.connection_id":            "connection",
		"payload.webhook.url\nand more words": "payload.webhook",
	} {
		if got := contract.PathIn(request, path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}
