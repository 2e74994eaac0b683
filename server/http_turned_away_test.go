package server_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/server"
)

// TestTurnedAwayLog: a flood of refusals costs two lines a second and reason, and
// hides no other reason.
func TestTurnedAwayLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := prepare(t, requireKey)
		refuse := func(n int, reason fireoncev1.ErrorReason, peers ...string) {
			for i := range n {
				f.server.LogTurnedAway(t.Context(), peers[i%len(peers)], reason)
			}
		}
		const wrong, lacking = fireoncev1.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID, fireoncev1.ErrorReason_ERROR_REASON_SCOPE_MISSING
		refuse(1001, wrong, "192.0.2.1", "192.0.2.2")
		refuse(1, lacking, "[2001:db8::1]")
		count := func(text string) int { return strings.Count(f.logs.String(), text) }
		if count(`"msg":"call turned away"`) != 2 || count(`"peer":"192.0.2.1"`) != 1 || count(`"peer":"2001:db8::/64"`) != 1 {
			t.Errorf("log: %s", f.logs)
		}
		<-time.After(server.TurnedAwayEvery)
		synctest.Wait()
		if count(`"msg":"more calls turned away"`) != 1 || count(`"count":1000,"peers":"192.0.2.2 192.0.2.1"`) != 1 {
			t.Errorf("log: %s", f.logs)
		}
		refuse(1, wrong, "192.0.2.3")
		<-time.After(server.TurnedAwayEvery)
		synctest.Wait()
		if count(`"peer":"192.0.2.3"`) != 1 || count(`"msg":"more calls turned away"`) != 1 {
			t.Errorf("log: %s", f.logs)
		}
	})
}

// TestTurnedAwayPeer: the line has the socket's address, whatever a header says.
func TestTurnedAwayPeer(t *testing.T) {
	for name, dial := range protocols {
		t.Run(name, func(t *testing.T) {
			f := start(t, requireKey)
			wantReason(t, list(t, dial(f), "no-key"), credentialInvalid)
			if !strings.Contains(f.logs.String(), `"reason":"ERROR_REASON_CREDENTIAL_INVALID","peer":"127.0.0.1"`) {
				t.Errorf("log: %s", f.logs)
			}
		})
	}
	f := start(t, requireKey)
	f.do("POST", scheduleJob, "{}", map[string]string{"Content-Type": "application/json", "X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7"})
	if log := f.logs.String(); strings.Contains(log, "192.0.2.7") || !strings.Contains(log, `"peer":"127.0.0.1"`) {
		t.Errorf("log: %s", log)
	}
}
