package connectortest

import (
	"runtime"
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// testIdle: a connection that was used is given to one session at a time, and only to KEYED.
func (s Suite) testIdle(t *testing.T) {
	tr := s.trial(t, Say(s.Success), Say(s.Success))
	idler, ok := tr.c.(connector.Idler)
	if !ok {
		t.Skip("keeps no connections")
	}
	none := func(when string) {
		t.Helper()
		if session := idler.OpenIdle(tr.opening()); session != nil {
			session.Close()
			t.Errorf("a connection %s", when)
		}
	}
	none("before there is one")
	if idler.HasIdle() {
		t.Error("an idle connection before there is one")
	}
	if n := tr.Accepted(); n != 0 {
		t.Errorf("%d connections were made for an idle one", n)
	}
	s.success().check(t, tr.publish(t, tr.open(t), tr.commit(longTime)))
	if s.Class != job.Keyed {
		none("that was used, for " + s.Class.String())
		return
	}
	has := idler.HasIdle()
	session := idler.OpenIdle(tr.opening())
	if has != (session != nil) {
		t.Errorf("has an idle connection: %v, gives one: %v", has, session != nil)
	}
	if session == nil {
		if runtime.GOOS != "linux" {
			t.Skip("no connection is kept here")
		}
		t.Fatal("no connection after one was used")
	}
	none("that another session has")
	fresh := tr.opening()
	fresh.Fresh = true
	session.Close()
	if again := idler.OpenIdle(fresh); again != nil {
		t.Error("a used connection where a fresh one is asked for")
	}
	if session = idler.OpenIdle(tr.opening()); session == nil {
		t.Fatal("no connection after it was put back")
	}
	s.success().check(t, tr.publish(t, session, tr.commit(longTime)))
	tr.settle(t, 2)
	if n := tr.Accepted(); n != 1 {
		t.Errorf("%d connections for two requests", n)
	}
}
