package smtp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func checkInput(t *testing.T, err error, want connector.InputReason) {
	t.Helper()
	var input *connector.InputError
	if !errors.As(err, &input) || input.Reason != want {
		t.Errorf("error %v, want an InputError of reason %d", err, want)
		return
	}
	if msg := err.Error(); msg != transport.Clean(msg, transport.MaxMessage) || strings.Contains(msg, password) {
		t.Errorf("message not fit for a user: %q", msg)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	open, strict := smtp.New(smtp.Config{}), smtp.New(smtp.Config{HTTPSOnly: true})
	none := connector.Credential{}
	type settings = connectionsv1.SmtpSettings
	const noTLS, implicit = connectionsv1.SmtpSettings_SECURITY_NONE, connectionsv1.SmtpSettings_SECURITY_TLS
	for name, c := range map[string]struct {
		in   *settings
		cred connector.Credential
		c    *smtp.Connector
		want connector.InputReason // 0: good
	}{
		"a host":                      {&settings{Host: "mail.example.org"}, none, strict, 0},
		"a host beyond ASCII":         {&settings{Host: "postamt.BÜCHER.example"}, none, strict, 0},
		"a host that does not map":    {&settings{Host: "a\u202eb.example"}, none, open, connector.BadSettings},
		"a host with a query":         {&settings{Host: "mail.example?x"}, none, open, connector.BadSettings},
		"a host with a port":          {&settings{Host: "mail.example:25"}, none, open, connector.BadSettings},
		"an address":                  {&settings{Host: "2001:db8::1", Security: implicit}, none, strict, 0},
		"with a login":                {&settings{Host: "mail.example.org"}, basic(t, password), strict, 0},
		"no TLS":                      {&settings{Host: "localhost", Port: 25, Security: noTLS}, none, open, 0},
		"no TLS, where it is refused": {&settings{Host: "localhost", Security: noTLS}, none, strict, connector.BadSettings},
		"no TLS, with a login":        {&settings{Host: "localhost", Security: noTLS}, basic(t, password), open, connector.BadSettings},
		"no host":                     {&settings{}, none, open, connector.BadSettings},
		"a URL":                       {&settings{Host: "smtp://mail.example.org"}, none, open, connector.BadSettings},
		"a path":                      {&settings{Host: "mail/x"}, none, open, connector.BadSettings},
		"a user":                      {&settings{Host: "a@mail"}, none, open, connector.BadSettings},
		"a port that is none":         {&settings{Host: "mail", Port: 70000}, none, open, connector.BadSettings},
		"another security":            {&settings{Host: "mail", Security: 9}, none, open, connector.BadSettings},
		"a name with a command in it": {&settings{Host: "mail", HeloName: "a\r\nRSET"}, none, open, connector.BadSettings},
		"another kind of credential": {&settings{Host: "mail"}, connector.Credential{Data: encode(t, &connectionsv1.Credential{
			Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: password}},
		})}, open, connector.BadCredential},
		"headers": {&settings{Host: "mail"}, connector.Credential{Data: encode(t, &connectionsv1.Credential{
			Headers: []*connectionsv1.SecretHeader{{Name: "X", Value: password}},
		})}, open, connector.BadCredential},
		"a login of two lines":      {&settings{Host: "mail"}, basic(t, "a\r\nb"), open, connector.BadCredential},
		"a credential that is none": {&settings{Host: "mail"}, connector.Credential{Data: []byte{0xff}}, open, connector.BadCredential},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.c.Check(encode(t, c.in), c.cred)
			if c.want != 0 {
				checkInput(t, err, c.want)
				return
			}
			if err != nil || got.Class != job.Opaque {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	_, err := open.Check([]byte{0xff}, none)
	checkInput(t, err, connector.BadSettings)
	if text := fmt.Sprintf("%v %+v %#v", basic(t, password), basic(t, password), basic(t, password)); strings.Contains(text, password) {
		t.Errorf("a credential prints its password: %q", text)
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	w := at(t, "127.0.0.1:1", nil)
	e := usual()
	e.HtmlBody = "<p>Hello</p>"
	one, err := w.c.Prepare(requestFor(t, e))
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.c.Prepare(requestFor(t, e))
	if err != nil || !bytes.Equal(one.Frozen, again.Frozen) || one.HoldKey != again.HoldKey || len(one.Gate) > 0 {
		t.Errorf("prepared differently: %v", err)
	}
	r := requestFor(t, e)
	r.EffectKey += ".2"
	if other, err := w.c.Prepare(r); err != nil || bytes.Equal(one.Frozen, other.Frozen) {
		t.Errorf("another effect has the same bytes: %v", err)
	}
	r = requestFor(t, e)
	r.ReplyTo = "<earlier@example.org>"
	reply, err := w.c.Prepare(r)
	if err != nil || !bytes.Contains(reply.Frozen, []byte("\r\nIn-Reply-To: <earlier@example.org>\r\nReferences: <earlier@example.org>\r\n")) {
		t.Errorf("no reply: %v", err)
	}
	for _, id := range []string{"4f1b", "<a@b>\r\nX: y", "<a b@c>", "<a@b", "a@b>", "<<a>@b>"} {
		r.ReplyTo = id
		_, err = w.c.Prepare(r)
		checkInput(t, err, connector.BadPayload)
	}
	for _, key := range []string{"", "a b", "a\r\nb", "a@b", "a>b"} {
		r := requestFor(t, e)
		r.EffectKey = key
		_, err = w.c.Prepare(r)
		checkInput(t, err, connector.BadPayload)
	}
	r = requestFor(t, e)
	r.PayloadKind = "webhook"
	_, err = w.c.Prepare(r)
	checkInput(t, err, connector.PayloadMismatch)
}

// What goes wrong before the arm is a refusal, and the relay has heard nothing of
// a message.
func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	const ehlo = "250-relay.test\r\n250-AUTH PLAIN LOGIN\r\n250 STARTTLS"
	for name, c := range map[string]struct {
		s        script
		security connectionsv1.SmtpSettings_Security
		want     job.FailureKind
		wait     time.Duration
	}{
		"hangs up":                  {script{"": hangUp}, plain, job.FailTransient, 0},
		"speaks something else":     {script{"": "SSH-2.0-OpenSSH"}, plain, job.FailTransient, 0},
		"speaks HTTP":               {script{"": "HTTP/1.1 400 Bad Request"}, plain, job.FailTransient, 0},
		"is busy":                   {script{"": "421 4.3.2 busy"}, plain, job.FailRateLimited, time.Minute},
		"is not for us":             {script{"": "554 5.7.1 go away"}, plain, job.FailTransient, 0},
		"refuses EHLO":              {script{"EHLO": "502 what?"}, plain, job.FailTransient, 0},
		"EHLO for now":              {script{"EHLO": "450 later"}, plain, job.FailRateLimited, time.Minute},
		"has no TLS":                {script{}, startTLS, job.FailTransient, 0},
		"refuses TLS for now":       {script{"EHLO": ehlo, "STARTTLS": "454 later"}, startTLS, job.FailRateLimited, time.Minute},
		"refuses TLS":               {script{"EHLO": ehlo, "STARTTLS": "501 no"}, startTLS, job.FailTransient, 0},
		"speaks before TLS":         {script{"EHLO": ehlo, "STARTTLS": "220 go\r\n250 AUTH PLAIN"}, startTLS, job.FailTransient, 0},
		"has no TLS after all":      {script{"EHLO": ehlo, "STARTTLS": "220 go"}, startTLS, job.FailTransient, 0},
		"has no TLS from the start": {script{}, implicit, job.FailTransient, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := c.s.start(t)
			w := at(t, run.addr, nil)
			w.settings.Security = c.security
			_, err := w.open()
			if got := w.refused(err, c.want); got.RetryAfter != c.wait {
				t.Errorf("retry after %v, want %v", got.RetryAfter, c.wait)
			}
			for _, line := range run.Said() {
				if strings.HasPrefix(line, "MAIL") || strings.HasPrefix(line, "AUTH") {
					t.Errorf("said %q", line)
				}
			}
		})
	}
}

const (
	plain    = connectionsv1.SmtpSettings_SECURITY_NONE
	startTLS = connectionsv1.SmtpSettings_SECURITY_STARTTLS
	implicit = connectionsv1.SmtpSettings_SECURITY_TLS
)

func TestOpen(t *testing.T) {
	t.Parallel()
	t.Run("has no effect", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{Security: smtptest.TLS, User: user, Password: password})
		s := w.mustOpen()
		s.Close()
		s.Close()
		if r.Tried() != 0 || r.Logins() != 1 {
			t.Errorf("%d messages, %d logins", r.Tried(), r.Logins())
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{})
		_ = r.Close()
		_, err := w.open()
		w.refused(err, job.FailTransient)
	})
	t.Run("egress denied", func(t *testing.T) {
		t.Parallel()
		w, _ := relay(t, smtptest.Options{})
		w.c = smtp.New(smtp.Config{Sender: transport.NewSender(transport.Config{})})
		_, err := w.open()
		w.refused(err, job.FailEgressDenied)
	})
	t.Run("unknown authority", func(t *testing.T) {
		t.Parallel()
		for _, security := range []smtptest.Security{smtptest.StartTLS, smtptest.TLS} {
			w, r := relay(t, smtptest.Options{Security: security, User: user, Password: password})
			stranger := at(t, r.Addr(), nil)
			stranger.settings, stranger.cred = w.settings, w.cred
			_, err := stranger.open()
			stranger.refused(err, job.FailTransient)
			if r.Logins() != 0 {
				t.Error("the password went to a stranger")
			}
		}
	})
	t.Run("context over", func(t *testing.T) {
		t.Parallel()
		run := script{"EHLO": silent}.start(t)
		w := at(t, run.addr, nil)
		ctx, cancel := context.WithTimeout(t.Context(), shortTime)
		defer cancel()
		_, err := w.c.Open(ctx, w.opening())
		w.refused(err, job.FailTransient)
	})
	t.Run("broken bytes", func(t *testing.T) {
		t.Parallel()
		w, _ := relay(t, smtptest.Options{})
		o := w.opening()
		o.Prepared.Frozen = []byte{0xff}
		_, err := w.c.Open(t.Context(), o)
		w.refused(err, job.FailPermanent)
	})
	t.Run("refused login", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{Security: smtptest.StartTLS, User: user, Password: password})
		r.SetPassword("another")
		_, err := w.open()
		w.refused(err, job.FailAuth)
		r.SetPassword(password)
		check(t, w.publish(commit(longTime)), job.ResultSucceeded, 0)
	})
	t.Run("a login without TLS", func(t *testing.T) {
		t.Parallel()
		run := script{}.start(t)
		w := at(t, run.addr, nil)
		w.cred = basic(t, password)
		_, err := w.open()
		w.refused(err, job.FailPermanent)
		if len(run.Said()) > 0 {
			t.Errorf("said %q", run.Said())
		}
	})
	t.Run("no login where one is wanted", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{Security: smtptest.StartTLS, User: user, Password: password})
		w.cred = connector.Credential{}
		check(t, w.publish(commit(longTime)), job.ResultRejected, job.FailAuth)
		if r.Tried() != 0 {
			t.Error("something was sent")
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{MaxSize: 1000})
		e := usual()
		e.TextBody = strings.Repeat("a line\n", 200)
		w.prepare(e)
		_, err := w.open()
		w.refused(err, job.FailPermanent)
		if r.Tried() != 0 {
			t.Error("something was sent")
		}
	})
	t.Run("international addresses", func(t *testing.T) {
		t.Parallel()
		e := usual()
		e.To = []string{"Jürgen <jürgen@bücher.example>"}
		w, _ := relay(t, smtptest.Options{})
		w.prepare(e)
		_, err := w.open()
		w.refused(err, job.FailPermanent)
		w, r := relay(t, smtptest.Options{UTF8: true})
		w.prepare(e)
		check(t, w.publish(commit(longTime)), job.ResultSucceeded, 0)
		if s := r.Stored(); len(s) != 1 || !s[0].UTF8 || s[0].To[0] != "jürgen@xn--bcher-kva.example" {
			t.Errorf("stored %+v", s)
		}
		e.To = []string{"Jürgen <juergen@bücher.example>"}
		w, r = relay(t, smtptest.Options{}) // a domain beyond ASCII needs no more than ASCII
		w.prepare(e)
		check(t, w.publish(commit(longTime)), job.ResultSucceeded, 0)
		if s := r.Stored(); len(s) != 1 || s[0].UTF8 || s[0].To[0] != "juergen@xn--bcher-kva.example" {
			t.Errorf("stored %+v", s)
		}
	})
}

// A relay that says the password back is quoted without it.
func TestEcho(t *testing.T) {
	t.Parallel()
	r, err := smtptest.Start(smtptest.Options{Security: smtptest.StartTLS, User: user, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	w := at(t, r.Addr(), r)
	w.secure(smtptest.Options{Security: smtptest.StartTLS, User: user, Password: password})
	r.RefuseRecipientWith("bob@example.net", 550, "you said "+password)
	o := w.publish(commit(longTime)) // which looks for it
	if !strings.Contains(o.Message, "[redacted]") {
		t.Errorf("message %q", o.Message)
	}
}

// LOGIN is spoken where PLAIN is not offered.
func TestLoginMechanisms(t *testing.T) {
	t.Parallel()
	for offered, want := range map[string]job.FailureKind{"LOGIN": 0, "CRAM-MD5 XOAUTH2": job.FailTransient} {
		t.Run(offered, func(t *testing.T) {
			t.Parallel()
			w, r := relay(t, smtptest.Options{Security: smtptest.TLS, User: user, Password: password, Mechanisms: strings.Fields(offered)})
			s, err := w.open()
			if want != 0 {
				w.refused(err, want)
				return
			}
			if err != nil || r.Logins() != 1 {
				t.Fatalf("%v, %d logins", err, r.Logins())
			}
			check(t, w.finish(s, commit(longTime)), job.ResultSucceeded, 0)
		})
	}
}

// The test of a connection logs in and sends nothing.
func TestTester(t *testing.T) {
	t.Parallel()
	w, r := relay(t, smtptest.Options{Security: smtptest.StartTLS, User: user, Password: password})
	got, err := w.c.Test(t.Context(), w.opening())
	if err != nil || got.Detail == "" || r.Logins() != 1 || r.Tried() != 0 {
		t.Errorf("%+v, %v, %d logins", got, err, r.Logins())
	}
	w.words(got.Detail)
	r.SetPassword("another")
	_, err = w.c.Test(t.Context(), w.opening())
	w.refused(err, job.FailAuth)
}
