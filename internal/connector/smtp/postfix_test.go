//go:build unix

package smtp_test

import (
	"fmt"
	"mime"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/smtp/smtptest"
	"github.com/fireonce/fireonce/internal/job"
	"github.com/fireonce/fireonce/internal/proof/platforms/postfix"
)

// cutPostfix makes one attempt whose connection to the server is cut after up or down
// bytes. It returns the verdict, and how many bytes were passed on.
func cutPostfix(t *testing.T, s *postfix.Server, key string, up, down int64) (result job.Result, passedUp, passedDown int64) {
	t.Helper()
	c, err := smtptest.NewCutter(string(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	c.Cut(up, down)
	w := at(t, c.Addr(), nil)
	r := requestFor(t, usual())
	r.EffectKey = key
	if w.prepared, err = w.c.Prepare(r); err != nil {
		t.Fatal(err)
	}
	result = job.ResultNotSent
	if session, err := w.open(); err == nil {
		o := session.Publish(commit(longTime))
		session.Close()
		result = o.Result
	} else {
		w.refused(err, job.FailTransient)
	}
	c.Settle()
	passedUp, passedDown = c.Passed()
	return result, passedUp, passedDown
}

// TestCutPostfix cuts conversations with a Postfix after every second byte, and
// compares the verdicts with what lies in its mailbox.
func TestCutPostfix(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	t.Parallel()
	s := postfix.Start(t, postfix.Options{})
	verdicts := make(map[string]job.Result)
	one := func(up, down int64) (passedUp, passedDown int64) {
		key := fmt.Sprintf("cut-%d-%d", up, down)
		verdicts["<"+key+"@example.org>"], passedUp, passedDown = cutPostfix(t, s, key, up, down)
		return passedUp, passedDown
	}
	up, down := one(-1, -1)
	const step = 2
	for n := up; n >= 0; n -= step {
		one(n, -1)
	}
	for n := down; n >= 0; n -= step {
		one(-1, n)
	}
	stored := make(map[string]int)
	for _, m := range s.Delivered(t, "One line.") {
		stored[m.ID]++
	}
	counts := make(map[job.Result]int)
	lost := 0
	for id, result := range verdicts {
		counts[result]++
		switch n := stored[id]; {
		case result == job.ResultSucceeded && n != 1, result != job.ResultSucceeded && result != job.ResultUnknown && n != 0, n > 1:
			t.Errorf("%s: %s, and %d lie in the mailbox", id, result, n)
		case result == job.ResultUnknown && n == 1:
			lost++
		}
	}
	if counts[job.ResultSucceeded] == 0 || counts[job.ResultRejected] == 0 || lost == 0 || lost == counts[job.ResultUnknown] {
		t.Errorf("%v, of the unknown ones %d are there: the cuts did not meet every case", counts, lost)
	}
	t.Logf("%d cuts: %v; of the unknown ones %d are there", len(verdicts), counts, lost)
}

// TestHeadersPostfix: what a real relay delivers has the headers, the thread and the names as they
// were given.
func TestHeadersPostfix(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of the ordinary tests")
	}
	t.Parallel()
	s := postfix.Start(t, postfix.Options{})
	w := at(t, s.Addr(), nil)
	e := usual()
	e.Sender = `Lovelace, Ada "The Countess" (née Byron), 計算機科学者・数学者・貴族 🙂 <ada@example.org>`
	e.Headers = []*fireoncev1.EmailHeader{
		{Name: "X-Greeting", Value: strings.TrimSpace(strings.Repeat("Grüße ", 100))},
		{Name: "X-Long", Value: strings.TrimSpace(strings.Repeat("word ", 100))}, {Name: "X-JSON", Value: `{"to": ["a", "b"]}`},
	}
	e.InReplyTo, e.References = "<b@example.net>", []string{"<" + strings.Repeat("a", 200) + "@example.net>"}
	e.Unsubscribe = &fireoncev1.Unsubscribe{Url: "https://example.org/" + strings.Repeat("u", 800), Mailto: "mailto:leave@example.org", OneClick: true}
	w.prepare(e)
	check(t, w.publish(commit(longTime)), job.ResultSucceeded, 0)
	got := s.Delivered(t, "One line.")
	if len(got) != 1 {
		t.Fatalf("%d delivered", len(got))
	}
	head := got[0].Header
	from, err := head.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name+" <"+from[0].Address+">" != e.Sender {
		t.Errorf("from %+v, %v", from, err)
	}
	want := map[string]string{
		"In-Reply-To": "<b@example.net>", "References": e.References[0] + " <b@example.net>",
		"List-Unsubscribe": "<" + e.Unsubscribe.Url + ">, <mailto:leave@example.org>", "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
	}
	for _, h := range e.Headers {
		want[h.Name] = h.Value
	}
	for name, value := range want {
		if text, err := new(mime.WordDecoder).DecodeHeader(head.Get(name)); err != nil || text != value {
			t.Errorf("%s: %q, %v, want %q", name, text, err, value)
		}
	}
}
