//go:build unix

package platforms_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/platforms"
	"github.com/fireonce/fireonce/internal/proof/platforms/postfix"
)

// postWorld is a world whose platform is a Postfix behind a line that breaks.
type postWorld struct {
	*platforms.World
	t      *testing.T
	server *postfix.Server
	line   *smtptest.Cutter
}

func newPostWorld(t *testing.T, o postfix.Options, breaks ...smtptest.Break) *postWorld {
	t.Helper()
	w := &postWorld{t: t, server: postfix.Start(t, o)}
	var err error
	if w.line, err = smtptest.NewCutter(string(w.server.Addr())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.line.Close() })
	w.line.Break(breaks...)
	settings := &connectionsv1.SmtpSettings{
		Host: w.line.Addr().Host(), Port: w.line.Addr().Port(), Security: connectionsv1.SmtpSettings_SECURITY_NONE,
	}
	login := &connectionsv1.Credential{}
	if o.User != "" {
		settings.Security, login = connectionsv1.SmtpSettings_SECURITY_STARTTLS, basic(o.User, o.Password)
	}
	w.World = platforms.NewWorld(t, platforms.Platform{
		// The proxy in front of platforms speaks HTTP, and stays unused.
		URL: "http://127.0.0.1:1", Class: job.Opaque, Credential: login, Roots: w.server.Roots(),
		Connector: func(s *transport.Sender, _ string) connector.Connector {
			return smtp.New(smtp.Config{Sender: s, Media: fetcher(), BusyWait: busyWait})
		},
		Settings: func(string) []byte { return encoded(t, settings) },
	})
	return w
}

// has checks how often a text lies in the mailbox, and that one of those bears the
// job's name. It ends the line.
func (w *postWorld) has(n int, text string, s job.Snapshot) []postfix.Message {
	w.t.Helper()
	w.line.Settle()
	got := w.server.Delivered(w.t, text)
	named := slices.ContainsFunc(got, func(m postfix.Message) bool { return s.Effect != nil && m.ID == s.Effect.ExternalID })
	proven := s.Effect != nil && s.Effect.Proof == job.ProofResponse
	if len(got) != n || proven && !named {
		w.t.Errorf("%d in the mailbox, want %d, bound to %+v\n%s", len(got), n, s.Effect, w.Story(s.ID))
	}
	return got
}

// once is a rule that answers the first question at a stage so, and no other. It
// counts the questions there.
type once struct {
	stage  postfix.Stage
	action postfix.Action
	asked  atomic.Int32
}

func (o *once) rule(a postfix.Ask) postfix.Action {
	if a.Stage == o.stage && o.asked.Add(1) == 1 {
		return o.action
	}
	return ""
}

// always is a rule that answers so at a stage.
func always(stage postfix.Stage, action postfix.Action) func(postfix.Ask) postfix.Action {
	return func(a postfix.Ask) postfix.Action {
		if a.Stage == stage {
			return action
		}
		return ""
	}
}

// What is promised of a relay, with a Postfix: what is counted lies in its mailbox.
func TestPostfix(t *testing.T) {
	t.Parallel()
	t.Run("one job, one e-mail, as it was written", func(t *testing.T) {
		t.Parallel()
		w := newPostWorld(t, postfix.Options{})
		payload := email("plain words\n.\n..two\nFrom here\n")
		payload.GetEmail().To = []string{"Jürgen <jürgen@example.net>"}
		payload.GetEmail().Bcc = []string{"bob@example.net"}
		s := w.UntilState(w.Submit("one", payload), job.Succeeded)
		for _, m := range w.has(2, "plain words\n.\n..two\nFrom here\n", s) { // one for each recipient
			if m.Header.Get("Bcc") != "" || m.ID != s.Effect.ExternalID || s.Attempt != 1 {
				t.Errorf("%+v after %d attempts", m.Header, s.Attempt)
			}
		}
	})
	lost := func(name string, p job.Delivery, test func(*testing.T, *postWorld, job.ID)) {
		t.Run("the answer to the dot is lost: "+name, func(t *testing.T) {
			t.Parallel()
			w := newPostWorld(t, postfix.Options{}, smtptest.AtDot)
			test(t, w, w.Submit("one", email("lost words"), platforms.Delivery(p)))
		})
	}
	lost("ONCE_OR_ASK asks a person, and it is there once", job.OnceOrAsk, func(t *testing.T, w *postWorld, id job.ID) {
		s := w.UntilState(id, job.NeedsResolution)
		if s.Attempt != 1 {
			t.Errorf("%d attempts", s.Attempt)
		}
		w.has(1, "lost words", s)
	})
	lost("AT_MOST_ONCE assumes, and it is there once", job.AtMostOnce, func(t *testing.T, w *postWorld, id job.ID) {
		s := w.UntilState(id, job.Succeeded)
		if s.Attempt != 1 || s.Effect.Proof != job.ProofAssumed {
			t.Errorf("%+v after %d attempts", s.Effect, s.Attempt)
		}
		w.has(1, "lost words", s)
	})
	lost("AT_LEAST_ONCE sends another one", job.AtLeastOnce, func(t *testing.T, w *postWorld, id job.ID) {
		s := w.UntilState(id, job.Succeeded)
		if got := w.has(2, "lost words", s); len(got) == 2 && got[0].ID == got[1].ID {
			t.Errorf("both are called %s", got[0].ID)
		}
	})
	t.Run("cut off before the content: nothing is there, and it is sent again", func(t *testing.T) {
		t.Parallel()
		w := newPostWorld(t, postfix.Options{}, smtptest.AtData, smtptest.AtData)
		s := w.UntilState(w.Submit("one", email("cut words")), job.Succeeded)
		if s.Attempt != 3 {
			t.Errorf("%d attempts\n%s", s.Attempt, w.Story(s.ID))
		}
		w.has(1, "cut words", s)
	})
	t.Run("cut off in the content: nothing is there, and it is sent again", func(t *testing.T) {
		t.Parallel()
		w := newPostWorld(t, postfix.Options{}, smtptest.InContent)
		payload := email("cut words")
		payload.GetEmail().Attachments = []*fireoncev1.MediaRef{{Url: largeFile(t)}}
		s := w.UntilState(w.Submit("one", payload), job.Succeeded)
		if s.Attempt != 2 {
			t.Errorf("%d attempts\n%s", s.Attempt, w.Story(s.ID))
		}
		if got := w.has(1, "cut words", s); len(got) == 1 && len(got[0].Body) < largeSize*4/3 {
			t.Errorf("%d bytes are there", len(got[0].Body))
		}
	})
	t.Run("two identical jobs are two e-mails", func(t *testing.T) {
		t.Parallel()
		w := newPostWorld(t, postfix.Options{})
		a, b := w.Submit("one", email("same words")), w.Submit("two", email("same words"))
		x, y := w.UntilState(a, job.Succeeded), w.UntilState(b, job.Succeeded)
		if w.has(2, "same words", x); x.Effect.ExternalID == y.Effect.ExternalID {
			t.Errorf("both are %s", x.Effect.ExternalID)
		}
	})
}

// What Postfix refuses.
func TestPostfixRefuses(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]*once{
		"a recipient (450, greylisting)": {stage: postfix.Recipient, action: "450 4.2.0 greylisted, come back later"},
		"the message (451)":              {stage: postfix.End, action: "451 4.3.0 try again later"},
	} {
		t.Run("for now: "+name+", and it is tried again", func(t *testing.T) {
			t.Parallel()
			w := newPostWorld(t, postfix.Options{Rule: refusal.rule})
			s := w.UntilState(w.Submit("one", email("slow words")), job.Succeeded)
			if s.Attempt != 2 || refusal.asked.Load() != 2 {
				t.Errorf("%d attempts, %d arrived\n%s", s.Attempt, refusal.asked.Load(), w.Story(s.ID))
			}
			w.has(1, "slow words", s)
		})
	}
	for name, c := range map[string]struct {
		refusal  *once
		attempts int
	}{
		"at the greeting":      {&once{stage: postfix.Connect, action: "421 4.3.2 too busy"}, 1},
		"at a recipient":       {&once{stage: postfix.Recipient, action: "421 4.7.0 too much mail"}, 2},
		"at the message's end": {&once{stage: postfix.End, action: "421 4.7.0 too much mail"}, 2},
	} {
		t.Run("too busy (421) "+name+": it is left alone, and no try is used up", func(t *testing.T) {
			t.Parallel()
			w := newPostWorld(t, postfix.Options{Rule: c.refusal.rule})
			began := time.Now()
			id := w.Submit("one", email("waiting words"))
			s := w.UntilState(id, job.Succeeded)
			if s.Attempt != c.attempts || s.Failures != 0 || c.refusal.asked.Load() != 2 {
				t.Fatalf("%d attempts, %d failures, %d arrived\n%s", s.Attempt, s.Failures, c.refusal.asked.Load(), w.Story(id))
			}
			if took := time.Since(began); took < busyWait {
				t.Errorf("there after %v, and the relay was to be left alone for %v\n%s", took, busyWait, w.Story(id))
			}
			w.has(1, "waiting words", s)
		})
	}
	for name, c := range map[string]struct {
		rule  func(postfix.Ask) postfix.Action
		cc    string
		words string
	}{
		"an unknown recipient, so nobody gets it": {nil, "eve@example.net", "eve@example.net> (550 5.1.1"},
		"a recipient elsewhere":                   {nil, "eve@example.com", "Relay access denied"},
		"the message":                             {always(postfix.End, "REJECT not this one"), "carol@example.net", "554 5.7.1"},
	} {
		t.Run("for good: "+name, func(t *testing.T) {
			t.Parallel()
			w := newPostWorld(t, postfix.Options{Rule: c.rule})
			payload := email("bad words")
			payload.GetEmail().Cc = []string{c.cc}
			s := w.UntilState(w.Submit("one", payload), job.Failed)
			if s.Attempt != 1 || !strings.Contains(s.LastError.Message, c.words) {
				t.Errorf("%+v after %d attempts", s.LastError, s.Attempt)
			}
			w.has(0, "bad words", s)
		})
	}
	t.Run("a login (535): the connection is held until it has the new password", func(t *testing.T) {
		t.Parallel()
		w := newPostWorld(t, postfix.Options{User: "ada", Password: "first"})
		w.server.SetPassword("second")
		id := w.Submit("one", email("held words"))
		held := w.Until(id, "held", func(s job.Snapshot) bool { return s.Blocked != "" && !s.State.InFlight() })
		if held.Attempt != 0 || held.Failures != 0 || held.State.Terminal() {
			t.Errorf("%s after %d attempts and %d failures\n%s", held.State, held.Attempt, held.Failures, w.Story(id))
		}
		w.Rotate(basic("ada", "second"))
		s := w.UntilState(id, job.Succeeded)
		if attempts := w.Attempts(id); len(attempts) != 1 || attempts[0].CredentialVersion != 2 {
			t.Errorf("%+v", attempts)
		}
		w.has(1, "held words", s)
	})
}

// largeSize is more than the buffers between a client and a relay hold.
const largeSize = 16 << 20

// largeFile hosts a file of largeSize bytes.
func largeFile(t *testing.T) string {
	t.Helper()
	content := bytes.Repeat([]byte("all the same, and a lot of it. \n"), largeSize/32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	t.Cleanup(s.Close)
	return s.URL + "/large.txt"
}
