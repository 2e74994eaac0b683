package connectortest

import (
	"runtime"
	"testing"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/job"
)

// testIdle: a line that was used is given to one at a time, and only to KEYED.
func (s Suite) testIdle(t *testing.T) {
	tr := s.trial(t, Say(s.Success), Say(s.Success))
	idler, ok := tr.c.(connector.Idler)
	if !ok {
		t.Skip("keeps no lines")
	}
	none := func(when string) {
		t.Helper()
		if session := idler.OpenIdle(tr.opening()); session != nil {
			session.Close()
			t.Errorf("a line %s", when)
		}
	}
	none("before there is one")
	if idler.HasIdle() {
		t.Error("an idle line before there is one")
	}
	if n := tr.Accepted(); n != 0 {
		t.Errorf("%d connections were made for an idle line", n)
	}
	s.success().check(t, tr.publish(t, tr.open(t), tr.commit(longTime)))
	if s.Class != job.Keyed {
		none("that was used, for " + s.Class.String())
		return
	}
	has := idler.HasIdle()
	session := idler.OpenIdle(tr.opening())
	if has != (session != nil) {
		t.Errorf("has an idle line: %v, gives one: %v", has, session != nil)
	}
	if session == nil {
		if runtime.GOOS != "linux" {
			t.Skip("no line is kept here")
		}
		t.Fatal("no line after one was used")
	}
	none("that another session has")
	fresh := tr.opening()
	fresh.Fresh = true
	session.Close()
	if again := idler.OpenIdle(fresh); again != nil {
		t.Error("a used line for one who wants a fresh one")
	}
	if session = idler.OpenIdle(tr.opening()); session == nil {
		t.Fatal("no line after it was put back")
	}
	s.success().check(t, tr.publish(t, session, tr.commit(longTime)))
	tr.settle(t, 2)
	if n := tr.Accepted(); n != 1 {
		t.Errorf("%d connections for two requests", n)
	}
}
