package smtp_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/internal/connector/smtp"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

// A relay takes a message in every way of making the connection private, and has
// it as it was written.
func TestTaken(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]smtptest.Options{
		"plain":               {},
		"STARTTLS":            {Security: smtptest.StartTLS},
		"STARTTLS with login": {Security: smtptest.StartTLS, User: user, Password: password},
		"TLS with login":      {Security: smtptest.TLS, User: user, Password: password},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := relay(t, o)
			out := w.publish(commit(longTime))
			check(t, out, job.ResultSucceeded, 0)
			if !strings.Contains(out.Message, "250 2.0.0 OK: queued") {
				t.Errorf("the relay's words are lost: %q", out.Message)
			}
			stored := r.Stored()
			if len(stored) != 1 || stored[0].ID() != messageID || stored[0].From != "ada@example.org" || !slices.Equal(stored[0].To, []string{"bob@example.net"}) {
				t.Fatalf("stored %+v", stored)
			}
			if body := string(stored[0].Data); !strings.HasSuffix(body, "\r\n\r\nOne line.\r\n.\r\n..two\r\n.dot\r\nend\r\n") ||
				!strings.HasPrefix(body, "Date: Sat, 21 Nov 2026 12:00:00 +0000\r\n") {
				t.Errorf("stored %q", body)
			}
		})
	}
}

// Each thing that a relay can do with the message's end, against what it stored.
func TestMessageEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault  smtptest.Fault
		limit  time.Duration
		result job.Result
		kind   job.FailureKind
		stored int
	}{
		{smtptest.Take, longTime, job.ResultSucceeded, 0, 1},
		{smtptest.DropBefore, longTime, job.ResultUnknown, job.FailAmbiguous, 0},
		{smtptest.DropAfter, longTime, job.ResultUnknown, job.FailAmbiguous, 1},
		{smtptest.SilentAfter, shortTime, job.ResultUnknown, job.FailAmbiguous, 1},
		{smtptest.Defer, longTime, job.ResultRejected, job.FailTransient, 0},
		{smtptest.Refuse, longTime, job.ResultRejected, job.FailPermanent, 0},
	} {
		for _, security := range []smtptest.Security{smtptest.Plain, smtptest.StartTLS} {
			t.Run(fmt.Sprint(c.fault, security), func(t *testing.T) {
				t.Parallel()
				w, r := relay(t, smtptest.Options{Security: security, Plan: func(int) smtptest.Fault { return c.fault }})
				session := w.mustOpen()
				check(t, w.finish(session, commit(c.limit)), c.result, c.kind)
				if n := len(r.Stored()); n != c.stored {
					t.Errorf("%d stored, want %d", n, c.stored)
				}
				if n := r.Tried(); n != 1 {
					t.Errorf("the message was begun %d times", n)
				}
			})
		}
	}
}

// TestReplies: what each reply means, at each place.
func TestReplies(t *testing.T) {
	t.Parallel()
	unsent, unknown := job.ResultRejected, job.ResultUnknown
	for _, c := range []struct {
		at, reply string
		result    job.Result
		kind      job.FailureKind
	}{
		{".", "250 2.0.0 Ok: queued as 4F1B", job.ResultSucceeded, 0},
		{".", "250-first\r\n250 second", job.ResultSucceeded, 0},
		{".", "250", job.ResultSucceeded, 0},
		{".", "451 4.3.0 later", unsent, job.FailTransient},
		{".", "421 4.7.0 too many", unsent, job.FailRateLimited},
		{".", "454 Throttling failure: Maximum sending rate exceeded", unsent, job.FailRateLimited},
		{".", "552 5.3.4 too big", unsent, job.FailPermanent},
		{".", "554 5.7.1 spam", unsent, job.FailPermanent},
		{".", "200 fine", job.ResultSucceeded, 0},
		{".", "251 elsewhere", job.ResultSucceeded, 0},
		{".", "354 go on", unknown, job.FailAmbiguous},
		{".", "hello", unknown, job.FailAmbiguous},
		{".", "250-ok\r\n550 no", unknown, job.FailAmbiguous},
		{".", "2500 ok", unknown, job.FailAmbiguous},
		{".", strings.Repeat("250-more\r\n", 200) + "250 end", job.ResultSucceeded, 0},
		{".", strings.Repeat("250-more\r\n", 2000) + "250 end", unknown, job.FailAmbiguous},
		{".", "250 " + strings.Repeat("x", 5000), job.ResultSucceeded, 0}, // the code is the relay's word, whatever follows it
		{".", "250 " + strings.Repeat("x", 100_000), unknown, job.FailAmbiguous},
		{".", hangUp, unknown, job.FailAmbiguous},
		{"MAIL", "550 5.1.8 not you", unsent, job.FailPermanent},
		{"MAIL", "530 5.7.0 Authentication required", unsent, job.FailAuth},
		{"MAIL", "452 4.3.1 full", unsent, job.FailTransient},
		{"MAIL", "421 4.3.2 closing", unsent, job.FailRateLimited},
		{"MAIL", hangUp, unsent, job.FailTransient},
		{"MAIL", "nonsense", unsent, job.FailTransient},
		{"RCPT", "550 5.1.1 nobody", unsent, job.FailPermanent},
		{"RCPT", "450 4.2.1 busy", unsent, job.FailTransient},
		{"RCPT", "421 4.7.0 too many", unsent, job.FailRateLimited},
		{"RCPT", hangUp, unsent, job.FailTransient},
		{"RCPT", "250 ok\r\n250 again", unsent, job.FailTransient},
		{"RCPT", "250 ok\r\n354 go on", unsent, job.FailTransient},
		{"DATA", "503 5.5.1 no", unsent, job.FailPermanent},
		{"DATA", "451 4.3.0 no", unsent, job.FailTransient},
		{"DATA", "432 4.3.2 too many at once", unsent, job.FailRateLimited},
		{"DATA", "250 ok", unsent, job.FailTransient},
		{"DATA", hangUp, unsent, job.FailTransient},
		{"DATA", "354 go on\r\n250 queued already", unsent, job.FailTransient},
		{"DATA", "354 go on\r\n421 4.3.2 closing", unsent, job.FailTransient},
		{"QUIT", hangUp, job.ResultSucceeded, 0},
		{"QUIT", "500 what?", job.ResultSucceeded, 0},
	} {
		t.Run(c.at+" "+transport.Clean(c.reply, 40), func(t *testing.T) {
			t.Parallel()
			run := script{c.at: c.reply}.start(t)
			w := at(t, run.addr, nil)
			o := w.publish(commit(longTime))
			check(t, o, c.result, c.kind)
			if busy := o.RetryAfter == smtp.DefaultBusyWait; busy != (c.kind == job.FailRateLimited) {
				t.Errorf("to be left alone for %v", o.RetryAfter)
			}
			if strings.Contains(o.Message, "give this connection a user name") != (c.kind == job.FailAuth) {
				t.Errorf("%s: %s", o.Kind, o.Message)
			}
			if c.result != job.ResultRejected || c.at == "." {
				return
			}
			if slices.Contains(run.Said(), ".") {
				t.Errorf("the message's end was said in spite of %q: %q", c.reply, run.Said())
			}
		})
	}
}

// One refused recipient refuses the message for all.
func TestRecipients(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		first, third int
		want         job.FailureKind
	}{
		{"one for good", 0, 550, job.FailPermanent},
		{"one for now", 450, 0, job.FailTransient},
		{"one of each", 450, 550, job.FailPermanent},
		{"all", 551, 550, job.FailPermanent},
		{"too much for the relay", 0, 454, job.FailRateLimited},
		{"too much for the relay, and one for good", 454, 550, job.FailPermanent},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, r := relay(t, smtptest.Options{})
			r.RefuseRecipient("one@example.net", c.first)
			r.RefuseRecipient("three@example.net", c.third)
			e := usual()
			e.To, e.Cc, e.Bcc = []string{"one@example.net"}, []string{"two@example.net"}, []string{"three@example.net"}
			w.prepare(e)
			o := w.publish(commit(longTime))
			check(t, o, job.ResultRejected, c.want)
			if n := r.Tried(); n != 0 || len(r.Stored()) != 0 {
				t.Errorf("%d messages begun, %d stored", n, len(r.Stored()))
			}
			for address, code := range map[string]int{"<one@example.net>": c.first, "<three@example.net>": c.third} {
				if strings.Contains(o.Message, address) != (code != 0) {
					t.Errorf("message %q, and %s got %d", o.Message, address, code)
				}
			}
			r.RefuseRecipient("one@example.net", 0)
			r.RefuseRecipient("three@example.net", 0)
			check(t, w.publish(commit(longTime)), job.ResultSucceeded, 0)
			if stored := r.Stored(); len(stored) != 1 || len(stored[0].To) != 3 {
				t.Errorf("stored %+v", stored)
			}
		})
	}
}

// TestRefusedAndHungUp: a relay's refusal counts, though the relay hung up before it
// read the rest.
func TestRefusedAndHungUp(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]script{
		"together":          {"EHLO": "250-relay.test\r\n250 PIPELINING", "MAIL": "550 5.1.8 not you", "RCPT": hangUp},
		"one by one":        {"MAIL": "550 5.1.8 not you", "RCPT": hangUp},
		"a word of parting": {"EHLO": "250-relay.test\r\n250 PIPELINING", "MAIL": "550 5.1.8 not you", "RCPT": "421 4.7.0 bye"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := at(t, s.start(t).addr, nil)
			o := w.publish(commit(longTime))
			check(t, o, job.ResultRejected, job.FailPermanent)
			if !strings.Contains(o.Message, "550 5.1.8 not you") {
				t.Errorf("message %q", o.Message)
			}
		})
	}
}

// TestLeave: leave is asked before the first byte and again before the message's
// end, and obeyed both times.
func TestLeave(t *testing.T) {
	t.Parallel()
	for denied, want := range map[int]job.Result{1: job.ResultNotSent, 2: job.ResultRejected, 3: job.ResultSucceeded} {
		t.Run(fmt.Sprint(denied), func(t *testing.T) {
			t.Parallel()
			w, r := relay(t, smtptest.Options{Security: smtptest.TLS})
			c, asked := commit(longTime), 0
			c.MaySend = func() error {
				if asked++; asked == denied {
					return errors.New("the clocks disagree")
				}
				return nil
			}
			o := w.publish(c)
			if o.Result != want || asked != min(denied, 2) {
				t.Errorf("%s (%s) after %d questions", o.Result, o.Message, asked)
			}
			_ = r.Close() // what it has got, it has dealt with
			if n := len(r.Stored()); (n == 1) != (want == job.ResultSucceeded) {
				t.Errorf("%d stored", n)
			}
		})
	}
	t.Run("time over", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{})
		check(t, w.publish(commit(-time.Second)), job.ResultNotSent, job.FailTransient)
		if r.Tried() != 0 {
			t.Error("something was sent")
		}
	})
}

// Silence is waited for until the deadline of what is silent, and no longer.
func TestSilence(t *testing.T) {
	t.Parallel()
	for place, want := range map[string]job.Result{
		"MAIL": job.ResultRejected, "RCPT": job.ResultRejected, "DATA": job.ResultRejected, ".": job.ResultUnknown,
	} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			run := script{place: silent}.start(t)
			w := at(t, run.addr, nil)
			c := commit(shortTime)
			c.AnswerBy = c.SendBy.Add(shortTime)
			began := time.Now()
			o := w.publish(c)
			if o.Result != want {
				t.Errorf("%s (%s), want %s", o.Result, o.Message, want)
			}
			if place == "." && time.Now().Before(c.AnswerBy) {
				t.Errorf("gave up after %v, before AnswerBy", time.Since(began))
			}
		})
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	t.Run("publishes once", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{})
		s := w.mustOpen()
		check(t, s.Publish(commit(longTime)), job.ResultSucceeded, 0)
		check(t, s.Publish(commit(longTime)), job.ResultNotSent, job.FailTransient)
		s.Close()
		s.Close()
		if n := len(r.Stored()); n != 1 {
			t.Errorf("%d stored", n)
		}
	})
	t.Run("closed before", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{})
		s := w.mustOpen()
		s.Close()
		check(t, w.finish(s, commit(longTime)), job.ResultNotSent, job.FailTransient)
		if r.Tried() != 0 {
			t.Error("something was sent")
		}
	})
	t.Run("the relay has gone", func(t *testing.T) {
		t.Parallel()
		w, r := relay(t, smtptest.Options{Security: smtptest.StartTLS})
		s := w.mustOpen()
		_ = r.Close()
		check(t, w.finish(s, commit(longTime)), job.ResultNotSent, job.FailTransient)
	})
}

// TestRepeat: the same effect key makes the same Message-ID and the same bytes at every
// attempt; only Date changes.
func TestRepeat(t *testing.T) {
	t.Parallel()
	w, r := relay(t, smtptest.Options{Plan: func(n int) smtptest.Fault {
		if n == 1 {
			return smtptest.DropAfter
		}
		return smtptest.Take
	}})
	check(t, w.publish(commit(longTime)), job.ResultUnknown, job.FailAmbiguous)
	check(t, w.publish(commit(longTime)), job.ResultSucceeded, 0)
	if s := r.Stored(); len(s) != 2 || string(s[0].Data) != string(s[1].Data) {
		t.Errorf("stored %+v", s)
	}
}
