package platforms

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
)

// Rules of this file: a refusal is no effect, and never two. What waits, for a new
// credential or for a limit's end, burns nothing.

const (
	// limit is how long the platforms ask to wait.
	limit = 2 * time.Second
	// unsaid is how long is waited for one that does not say.
	unsaid = transport.DefaultRetryAfter
)

// asks reports whether a request carries the credential.
func (p Platform) asks(r faultproxy.Request) bool { return p.Asks == nil || p.Asks(r) }

// sends reports whether a request is the last one to be refused for its credential.
func (p Platform) sends(r faultproxy.Request) bool {
	if p.Sends != nil {
		return p.Sends(r)
	}
	return p.Commits(r)
}

func testUnauthorized(t *testing.T, p Platform) {
	w := NewWorld(t, p)
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if !p.asks(r) {
			return faultproxy.Fate{}
		}
		return p.Unauthorized
	})
	id := w.Submit("one", p.Payload("held words"))
	w.Until(id, "held", func(s job.Snapshot) bool { return s.Blocked != "" && !s.State.InFlight() })
	w.held(id)
	if s := w.Job(id); s.State.Terminal() || s.Failures != 0 || !strings.Contains(s.Blocked, p.HoldWords) {
		t.Errorf("a job that has to wait is %s after %d failures, and says %q\n%s", s.State, s.Failures, s.Blocked, w.Story(id))
	}
	if n := len(p.Effects("held words")); n != 0 {
		t.Errorf("%d effects", n)
	}
	w.renewed(id, "held words")
}

// The credential is good until the send, and refused there: the attempt had no effect.
func testUnauthorizedSend(t *testing.T, p Platform) {
	if p.Asks != nil {
		t.Skip("the credential goes with one request here, which another case refuses")
	}
	w := NewWorld(t, p)
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if !p.sends(r) {
			return faultproxy.Fate{}
		}
		return p.Unauthorized
	})
	id := w.Submit("one", p.Payload("held words"))
	w.Until(id, "held", func(s job.Snapshot) bool { return s.Blocked != "" && !s.State.InFlight() })
	w.held(id)
	if s := w.Job(id); s.Attempt != 1 || !strings.Contains(s.LastError.Message, p.HoldWords) {
		t.Errorf("%d attempts, error %+v\n%s", s.Attempt, s.LastError, w.Story(id))
	}
	if s := w.renewed(id, "held words"); s.Attempt != 2 {
		t.Errorf("%d attempts\n%s", s.Attempt, w.Story(id))
	}
}

// The answer is lost, and then the credential is refused to each look, poll and
// repeat: the job waits, and its effect is known when there is another one.
func testUnauthorizedLook(t *testing.T, p Platform) {
	if p.Asks != nil {
		t.Skip("what asks about an effect carries no credential here")
	}
	w := NewWorld(t, p)
	lost := false
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		switch {
		case lost:
			return p.Unauthorized
		case p.Commits(r):
			lost = true
			return faultproxy.Fate{Fault: faultproxy.DropAfter}
		default:
			return faultproxy.Fate{}
		}
	})
	id := w.Submit("one", p.Payload("held words"))
	w.Until(id, "held", func(job.Snapshot) bool { return !w.connection().AuthHoldAt.IsZero() })
	w.held(id)
	w.delivered(faultproxy.DropAfter)
	w.renewed(id, "held words")
}

// held checks that the connection is held, in words that tell a user what to do.
func (w *World) held(id job.ID) {
	w.t.Helper()
	conn := w.connection()
	if conn.AuthHoldAt.IsZero() || conn.AuthHoldReason == "" || !strings.Contains(conn.AuthHoldReason, w.platform.HoldWords) {
		w.t.Errorf("the connection is not held as it should be: %+v\n%s", conn, w.Story(id))
	}
}

// renewed returns the connection another credential, and waits for the job's one effect.
func (w *World) renewed(id job.ID, text string) job.Snapshot {
	w.t.Helper()
	w.Proxy.Plan(func(faultproxy.Request) faultproxy.Fate { return faultproxy.Fate{} })
	w.Rotate(w.platform.Renewed)
	if conn := w.connection(); !conn.AuthHoldAt.IsZero() {
		w.t.Errorf("held after the rotation: %+v", conn)
	}
	s := w.UntilState(id, job.Succeeded)
	attempts := w.Attempts(id)
	if last := attempts[len(attempts)-1]; s.Failures != 0 || len(attempts) > 1 && last.CredentialVersion != 2 {
		w.t.Errorf("%d failures, sent with version %d of the credential\n%s", s.Failures, last.CredentialVersion, w.Story(id))
	}
	w.once(text, id)
	return s
}

func testLimited(t *testing.T, p Platform) {
	w := NewWorld(t, p)
	var refused refusal
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if !p.Commits(r) {
			return faultproxy.Fate{}
		}
		return refused.once(r, p.Limited)
	})
	id := w.Submit("one", p.Payload("slow words"))
	s := w.UntilState(id, job.Succeeded)
	w.delivered(faultproxy.Refuse)
	attempts := w.Attempts(id)
	if len(attempts) != 2 || s.Failures != 0 {
		t.Fatalf("%d attempts, %d failures\n%s", len(attempts), s.Failures, w.Story(id))
	}
	at, _ := refused.given()
	if took := attempts[1].ArmedAt.Sub(at); took < limit {
		t.Errorf("sent again after %v, asked to wait %v\n%s", took, limit, w.Story(id))
	}
	w.once("slow words", id)
}

// refusal is a plan's one refusal, and when it was given.
type refusal struct {
	mu  sync.Mutex
	at  time.Time
	who faultproxy.Request
}

// once has the first request that is asked about wait. The platform's time begins after
// ours, and platforms tell theirs in microseconds at best.
func (r *refusal) once(who faultproxy.Request, limited func(time.Duration) faultproxy.Fate) faultproxy.Fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() {
		return faultproxy.Fate{}
	}
	r.at, r.who = time.Now().Truncate(time.Microsecond), who
	return limited(limit)
}

// given returns when it was, and to what.
func (r *refusal) given() (time.Time, faultproxy.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at, r.who
}

// The first request of all is limited, whatever it is.
func testLimitedEarly(t *testing.T, p Platform) {
	if p.Asks != nil {
		t.Skip("the platform hears of the send alone here")
	}
	w := NewWorld(t, p)
	var refused refusal
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate { return refused.once(r, p.Limited) })
	id := w.Submit("one", p.Payload("slow words"))
	s := w.UntilState(id, job.Succeeded)
	attempts := w.Attempts(id)
	at, who := refused.given()
	want := 1
	if p.Commits(who) {
		want = 2
	}
	if s.Failures != 0 || len(attempts) != want {
		t.Errorf("%d attempts and %d failures; limited was %s %s\n%s", len(attempts), s.Failures, who.Method, who.Path, w.Story(id))
	}
	if took := attempts[len(attempts)-1].ArmedAt.Sub(at); took < limit {
		t.Errorf("sent after %v, asked to wait %v\n%s", took, limit, w.Story(id))
	}
	w.once("slow words", id)
}

// One job is limited; the other, which has no limit, waits as long. On a machine that is
// too busy to see the first one wait, the platform asks for a longer wait.
func testLimitedOthers(t *testing.T, p Platform) {
	for wait := limit; !limitsOthers(t, p, wait); wait *= 4 {
		if wait > patience/4 {
			t.Fatalf("the job was never seen to wait for %v", wait)
		}
	}
}

// limitsOthers reports whether the limited job was seen to wait.
func limitsOthers(t *testing.T, p Platform, wait time.Duration) bool {
	w := NewWorld(t, p)
	var refused refusal
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if !p.Commits(r) {
			return faultproxy.Fate{}
		}
		return refused.once(r, func(time.Duration) faultproxy.Fate { return p.Limited(wait) })
	})
	slow, others := fmt.Sprintf("slow words %d", wait/time.Second), fmt.Sprintf("other words %d", wait/time.Second)
	first := w.Submit("one", p.Payload(slow))
	s := w.Until(first, "limited", func(s job.Snapshot) bool { return s.State == job.Retrying || s.State == job.Succeeded })
	if s.State != job.Retrying {
		return false
	}
	at, _ := refused.given()
	if asked := s.NextAt.Sub(at); asked < wait || asked > wait+unsaid/2 {
		t.Errorf("goes on after %v, asked to wait %v\n%s", asked, wait, w.Story(first))
	}
	other := w.Submit("two", p.Payload(others))
	a, b := w.UntilState(first, job.Succeeded), w.UntilState(other, job.Succeeded)
	attempts := w.Attempts(other)
	if a.Failures+b.Failures != 0 || len(attempts) != 1 {
		t.Errorf("%d failures, %d attempts of the other job\n%s", a.Failures+b.Failures, len(attempts), w.Story(other))
	}
	if took := attempts[0].ArmedAt.Sub(at); took < wait {
		t.Errorf("the other job was sent after %v, the platform asked to wait %v\n%s", took, wait, w.Story(other))
	}
	w.once(slow, first)
	w.once(others, other)
	return true
}

func testRefused(t *testing.T, p Platform) {
	w := NewWorld(t, p)
	w.commit(p.Refused)
	id := w.Submit("one", p.Payload("bad words"))
	s := w.UntilState(id, job.Failed)
	w.delivered(faultproxy.Refuse)
	if s.Attempt != 1 || s.LastError.Message == "" || !strings.Contains(s.LastError.Message, p.RefusedWords) {
		t.Errorf("%d attempts, error %+v\n%s", s.Attempt, s.LastError, w.Story(id))
	}
	if n := len(p.Effects("bad words")); n != 0 {
		t.Errorf("%d effects", n)
	}
}
