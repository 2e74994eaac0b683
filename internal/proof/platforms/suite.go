package platforms

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/faultproxy"
)

// Platform is a platform with one account, and the connector for it.
type Platform struct {
	// URL is where the platform is.
	URL string
	// Roots have signed the platform's certificate; nil: the system's.
	Roots *x509.CertPool
	// Connector makes the connector. It reaches the platform at baseURL, through the
	// proxy. What it waits for after an unknown outcome is as short as it can be.
	Connector func(s *transport.Sender, baseURL string) connector.Connector
	// Settings are the connection's, encoded.
	Settings func(baseURL string) []byte
	// Credential is the account's, valid. Renewed is another one of the same account.
	Credential, Renewed *connectionsv1.Credential
	// Class is what a job of the connection has in the end.
	Class job.Class
	// Payload is one that says text.
	Payload func(text string) *fireoncev1.Payload
	// Commits reports whether a request is the one that makes the effect.
	Commits func(faultproxy.Request) bool
	// Asks reports whether a request carries the credential to the platform; nil: every
	// one does.
	Asks func(faultproxy.Request) bool
	// Sends reports whether a request is the last one that a credential may be refused to
	// before the effect; nil: the one that commits.
	Sends func(faultproxy.Request) bool
	// Parent returns what an object answers, by its external id; nil: nothing can be
	// answered here.
	Parent func(externalID string) string
	// Effects are the platform's objects that say text, by their external ids.
	Effects func(text string) []string
	// FlatThreads is set if an answer to an answer is one to the thread's beginning.
	FlatThreads bool
	// NoNames is set if the platform does not report the name of an effect, so that
	// jobs have no external id.
	NoNames bool
	// Unauthorized is how the platform refuses a credential, Limited how it asks to
	// wait, and Refused how it refuses content for good.
	Unauthorized, Refused faultproxy.Fate
	Limited               func(wait time.Duration) faultproxy.Fate
	// HoldWords and RefusedWords are parts of the messages to a user: what to do about
	// the credential, and why the content was not taken.
	HoldWords, RefusedWords string
}

// Run runs what is promised about every platform that can be looked at or dedupes.
// Each case makes a platform of its own.
func Run(t *testing.T, platform func(t *testing.T) Platform) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Platform){
		"one job, one effect":                                     testPlain,
		"two identical jobs are two effects":                      testTwins,
		"twins, the first answer lost":                            func(t *testing.T, p Platform) { testTwinsLost(t, p, 1) },
		"twins, the second answer lost":                           func(t *testing.T, p Platform) { testTwinsLost(t, p, 2) },
		"twins, both answers lost":                                func(t *testing.T, p Platform) { testTwinsLost(t, p, 1, 2) },
		"the answer is lost after the effect":                     lostAfter(faultproxy.DropAfter),
		"502 after the effect":                                    lostAfter(faultproxy.FailAfter),
		"the answer is cut off after the effect":                  lostAfter(faultproxy.TruncateAfter),
		"no answer after the effect":                              lostAfter(faultproxy.SilentAfter),
		"the request is lost before it arrives":                   testLostBefore,
		"a refused credential holds until there is a new one":     testUnauthorized,
		"a credential is refused to the send":                     testUnauthorizedSend,
		"a credential is refused after the answer was lost":       testUnauthorizedLook,
		"a rate limit is waited for, and costs no attempt":        testLimited,
		"a rate limit before the send costs nothing":              testLimitedEarly,
		"a rate limit holds the connection's other jobs":          testLimitedOthers,
		"what the platform refuses for good fails with its words": testRefused,
		"a thread whose answers are lost":                         testThread,
		"an answer to what was refused is never sent":             testThreadRefused,
		"what is there already is not made again":                 testPresent,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, platform(t))
		})
	}
}

// commit is a plan for the requests that commit: the fates in turn, then Pass.
func (w *World) commit(fates ...faultproxy.Fate) {
	n := 0
	w.Proxy.Plan(func(r faultproxy.Request) faultproxy.Fate {
		if !w.platform.Commits(r) {
			return faultproxy.Fate{}
		}
		n++
		if n > len(fates) {
			return faultproxy.Fate{}
		}
		return fates[n-1]
	})
}

// once checks that the jobs have one effect each, and each its own.
func (w *World) once(text string, ids ...job.ID) {
	w.t.Helper()
	effects := w.platform.Effects(text)
	if len(effects) != len(ids) {
		w.t.Errorf("%d effects of %d jobs: %q", len(effects), len(ids), effects)
		for _, id := range ids {
			w.t.Log(w.Story(id))
		}
	}
	if w.platform.NoNames {
		return
	}
	left := make(map[string]bool)
	for _, id := range effects {
		left[id] = true
	}
	for _, id := range ids {
		s := w.Job(id)
		if !left[s.Effect.ExternalID] {
			w.t.Errorf("the job is bound to %q; the platform has %q\n%s", s.Effect.ExternalID, effects, w.Story(id))
		}
		delete(left, s.Effect.ExternalID)
	}
}

func testPlain(t *testing.T, p Platform) {
	w := NewWorld(t, p)
	id := w.Submit("one", p.Payload("plain words"))
	s := w.UntilState(id, job.Succeeded)
	if s.Class != p.Class || s.Attempt != 1 {
		t.Errorf("class %s after %d attempts\n%s", s.Class, s.Attempt, w.Story(id))
	}
	w.once("plain words", id)
}

func testTwins(t *testing.T, p Platform) {
	w := NewWorld(t, p)
	a, b := w.Submit("one", p.Payload("same words")), w.Submit("two", p.Payload("same words"))
	w.UntilState(a, job.Succeeded)
	w.UntilState(b, job.Succeeded)
	w.once("same words", a, b)
}

func testTwinsLost(t *testing.T, p Platform, lost ...int) {
	w := NewWorld(t, p)
	fates := make([]faultproxy.Fate, slices.Max(lost))
	for _, n := range lost {
		fates[n-1].Fault = faultproxy.DropAfter
	}
	w.commit(fates...)
	a, b := w.Submit("one", p.Payload("same words")), w.Submit("two", p.Payload("same words"))
	w.UntilState(a, job.Succeeded)
	w.UntilState(b, job.Succeeded)
	w.delivered(faultproxy.DropAfter)
	w.once("same words", a, b)
}

func lostAfter(f faultproxy.Fault) func(*testing.T, Platform) {
	return func(t *testing.T, p Platform) {
		w := NewWorld(t, p)
		w.commit(faultproxy.Fate{Fault: f})
		id := w.Submit("one", p.Payload("lost words"))
		w.UntilState(id, job.Succeeded)
		w.delivered(f)
		w.once("lost words", id)
	}
}

func testLostBefore(t *testing.T, p Platform) {
	w := NewWorld(t, p)
	w.commit(faultproxy.Fate{Fault: faultproxy.DropBefore})
	id := w.Submit("one", p.Payload("lost words"))
	s := w.UntilState(id, job.Succeeded)
	w.delivered(faultproxy.DropBefore)
	if s.Attempt != 2 {
		t.Errorf("%d attempts, want 2\n%s", s.Attempt, w.Story(id))
	}
	w.once("lost words", id)
}

// delivered checks that the fault that a case is about did happen.
func (w *World) delivered(f faultproxy.Fault) {
	w.t.Helper()
	if w.Proxy.Delivered()[f] == 0 {
		w.t.Errorf("no request met the fault %q", f)
	}
}
