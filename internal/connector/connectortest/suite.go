package connectortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// Suite is a connector under test, with one connection of one class.
type Suite struct {
	// Secure runs the platform with TLS.
	Secure bool
	// New makes the connector over a sender that reaches the platform.
	New func(tb testing.TB, s *transport.Sender) connector.Connector
	// NewAt is New for a platform that has one address, which is no setting.
	NewAt func(tb testing.TB, s *transport.Sender, baseURL string) connector.Connector
	// Request makes a valid request that goes to the base URL, with the connection's
	// settings.
	Request func(baseURL string) connector.Request
	// Credential is the connection's, valid.
	Credential connector.Credential
	// Class is what Check must say of the connection.
	Class job.Class
	// Secrets must appear in no message, error or frozen byte; Request and Credential
	// must hold them.
	Secrets []string
	// Success is the raw answer that means success, or that the platform has accepted
	// a handle; empty: 200 with an empty object.
	Success string
	// Statuses is the connector's row in docs/statuses.md, which then has the meaning of each
	// status.
	Statuses string
	// Table replaces the default classification of single statuses, for a connector without a
	// row.
	Table map[int]Want
	// StatusDecides is set if an answer that is longer than we read is judged by its status.
	StatusDecides bool
	// KeyHeader is the header that carries the effect key; KEYED only. Empty: the key
	// is a part of what is compared in any case.
	KeyHeader string
	// Aside returns the raw answer to a request that the connector makes beside the
	// commit, or beside the listing of a look: a login, say. Empty: it is none of
	// these. Such requests are no part of what the suite counts. The first opening of a
	// trial meets them; what it learnt may be kept.
	Aside func(r Received) string
	// Replayed replaces KeyHeader where the key is in the body: it returns a request's
	// key, and what must be alike in all requests under one key.
	Replayed func(Received) (key, alike string)
	// Reads reports whether a request cannot have an effect; nil: GET and HEAD without
	// a body.
	Reads func(Received) bool
	// Looks is what a look reads; OBSERVABLE only.
	Looks *Looks
	// ReplyTo is an external id that an effect can answer; empty: any text can be one.
	ReplyTo string
	// Marked is set if each object carries its effect key: nothing is mixed up, and
	// so there is no gate. OBSERVABLE only.
	Marked bool
}

// Want is what an outcome must say. Zero fields are not compared, but for
// Result.
type Want struct {
	Result     job.Result
	Kind       job.FailureKind
	RetryAfter time.Duration
}

var (
	unknown   = Want{Result: job.ResultUnknown, Kind: job.FailAmbiguous}
	permanent = Want{Result: job.ResultRejected, Kind: job.FailPermanent}
	succeeded = Want{Result: job.ResultSucceeded}
)

// Times of an exchange whose subject is not time, and of one whose subject is.
const (
	longTime  = 30 * time.Second
	shortTime = 300 * time.Millisecond
	// slack is how late Publish may return on a busy machine.
	slack = 5 * time.Second
)

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Helper()
	if s.Success == "" {
		s.Success = Answer(200, "{}")
	}
	if s.Statuses != "" {
		s.Table = documented(t, s.Statuses)
	}
	t.Run("Check", s.testCheck)
	t.Run("Prepare", s.testPrepare)
	t.Run("Open", s.testOpen)
	t.Run("Faults", s.testFaults)
	t.Run("Statuses", s.testStatuses)
	t.Run("RetryAfter", s.testRetryAfter)
	t.Run("Leave", s.testLeave)
	t.Run("Session", s.testSession)
	t.Run("Idle", s.testIdle)
	t.Run("Reuse", s.testReuse)
	t.Run("Echo", s.testEcho)
	t.Run("ReplyTo", s.testReplyTo)
	if s.Class == job.Keyed {
		t.Run("Replay", s.testReplay)
	}
	if s.Class == job.Observable {
		t.Run("Looks", s.testLooks)
	}
}

// trial is one attempt against one platform.
type trial struct {
	Suite
	*Platform
	c        connector.Connector
	prepared connector.Prepared
	key      string
	// unsent is what the platform had before an attempt that is NOT_SENT.
	unsent *int64
}

func (s Suite) connector(tb testing.TB, sender *transport.Sender, baseURL string) connector.Connector {
	tb.Helper()
	if s.NewAt != nil {
		return s.NewAt(tb, sender, baseURL)
	}
	return s.New(tb, sender)
}

// success is what a send comes to whose answer is Suite.Success.
func (s Suite) success() Want {
	if s.Class == job.Handle {
		return Want{Result: job.ResultAccepted}
	}
	return succeeded
}

func (s Suite) trial(t *testing.T, scripts ...Script) *trial {
	t.Helper()
	p := NewPlatform(t, s.Secure, scripts...)
	if s.Aside != nil {
		p = NewPlatform(t, s.Secure)
		p.mu.Lock()
		p.aside = s.Aside
		p.mu.Unlock()
	}
	tr := &trial{Suite: s, Platform: p, c: s.connector(t, p.Sender(), p.URL())}
	r := s.Request(p.URL())
	tr.key = r.EffectKey
	prepared, err := tr.c.Prepare(r)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	tr.prepared = prepared
	if s.Aside != nil {
		o := tr.opening()
		o.Fresh = true
		session, err := tr.c.Open(t.Context(), o)
		if err != nil {
			t.Fatalf("Open: %v", err)
		}
		session.Close()
		p.restart(scripts)
	}
	return tr
}

func (tr *trial) opening() connector.Opening {
	return connector.Opening{
		Job: job.ID{1}, Connection: job.ID{2}, Settings: tr.Request(tr.URL()).Settings, Class: tr.Class,
		Credential: tr.Credential, Prepared: tr.prepared, Fresh: tr.Class != job.Keyed,
	}
}

// open opens a session; its context ends immediately, which the session must survive.
func (tr *trial) open(t *testing.T) connector.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longTime)
	defer cancel()
	session, err := tr.c.Open(ctx, tr.opening())
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return session
}

func (tr *trial) commit(limit time.Duration) connector.Commit {
	now := time.Now()
	return connector.Commit{
		Attempt: 7, EffectKey: tr.key, SendBy: now.Add(limit), AnswerBy: now.Add(limit),
		MaySend:    func() error { return nil },
		SaveHandle: func(string) error { return nil },
	}
}

// publish makes the attempt and checks what holds for every outcome.
func (tr *trial) publish(t *testing.T, s connector.Session, c connector.Commit) job.Outcome {
	t.Helper()
	before := tr.Bytes()
	o := s.Publish(c)
	if tr.unsent = nil; o.Result == job.ResultNotSent {
		tr.unsent = &before
	}
	if late := time.Since(c.AnswerBy); late > slack {
		t.Errorf("Publish returned %v after AnswerBy", late)
	}
	s.Close()
	tr.checkOutcome(t, o)
	if o.Attempt != c.Attempt {
		t.Errorf("attempt %d, want %d", o.Attempt, c.Attempt)
	}
	return o
}

func (tr *trial) checkOutcome(t *testing.T, o job.Outcome) {
	t.Helper()
	switch o.Result {
	case job.ResultSucceeded, job.ResultAccepted, job.ResultRejected, job.ResultUnknown:
		if o.BytesWritten == 0 {
			t.Errorf("%s with no byte written", o.Result)
		}
	case job.ResultNotSent:
		if o.BytesWritten != 0 {
			t.Errorf("NOT_SENT with %d bytes written", o.BytesWritten)
		}
	default:
		t.Errorf("result %v is none that a send can have", o.Result)
	}
	if (o.Result == job.ResultUnknown) != (o.Kind == job.FailAmbiguous) {
		t.Errorf("%s is said to be %s", o.Result, o.Kind)
	}
	checkMessage(t, o.Message, tr.Secrets)
}

func checkMessage(t *testing.T, msg string, secrets []string) {
	t.Helper()
	if msg == "" || len(msg) > transport.MaxMessage || msg != transport.Clean(msg, transport.MaxMessage) {
		t.Errorf("message not fit for a user: %q", msg)
	}
	for _, secret := range secrets {
		if strings.Contains(msg, secret) {
			t.Errorf("a secret is in the message %q", msg)
		}
	}
}

// settle ends the trial: whatever was still to come has come.
func (tr *trial) settle(t *testing.T, most int) {
	t.Helper()
	tr.Close()
	if tr.unsent != nil && tr.Bytes() != *tr.unsent {
		t.Errorf("NOT_SENT, but the platform got %d bytes", tr.Bytes()-*tr.unsent)
	}
	if n := tr.Started(); n > most {
		t.Errorf("%d requests on the wire, want at most %d", n, most)
	}
}

// want is what the connector makes of a complete answer with the status.
func (s Suite) want(code int) Want {
	if own, ok := s.Table[code]; ok {
		return own
	}
	return s.defaults(code)
}

func (w Want) check(t *testing.T, o job.Outcome) {
	t.Helper()
	if o.Result != w.Result || (w.Kind != 0 && o.Kind != w.Kind) {
		t.Errorf("%s %s (%s), want %s %s", o.Result, o.Kind, o.Message, w.Result, w.Kind)
	}
	if w.RetryAfter != 0 && o.RetryAfter != w.RetryAfter {
		t.Errorf("retry after %v, want %v", o.RetryAfter, w.RetryAfter)
	}
}

func (s Suite) testCheck(t *testing.T) {
	tr := s.trial(t)
	got, err := tr.c.Check(tr.Request(tr.URL()).Settings, s.Credential)
	if err != nil {
		t.Fatal(err)
	}
	if got.Class != s.Class {
		t.Errorf("class %s, want %s", got.Class, s.Class)
	}
	if s.Class == job.Keyed && got.KeyWindow <= 0 {
		t.Error("KEYED without a key window")
	}
	d := tr.c.Describe()
	if !slices.Contains(d.Classes, s.Class) || d.Name == "" || d.Promise == "" || len(d.Payloads) == 0 {
		t.Errorf("incomplete description: %+v", d)
	}
	for _, settings := range [][]byte{{0xff}, {0x08}} {
		_, err := tr.c.Check(settings, s.Credential)
		checkInput(t, err, connector.BadSettings, s.Secrets)
	}
	_, err = tr.c.Check(tr.Request(tr.URL()).Settings, connector.Credential{Data: []byte{0xff, 0xff}})
	checkInput(t, err, connector.BadCredential, s.Secrets)
	for _, text := range []string{fmt.Sprint(s.Credential), fmt.Sprintf("%+v %#v", s.Credential, s.Credential)} {
		for _, secret := range s.Secrets {
			if strings.Contains(text, secret) {
				t.Errorf("a credential prints its secret: %q", text)
			}
		}
	}
	if tr.Accepted() != 0 {
		t.Error("Check or Describe connected to the platform")
	}
}

func checkInput(t *testing.T, err error, want connector.InputReason, secrets []string) {
	t.Helper()
	var input *connector.InputError
	if !errors.As(err, &input) || input.Reason != want {
		t.Errorf("error %v, want an InputError of reason %d", err, want)
		return
	}
	checkMessage(t, err.Error(), secrets)
}

func (s Suite) testPrepare(t *testing.T) {
	tr := s.trial(t)
	again, err := tr.c.Prepare(s.Request(tr.URL()))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Frozen, tr.prepared.Frozen) || !bytes.Equal(again.Gate, tr.prepared.Gate) || again.HoldKey != tr.prepared.HoldKey {
		t.Error("equal requests were prepared differently")
	}
	if len(again.Frozen) == 0 || again.HoldKey == "" {
		t.Error("no frozen bytes or no hold key")
	}
	if (len(again.Gate) > 0) != (s.Class == job.Observable && !s.Marked) {
		t.Errorf("gate %x for class %s", again.Gate, s.Class)
	}
	r := s.Request(tr.URL())
	r.PayloadKind = "no_such_kind"
	_, err = tr.c.Prepare(r)
	checkInput(t, err, connector.PayloadMismatch, s.Secrets)
	r = s.Request(tr.URL())
	r.Payload = []byte{0xff, 0xff, 0xff}
	_, err = tr.c.Prepare(r)
	checkInput(t, err, connector.BadPayload, s.Secrets)
	if tr.Accepted() != 0 {
		t.Error("Prepare connected to the platform")
	}
}

// testReplyTo: what an effect answers is part of it, or refused.
func (s Suite) testReplyTo(t *testing.T) {
	tr := s.trial(t)
	r := s.Request(tr.URL())
	if r.ReplyTo = s.ReplyTo; r.ReplyTo == "" {
		r.ReplyTo = "an-earlier-one"
	}
	reply, err := tr.c.Prepare(r)
	if !tr.c.Describe().Replies {
		checkInput(t, err, connector.BadPayload, s.Secrets)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(reply.Frozen, tr.prepared.Frozen) || len(reply.Gate) > 0 && bytes.Equal(reply.Gate, tr.prepared.Gate) {
		t.Error("a reply is prepared like a post of its own")
	}
}

func (s Suite) testOpen(t *testing.T) {
	t.Run("has no effect", func(t *testing.T) {
		tr := s.trial(t)
		session := tr.open(t)
		session.Close()
		session.Close()
		tr.settle(t, 0)
	})
	t.Run("nobody listens", func(t *testing.T) {
		tr := s.trial(t)
		tr.Close()
		_, err := tr.c.Open(t.Context(), tr.opening())
		checkRefusal(t, err, job.FailTransient, s.Secrets)
	})
	t.Run("egress denied", func(t *testing.T) {
		tr := s.trial(t)
		c := s.connector(t, transport.NewSender(transport.Config{}), tr.URL())
		_, err := c.Open(t.Context(), tr.opening())
		checkRefusal(t, err, job.FailEgressDenied, s.Secrets)
		if tr.Accepted() != 0 {
			t.Error("a denied address was connected to")
		}
	})
	t.Run("context over", func(t *testing.T) {
		tr := s.trial(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := tr.c.Open(ctx, tr.opening())
		checkRefusal(t, err, job.FailTransient, s.Secrets)
	})
	t.Run("broken bytes", func(t *testing.T) {
		tr := s.trial(t)
		o := tr.opening()
		o.Prepared.Frozen = []byte{0xff}
		if _, err := tr.c.Open(t.Context(), o); err == nil {
			t.Error("opened for bytes that are no request")
		}
	})
	if s.Secure {
		t.Run("unknown authority", func(t *testing.T) {
			tr := s.trial(t)
			allow, err := transport.ParseCIDRs("127.0.0.0/8")
			if err != nil {
				t.Fatal(err)
			}
			c := s.connector(t, transport.NewSender(transport.Config{Egress: transport.NewEgress(allow...)}), tr.URL())
			_, err = c.Open(t.Context(), tr.opening())
			checkRefusal(t, err, job.FailTransient, s.Secrets)
			tr.settle(t, 0)
		})
		t.Run("no handshake", func(t *testing.T) {
			tr := s.trial(t, CloseAtAccept)
			_, err := tr.c.Open(t.Context(), tr.opening())
			checkRefusal(t, err, job.FailTransient, s.Secrets)
		})
	}
}

func checkRefusal(t *testing.T, err error, want job.FailureKind, secrets []string) {
	t.Helper()
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != want {
		t.Errorf("error %v, want a Refusal of kind %s", err, want)
		return
	}
	checkMessage(t, err.Error(), secrets)
}

// testLeave: MaySend is asked once, before the first byte, and obeyed.
func (s Suite) testLeave(t *testing.T) {
	t.Run("asked before the first byte", func(t *testing.T) {
		tr := s.trial(t, Say(s.Success))
		session := tr.open(t)
		c := tr.commit(longTime)
		var asked atomic.Int32
		c.MaySend = func() error {
			asked.Add(1)
			if n := tr.Bytes(); n != 0 {
				t.Errorf("%d bytes before leave was asked", n)
			}
			return nil
		}
		s.success().check(t, tr.publish(t, session, c))
		if n := asked.Load(); n != 1 {
			t.Errorf("leave was asked %d times", n)
		}
		tr.settle(t, 1)
	})
	t.Run("refused", func(t *testing.T) {
		tr := s.trial(t, Say(s.Success))
		session := tr.open(t)
		c := tr.commit(longTime)
		c.MaySend = func() error { return errors.New("the clocks disagree") }
		Want{Result: job.ResultNotSent}.check(t, tr.publish(t, session, c))
		tr.settle(t, 0)
		if n := tr.Bytes(); n != 0 {
			t.Errorf("%d bytes went out without leave", n)
		}
	})
	t.Run("time over before the first byte", func(t *testing.T) {
		tr := s.trial(t, Say(s.Success))
		session := tr.open(t)
		Want{Result: job.ResultNotSent}.check(t, tr.publish(t, session, tr.commit(-time.Second)))
		tr.settle(t, 0)
	})
}

func (s Suite) testSession(t *testing.T) {
	t.Run("publishes once", func(t *testing.T) {
		tr := s.trial(t, Say(s.Success))
		session := tr.open(t)
		first := session.Publish(tr.commit(longTime))
		second := session.Publish(tr.commit(longTime))
		session.Close()
		session.Close()
		s.success().check(t, first)
		Want{Result: job.ResultNotSent}.check(t, second)
		tr.settle(t, 1)
	})
	t.Run("closed before", func(t *testing.T) {
		tr := s.trial(t, Say(s.Success))
		session := tr.open(t)
		session.Close()
		Want{Result: job.ResultNotSent}.check(t, session.Publish(tr.commit(longTime)))
		tr.settle(t, 0)
	})
	t.Run("waits for a slow answer", func(t *testing.T) {
		tr := s.trial(t, Script{Do: func(c *Conn) { c.AwaitRelease(); c.Write(s.Success) }})
		session := tr.open(t)
		done := make(chan job.Outcome, 1)
		go func() { done <- session.Publish(tr.commit(longTime)) }()
		tr.AwaitRequests(1)
		tr.Release()
		s.success().check(t, <-done)
		tr.settle(t, 1)
	})
}
