package connectortest

import (
	"net/http"
	"strings"
	"testing"
)

// testReplay: every attempt under one key sends the same request with the same
// key, on a reused connection as on a new one.
func (s Suite) testReplay(t *testing.T) {
	tr := s.trial(t, Status(http.StatusInternalServerError), Say(s.Success))
	for n := range 3 {
		c := tr.commit(longTime)
		c.Attempt = n + 1
		tr.publish(t, tr.open(t), c)
	}
	tr.settle(t, 3)
	got := tr.Requests()
	if len(got) != 3 {
		t.Fatalf("%d requests", len(got))
	}
	if s.Replayed != nil {
		_, first := s.Replayed(got[0])
		for i, r := range got {
			if key, alike := s.Replayed(r); key != tr.key || alike != first {
				t.Errorf("attempt %d: key %q, want the effect key; %q, want what the first one sent", i+1, key, alike)
			}
		}
		return
	}
	for i, r := range got {
		if r.Line != got[0].Line || string(r.Body) != string(got[0].Body) || r.Get("Content-Type") != got[0].Get("Content-Type") {
			t.Errorf("attempt %d: %q %q, want what the first one sent", i+1, r.Line, r.Body)
		}
		if s.KeyHeader == "" {
			continue
		}
		if values := r.Header[strings.ToLower(s.KeyHeader)]; len(values) != 1 || values[0] != tr.key {
			t.Errorf("attempt %d: %s is %q, want the effect key once", i+1, s.KeyHeader, values)
		}
	}
}
