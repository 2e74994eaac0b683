package resend_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/resend/resendtest"
	"github.com/fireonce/fireonce/internal/job"
)

// TestHeaders: Resend gets the headers by name, ready to be written.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	e := usual()
	e.Sender = `Ada "The Countess" Lovelace (née Byron) <ada@example.org>`
	e.Headers = []*fireoncev1.EmailHeader{{Name: "X-Entity-Ref-ID", Value: "order-42"}, {Name: "X-Greeting", Value: "Grüße aus Wien"}}
	e.InReplyTo, e.References = "<b@example.net>", []string{"<a@example.net>"}
	e.Unsubscribe = &fireoncev1.Unsubscribe{Url: "https://example.org/u/1", Mailto: "mailto:leave@example.org", OneClick: true}
	check(t, w.publish(e, 1, longTime), job.ResultSucceeded, 0)
	check(t, w.publish(e, 2, longTime), job.ResultSucceeded, 0) // the same bytes, or Resend would refuse them
	sent := w.p.Sent()
	if len(sent) != 1 {
		t.Fatalf("%d sent", len(sent))
	}
	want := map[string]string{
		"X-Entity-Ref-ID": "order-42", "X-Greeting": "=?utf-8?b?R3LDvMOfZSBhdXMgV2llbg==?=", "In-Reply-To": "<b@example.net>",
		"References": "<a@example.net> <b@example.net>", "List-Unsubscribe": "<https://example.org/u/1>, <mailto:leave@example.org>",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
	}
	if !maps.Equal(sent[0].Headers, want) {
		t.Errorf("headers %q, want %q", sent[0].Headers, want)
	}
	if sent[0].From != `"Ada \"The Countess\" Lovelace (née Byron)" <ada@example.org>` {
		t.Errorf("from %s", sent[0].From)
	}
}

func TestHeadersRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, resendtest.Options{})
	for name, headers := range map[string][]*fireoncev1.EmailHeader{
		"Resend's own": {{Name: "X-A", Value: "b"}, {Name: "Resend-Idempotency-Key", Value: "x"}},
		"twice":        {{Name: "X-Tag", Value: "a"}, {Name: "x-tag", Value: "b"}},
	} {
		e := usual()
		e.Headers = headers
		_, err := w.c.Prepare(requestFor(t, e))
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadHeader || input.Field != "payload.email.headers[1].name" {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := requestFor(t, usual())
	r.ReplyTo = "49a3999c-0ce1-4ea6-ab68-afcd6dc2e794"
	if _, err := w.c.Prepare(r); err == nil || !strings.Contains(err.Error(), "in_reply_to") {
		t.Errorf("a reply to another job: %v", err)
	}
}
