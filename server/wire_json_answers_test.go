package server_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
)

// TestVerdictsInJSON: false and 0 are in the JSON of an answer, and the values in force.
func TestVerdictsInJSON(t *testing.T) {
	t.Parallel()
	f := start(t)
	ask := func(procedure, body string) map[string]any {
		t.Helper()
		res, answer := f.do(http.MethodPost, procedure, body, map[string]string{"Content-Type": "application/json"})
		if res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", procedure, res.StatusCode, answer)
		}
		var out map[string]any
		f.must(json.Unmarshal([]byte(answer), &out))
		return out
	}
	body, err := protojson.Marshal(f.request("one"))
	f.must(err)
	if got := ask(scheduleJob, string(body))["created"]; got != true {
		t.Errorf("the first: created is %v", got)
	}
	again := ask(scheduleJob, string(body))
	if got := again["created"]; got != false {
		t.Errorf("a repeat: created is %v", got)
	}
	j, _ := again["job"].(map[string]any)
	if got := j["attemptCount"]; got != 0.0 {
		t.Errorf("attemptCount is %v", got)
	}
	if _, set := j["effect"]; set {
		t.Errorf("effect is %v", j["effect"])
	}
	retry, _ := j["retryPolicy"].(map[string]any)
	if retry["maxAttempts"] != 5.0 || retry["minBackoff"] != "30s" || retry["maxBackoff"] != "3600s" {
		t.Errorf("retryPolicy is %v", retry)
	}
	if got := ask(connsPath+"TestConnection", `{"connectionId": "`+f.conn+`"}`); got["ok"] == nil {
		t.Errorf("TestConnection: %v", got)
	}
}
