package smtp_test

import (
	"fmt"
	"testing"

	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/job"
)

// cut makes one attempt whose connection is cut after up or down bytes. It returns the
// outcome, nil if the attempt was refused before the arm, and what the relay stored.
func cut(t *testing.T, o smtptest.Options, up, down int64) (out *job.Outcome, stored int, passedUp, passedDown int64) {
	t.Helper()
	r, err := smtptest.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	c, err := smtptest.NewCutter(string(r.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	c.Cut(up, down)
	w := at(t, c.Addr(), r)
	w.secure(o)
	session, err := w.open()
	if err == nil {
		o := w.finish(session, commit(longTime))
		out = &o
	} else {
		w.refused(err, job.FailTransient)
	}
	c.Settle()
	passedUp, passedDown = c.Passed()
	return out, len(r.Stored()), passedUp, passedDown
}

// honest checks an outcome against what the relay stored.
func honest(t *testing.T, where string, o *job.Outcome, stored int) {
	t.Helper()
	result := job.ResultNotSent
	if o != nil {
		result = o.Result
	}
	switch {
	case result == job.ResultSucceeded && stored != 1,
		(result == job.ResultNotSent || result == job.ResultRejected) && stored != 0,
		stored > 1:
		t.Errorf("%s: %s, and the relay stored %d", where, result, stored)
	}
}

// TestCutEverywhere cuts the conversation after every byte of either direction,
// and compares the verdict with what the relay stored.
func TestCutEverywhere(t *testing.T) {
	t.Parallel()
	whole, stored, up, down := cut(t, smtptest.Options{}, -1, -1)
	if whole == nil || whole.Result != job.ResultSucceeded || stored != 1 || up < 200 || down < 100 {
		t.Fatalf("%+v, %d stored, %d bytes up, %d down", whole, stored, up, down)
	}
	// The relay asks for the content when it has everything that comes before it.
	const quit = int64(len("QUIT\r\n"))
	beforeContent := up - quit - int64(len(messageOnWire))
	counts := map[job.Result]int{}
	t.Run("up", func(t *testing.T) {
		for n := range up + 1 {
			o, stored, _, _ := cut(t, smtptest.Options{}, n, -1)
			where := fmt.Sprintf("cut after %d of %d bytes up", n, up)
			honest(t, where, o, stored)
			if o == nil {
				continue
			}
			counts[o.Result]++
			if o.Result == job.ResultUnknown && n < beforeContent {
				t.Errorf("%s: unknown, and the content had not begun: %s", where, o.Message)
			}
		}
	})
	t.Run("down", func(t *testing.T) {
		for n := range down + 1 {
			o, stored, _, _ := cut(t, smtptest.Options{}, -1, n)
			where := fmt.Sprintf("cut after %d of %d bytes down", n, down)
			honest(t, where, o, stored)
			if o == nil {
				continue
			}
			counts[o.Result]++
		}
	})
	for _, r := range []job.Result{job.ResultSucceeded, job.ResultUnknown, job.ResultRejected} {
		if counts[r] == 0 {
			t.Errorf("no cut was %s: %v", r, counts)
		}
	}
	t.Logf("%d + %d cuts: %v", up+1, down+1, counts)
}

// messageOnWire is the usual message with its end.
const messageOnWire = "Date: Sat, 21 Nov 2026 12:00:00 +0000\r\nFrom: \"Ada\" <ada@example.org>\r\nTo: \"Bob\" <bob@example.net>\r\n" +
	"Message-ID: " + messageID + "\r\nSubject: Hello\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Content-Transfer-Encoding: quoted-printable\r\n\r\nOne line.\r\n..\r\n...two\r\n..dot\r\nend\r\n.\r\n"

// The same over TLS, where bytes are records: not after every one, since a
// handshake each is dear.
func TestCutTLS(t *testing.T) {
	t.Parallel()
	for _, security := range []smtptest.Security{smtptest.StartTLS, smtptest.TLS} {
		o := smtptest.Options{Security: security, User: user, Password: password}
		whole, stored, up, down := cut(t, o, -1, -1)
		if whole == nil || whole.Result != job.ResultSucceeded || stored != 1 {
			t.Fatalf("%+v, %d stored", whole, stored)
		}
		const step = 23
		for n := up; n >= 0; n -= step {
			o, stored, _, _ := cut(t, o, n, -1)
			honest(t, fmt.Sprintf("cut after %d of %d bytes up", n, up), o, stored)
		}
		for n := down; n >= 0; n -= step {
			o, stored, _, _ := cut(t, o, -1, n)
			honest(t, fmt.Sprintf("cut after %d of %d bytes down", n, down), o, stored)
		}
	}
}
