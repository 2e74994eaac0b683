package platforms_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/platforms"
)

// busyWait is how long a busy relay is left alone here.
const busyWait = 2 * time.Second

// mailWorld is a world whose platform is a relay: a real SMTP server.
type mailWorld struct {
	*platforms.World
	t     *testing.T
	relay *smtptest.Relay
}

func newMailWorld(t *testing.T, o smtptest.Options) *mailWorld {
	t.Helper()
	r, err := smtptest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	settings := &connectionsv1.SmtpSettings{Host: r.Addr().Host(), Port: r.Addr().Port(), Security: connectionsv1.SmtpSettings_SECURITY_NONE}
	if o.Security == smtptest.StartTLS {
		settings.Security = connectionsv1.SmtpSettings_SECURITY_STARTTLS
	}
	login := &connectionsv1.Credential{}
	if o.User != "" {
		login.Kind = &connectionsv1.Credential_Basic{Basic: &connectionsv1.BasicAuth{Username: o.User, Password: o.Password}}
	}
	return &mailWorld{t: t, relay: r, World: platforms.NewWorld(t, platforms.Platform{
		// The proxy in front of platforms speaks HTTP, and stays unused.
		URL: "http://127.0.0.1:1", Class: job.Opaque, Credential: login, Roots: r.Roots(),
		Connector: func(s *transport.Sender, _ string) connector.Connector {
			return smtp.New(smtp.Config{Sender: s, BusyWait: busyWait})
		},
		Settings: func(string) []byte { return encoded(t, settings) },
	})}
}

// stored returns the Message-IDs of what the relay has that says text.
func (w *mailWorld) stored(text string) (ids []string) {
	for _, m := range w.relay.Stored() {
		if strings.Contains(string(m.Data), text) {
			ids = append(ids, m.ID())
		}
	}
	return ids
}

// once checks that the relay has the job's e-mail once, and the job its name.
func (w *mailWorld) once(text string, s job.Snapshot) {
	w.t.Helper()
	if ids := w.stored(text); len(ids) != 1 || s.Effect == nil || s.Effect.ExternalID != ids[0] && s.Effect.Proof != job.ProofAssumed {
		w.t.Errorf("stored %q, bound to %+v\n%s", ids, s.Effect, w.Story(s.ID))
	}
}

// faults applies its faults to the messages, in turn, and then takes messages.
func faults(list ...smtptest.Fault) func(int) smtptest.Fault {
	return func(n int) smtptest.Fault {
		if n > len(list) {
			return smtptest.Take
		}
		return list[n-1]
	}
}

// A relay cannot be asked what it has taken. So what is promised is another thing
// than for the other platforms: never a second e-mail, and an unknown outcome is
// said to be one.
func TestSMTP(t *testing.T) {
	t.Parallel()
	secure := smtptest.Options{Security: smtptest.StartTLS, User: "ada", Password: "first"}
	with := func(o smtptest.Options, list ...smtptest.Fault) smtptest.Options {
		o.Plan = faults(list...)
		return o
	}
	run := func(name string, o smtptest.Options, test func(*testing.T, *mailWorld)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newMailWorld(t, o))
		})
	}
	run("one job, one e-mail", secure, func(t *testing.T, w *mailWorld) {
		s := w.UntilState(w.Submit("one", email("plain words")), job.Succeeded)
		if s.Class != job.Opaque || s.Attempt != 1 || s.Effect.Proof != job.ProofResponse {
			t.Errorf("class %s, %d attempts, %+v", s.Class, s.Attempt, s.Effect)
		}
		w.once("plain words", s)
	})
	run("an e-mail answers that of another job, which comes first", with(smtptest.Options{}, smtptest.Defer), func(t *testing.T, w *mailWorld) {
		first := w.Submit("first", email("first words"))
		answer := email("second words")
		answer.GetEmail().References = []string{"<earlier@example.net>"}
		second := w.Submit("second", answer, platforms.ReplyTo(first))
		w.UntilState(second, job.Succeeded)
		id, stored := w.Job(first).Effect.ExternalID, w.relay.Stored()
		if len(stored) != 2 || !strings.Contains(string(stored[1].Data), "\r\nIn-Reply-To: "+id+"\r\nReferences: <earlier@example.net>\r\n "+id+"\r\n") {
			t.Errorf("the answer to %s: %+v", id, stored)
		}
	})
	run("two identical jobs are two e-mails", smtptest.Options{}, func(t *testing.T, w *mailWorld) {
		a, b := w.Submit("one", email("same words")), w.Submit("two", email("same words"))
		x, y := w.UntilState(a, job.Succeeded), w.UntilState(b, job.Succeeded)
		if ids := w.stored("same words"); len(ids) != 2 || x.Effect.ExternalID == y.Effect.ExternalID {
			t.Errorf("stored %q", ids)
		}
	})
	for name, f := range map[string]smtptest.Fault{
		"after storing": smtptest.DropAfter, "before storing": smtptest.DropBefore, "in silence": smtptest.SilentAfter,
	} {
		effects := 1
		if f == smtptest.DropBefore {
			effects = 0
		}
		run("the answer to the dot is lost "+name+": ONCE_OR_ASK asks a person", with(smtptest.Options{}, f), func(t *testing.T, w *mailWorld) {
			s := w.UntilState(w.Submit("one", email("lost words"), platforms.Delivery(job.OnceOrAsk)), job.NeedsResolution)
			if s.Attempt != 1 || len(w.stored("lost words")) != effects || w.relay.Tried() != 1 {
				t.Errorf("%d attempts, %d stored, %d begun\n%s", s.Attempt, len(w.stored("lost words")), w.relay.Tried(), w.Story(s.ID))
			}
		})
		run("the answer to the dot is lost "+name+": AT_MOST_ONCE assumes", with(smtptest.Options{}, f), func(t *testing.T, w *mailWorld) {
			s := w.UntilState(w.Submit("one", email("lost words"), platforms.Delivery(job.AtMostOnce)), job.Succeeded)
			if s.Attempt != 1 || s.Effect.Proof != job.ProofAssumed || len(w.stored("lost words")) != effects || w.relay.Tried() != 1 {
				t.Errorf("%d attempts, %+v, %d begun\n%s", s.Attempt, s.Effect, w.relay.Tried(), w.Story(s.ID))
			}
		})
	}
	run("AT_LEAST_ONCE sends again, and says that it may be twice", with(smtptest.Options{}, smtptest.DropAfter), func(t *testing.T, w *mailWorld) {
		s := w.UntilState(w.Submit("one", email("lost words"), platforms.Delivery(job.AtLeastOnce)), job.Succeeded)
		if ids := w.stored("lost words"); s.Attempt != 2 || len(ids) != 2 || s.Effect.ExternalID != ids[1] || ids[0] == ids[1] {
			t.Errorf("%d attempts, stored %q, %+v\n%s", s.Attempt, ids, s.Effect, w.Story(s.ID))
		}
	})
	run("refused for now is tried again", with(secure, smtptest.Defer), func(t *testing.T, w *mailWorld) {
		s := w.UntilState(w.Submit("one", email("slow words")), job.Succeeded)
		if s.Attempt != 2 {
			t.Errorf("%d attempts\n%s", s.Attempt, w.Story(s.ID))
		}
		w.once("slow words", s)
	})
	run("refused for good fails with the relay's words", with(smtptest.Options{}, smtptest.Refuse), func(t *testing.T, w *mailWorld) {
		s := w.UntilState(w.Submit("one", email("bad words")), job.Failed)
		if s.Attempt != 1 || !strings.Contains(s.LastError.Message, "not this one") || len(w.stored("bad words")) != 0 {
			t.Errorf("%d attempts, %+v\n%s", s.Attempt, s.LastError, w.Story(s.ID))
		}
	})
	run("one refused recipient: nobody gets it", smtptest.Options{}, func(t *testing.T, w *mailWorld) {
		w.relay.RefuseRecipient("eve@example.net", 550)
		payload := email("half words")
		payload.GetEmail().Cc = []string{"eve@example.net"}
		s := w.UntilState(w.Submit("one", payload), job.Failed)
		if !strings.Contains(s.LastError.Message, "eve@example.net") || w.relay.Tried() != 0 {
			t.Errorf("%+v, %d begun", s.LastError, w.relay.Tried())
		}
	})
	run("a busy relay is waited for, and costs no attempt", smtptest.Options{}, func(t *testing.T, w *mailWorld) {
		w.relay.Busy(1)
		began := time.Now()
		s := w.UntilState(w.Submit("one", email("waiting words")), job.Succeeded)
		if s.Attempt != 1 || s.Failures != 0 || time.Since(began) < busyWait {
			t.Errorf("%d attempts and %d failures after %v\n%s", s.Attempt, s.Failures, time.Since(began), w.Story(s.ID))
		}
		w.once("waiting words", s)
	})
	run("a refused login holds until there is a new one, and nothing is burnt", secure, func(t *testing.T, w *mailWorld) {
		w.relay.SetPassword("second")
		id := w.Submit("one", email("held words"))
		w.Until(id, "held", func(s job.Snapshot) bool { return s.Blocked != "" && !s.State.InFlight() })
		if s := w.Job(id); s.Attempt != 0 || s.Failures != 0 || s.State.Terminal() || w.relay.Tried() != 0 {
			t.Errorf("%s after %d attempts and %d failures\n%s", s.State, s.Attempt, s.Failures, w.Story(id))
		}
		w.Rotate(basic("ada", "second"))
		s := w.UntilState(id, job.Succeeded)
		if attempts := w.Attempts(id); len(attempts) != 1 || attempts[0].CredentialVersion != 2 {
			t.Errorf("%+v\n%s", attempts, w.Story(id))
		}
		w.once("held words", s)
	})
}
