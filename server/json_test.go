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
		if strings.Contains(err.Error(), "HUSH") && !strings.Contains(err.Error(), "unknown field") {
			t.Errorf("%s: %v", body, err)
		}
	}
	err := strictJSON{}.Unmarshal([]byte(`{"scheduldFor": 1}`), &fireoncev1.ScheduleJobRequest{})
	if err == nil || !strings.Contains(err.Error(), `unknown field "scheduldFor"`) {
		t.Errorf("a misspelt field is not named: %v", err)
	}
}
