package wire

import (
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
)

// What a client put into the wrong place may be a secret.
func TestJSONErrorsQuoteNoValue(t *testing.T) {
	for _, body := range []string{
		`{"credential": {"webhookSecrets": {"secrets": "HUSH"}}}`,
		`{"credential": {"webhookSecrets": {"secrets": [{"HUSH": 1}]}}}`,
		`{"credential": {"webhookSecrets": "HUSH"}}`,
		`{"credential": "HUSH"}`,
		`{"credential": {"webhookSecrets": {"secrets": [HUSH]}}}`,
		`{"credential": {"webhookSecrets": {"secrets": ["HUSH`,
		`{"connection": {"limits": {"maxInFlight": "HUSH"}}}`,
		`{"connection": {"webhook": {"keyWindow": "HUSH"}}}`,
		`{"connection": {"webhook": {"receiverDedupes": "HUSH"}}}`,
	} {
		err := readJSON([]byte(body), &connectionsv1.CreateConnectionRequest{})
		if err == nil {
			t.Errorf("%s: read", body)
			continue
		}
		t.Log(err)
		if strings.Contains(err.Error(), "HUSH") {
			t.Errorf("%s: %v", body, err)
		}
	}
	for body, want := range map[string]string{
		`{"scheduleTme": 1}`:                     `has no field "scheduleTme"; did you mean "scheduleTime"?`,
		`{"payload": {"email": {"subjet": ""}}}`: `has no field "subjet"; did you mean "subject"?`,
		`{"nothing of the kind": 1}`:             `has a field that this contract does not have; it has idempotencyKey, `,
		`{"sk-live-\u0061\" 12": 1}`:             `has a field that this contract does not have`,
	} {
		err := readJSON([]byte(body), &fireoncev1.ScheduleJobRequest{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-live") {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
