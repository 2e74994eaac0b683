package server

import (
	"strings"
	"testing"

	fireoncev1 "github.com/fireonce/fireonce/gen/fireonce/v1"
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
		err := strictJSON{}.Unmarshal([]byte(body), &fireoncev1.CreateConnectionRequest{})
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
		`{"scheduldFor": 1}`:                     `unknown field; did you mean "scheduledFor"?`,
		`{"payload": {"email": {"subjet": ""}}}`: `unknown field; did you mean "subject"?`,
		`{"nothing of the kind": 1}`:             `unknown field`,
		`{"sk-live-\u0061\" 12": 1}`:             `unknown field`,
	} {
		err := strictJSON{}.Unmarshal([]byte(body), &fireoncev1.ScheduleJobRequest{})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
