package smtp_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/loopcert"
)

const (
	effectKey = "0199c0de-0000-7000-8000-000000000001"
	messageID = "<" + effectKey + "@example.org>"
	user      = "ada"
	password  = "pass-word-secret"
	longTime  = 30 * time.Second
	shortTime = 300 * time.Millisecond
)

var sentAt = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func encode(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// basic is a credential with a user name and a password.
func basic(tb testing.TB, password string) connector.Credential {
	return connector.Credential{Version: 3, Data: encode(tb, &connectionsv1.Credential{Kind: &connectionsv1.Credential_Basic{
		Basic: &connectionsv1.BasicAuth{Username: user, Password: password},
	}})}
}

func usual() *fireoncev1.Email {
	return &fireoncev1.Email{
		Sender: "Ada <ada@example.org>", To: []string{"Bob <bob@example.net>"}, Subject: "Hello", TextBody: "One line.\n.\n..two\n.dot\nend",
	}
}

func requestFor(tb testing.TB, e *fireoncev1.Email) connector.Request {
	return connector.Request{
		EffectKey: effectKey, PayloadKind: smtp.PayloadKind,
		Payload: encode(tb, &fireoncev1.Payload{Kind: &fireoncev1.Payload_Email{Email: e}}),
	}
}

// world is a connector and its relay.
type world struct {
	tb       testing.TB
	c        *smtp.Connector
	settings *connectionsv1.SmtpSettings
	cred     connector.Credential
	prepared connector.Prepared
}

// at makes a world whose connection leads to an address.
func at(tb testing.TB, addr smtptest.Addr, r *smtptest.Relay) *world {
	tb.Helper()
	if r == nil {
		return trusting(tb, addr, nil)
	}
	return trusting(tb, addr, r.Roots())
}

// trusting is at for an address whose certificate is one of roots.
func trusting(tb testing.TB, addr smtptest.Addr, roots *x509.CertPool) *world {
	tb.Helper()
	cfg := transport.Config{Egress: transport.NewEgress(netip.MustParsePrefix("127.0.0.0/8")), RootCAs: roots}
	sender := transport.NewSender(cfg)
	tb.Cleanup(sender.Close)
	return &world{
		tb: tb, c: smtp.New(smtp.Config{Sender: sender, HeloName: "client.test", Now: func() time.Time { return sentAt }}),
		settings: &connectionsv1.SmtpSettings{Host: addr.Host(), Port: addr.Port(), Security: connectionsv1.SmtpSettings_SECURITY_NONE},
	}
}

func relay(tb testing.TB, o smtptest.Options) (*world, *smtptest.Relay) {
	tb.Helper()
	r, err := smtptest.Start(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	w := at(tb, r.Addr(), r)
	w.secure(o)
	return w, r
}

// secure sets what the relay's options ask for.
func (w *world) secure(o smtptest.Options) {
	w.settings.Security = map[smtptest.Security]connectionsv1.SmtpSettings_Security{
		smtptest.Plain: connectionsv1.SmtpSettings_SECURITY_NONE, smtptest.StartTLS: connectionsv1.SmtpSettings_SECURITY_STARTTLS,
		smtptest.TLS: connectionsv1.SmtpSettings_SECURITY_TLS,
	}[o.Security]
	if o.User != "" {
		w.cred = basic(w.tb, o.Password)
	}
}

func (w *world) prepare(e *fireoncev1.Email) {
	w.tb.Helper()
	var err error
	if w.prepared, err = w.c.Prepare(requestFor(w.tb, e)); err != nil {
		w.tb.Fatalf("Prepare: %v", err)
	}
}

func (w *world) opening() connector.Opening {
	if w.prepared.Frozen == nil {
		w.prepare(usual())
	}
	return connector.Opening{
		Job: job.ID{1}, Connection: job.ID{2}, Settings: encode(w.tb, w.settings), Class: job.Opaque,
		Credential: w.cred, Prepared: w.prepared, Fresh: true,
	}
}

func (w *world) open() (connector.Session, error) { return w.c.Open(w.tb.Context(), w.opening()) }

func (w *world) mustOpen() connector.Session {
	w.tb.Helper()
	s, err := w.open()
	if err != nil {
		w.tb.Fatalf("Open: %v", err)
	}
	return s
}

func commit(limit time.Duration) connector.Commit {
	now := time.Now()
	return connector.Commit{
		Attempt: 2, EffectKey: effectKey, SendBy: now.Add(limit), AnswerBy: now.Add(limit),
		MaySend: func() error { return nil }, SaveHandle: func(string) error { return errors.New("nothing to save") },
	}
}

// publish opens and publishes, and checks what holds for every outcome.
func (w *world) publish(c connector.Commit) job.Outcome {
	w.tb.Helper()
	return w.finish(w.mustOpen(), c)
}

func (w *world) finish(s connector.Session, c connector.Commit) job.Outcome {
	w.tb.Helper()
	o := s.Publish(c)
	if late := time.Since(c.AnswerBy); late > 5*time.Second {
		w.tb.Errorf("Publish returned %v after AnswerBy", late)
	}
	s.Close()
	if (o.Result == job.ResultNotSent) != (o.BytesWritten == 0) {
		w.tb.Errorf("%s with %d bytes written", o.Result, o.BytesWritten)
	}
	if (o.Result == job.ResultUnknown) != (o.Kind == job.FailAmbiguous) || o.Attempt != c.Attempt {
		w.tb.Errorf("outcome %+v", o)
	}
	if o.Result == job.ResultSucceeded && o.ExternalID != messageID {
		w.tb.Errorf("external id %q", o.ExternalID)
	}
	w.words(o.Message)
	return o
}

// words checks that a text is fit for a user.
func (w *world) words(msg string) {
	w.tb.Helper()
	if msg == "" || msg != transport.Clean(msg, transport.MaxMessage) {
		w.tb.Errorf("message not fit for a user: %q", msg)
	}
	if strings.Contains(msg, password) {
		w.tb.Errorf("the password is in the message %q", msg)
	}
}

// refused checks that an error is a Refusal of the kind.
func (w *world) refused(err error, want job.FailureKind) *connector.Refusal {
	w.tb.Helper()
	var refusal *connector.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != want {
		w.tb.Errorf("error %v, want a Refusal of kind %s", err, want)
		return &connector.Refusal{}
	}
	w.words(err.Error())
	return refusal
}

func check(tb testing.TB, o job.Outcome, result job.Result, kind job.FailureKind) {
	tb.Helper()
	if o.Result != result || o.Kind != kind {
		tb.Errorf("%s %s (%s), want %s %s", o.Result, o.Kind, o.Message, result, kind)
	}
}

// What a script does instead of answering.
const (
	hangUp = "hang up"
	silent = "silent"
)

// overTLS is the entry of a script that speaks TLS from the first byte. One that answers STARTTLS with
// 2yz goes on with TLS.
const overTLS = "over TLS"

// script is a relay's answers by the first word of a command: "" for the greeting, "."
// for the message's end. The zero entry is the usual answer.
type script map[string]string

// scripted is a relay at work.
type scripted struct {
	addr smtptest.Addr
	mu   sync.Mutex
	said []string
	held chan struct{}
}

// Said returns the lines that the client has said, the message's included.
func (s *scripted) Said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.said...)
}

func (s script) start(tb testing.TB) *scripted {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	run := &scripted{addr: smtptest.Addr(l.Addr().String()), held: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(run, c) })
		}
	})
	tb.Cleanup(func() { _ = l.Close(); close(run.held); wg.Wait() })
	return run
}

func (s script) serve(run *scripted, c net.Conn) {
	defer func() { _ = c.Close() }()
	pair, _ := loopcert.Get()
	secured := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if _, ok := s[overTLS]; ok {
		c = tls.Server(c, secured)
	}
	usual := map[string]string{"": "220 relay.test", "EHLO": "250-relay.test\r\n250 SIZE 0", "DATA": "354 go on", "QUIT": "221 bye"}
	// answer reports whether the conversation goes on.
	answer := func(word string) bool {
		text, ok := s[word]
		if !ok {
			if text, ok = usual[word]; !ok {
				text = "250 ok"
			}
		}
		switch text {
		case hangUp:
			return false
		case silent:
			one := make([]byte, 1)
			for {
				select {
				case <-run.held:
					return false
				default:
				}
				if _, err := c.Read(one); err != nil {
					return false
				}
			}
		}
		_, err := c.Write([]byte(text + "\r\n"))
		return err == nil && !strings.HasPrefix(text, "421")
	}
	if !answer("") {
		return
	}
	br := bufio.NewReader(c)
	for inside := false; ; {
		line, err := br.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimRight(line, "\r\n")
		run.mu.Lock()
		run.said = append(run.said, line)
		run.mu.Unlock()
		word, _, _ := strings.Cut(line, " ")
		switch {
		case inside && line != ".":
			continue
		case inside:
			inside = false
		default:
			inside = word == "DATA" && (s["DATA"] == "" || strings.HasPrefix(s["DATA"], "3"))
		}
		if !answer(word) {
			return
		}
		if word == "STARTTLS" && (s[word] == "" || strings.HasPrefix(s[word], "2")) {
			c = tls.Server(c, secured)
			br = bufio.NewReader(c)
		}
	}
}
