package httpapi_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/httpapi"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

const bearer = "bearer-secret-of-ada"

// kept sends one request to a target that answers as the script says, and returns the
// outcome. The connection keeps 100 bytes of each body.
func kept(t *testing.T, script connectortest.Script, limit time.Duration) job.Outcome {
	t.Helper()
	p := connectortest.NewPlatform(t, false, script)
	b := &bench{
		c: httpapi.New(httpapi.Config{Sender: p.Sender()}), class: job.Keyed,
		cred: credentialOf(t, &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: bearer}}}),
	}
	b.prepare(t, &fireoncev1.HttpRequest{Url: p.URL() + "/charges"})
	b.settings = encode(t, &connectionsv1.HttpSettings{
		Origins: []string{p.URL()}, KeepAnswer: &connectionsv1.KeepAnswer{Headers: []string{"request-id"}, MaxBodyBytes: 100},
	})
	return b.send(t, limit)
}

// TestKeptAnswers: what a target answers is kept with every outcome that an answer has.
func TestKeptAnswers(t *testing.T) {
	const charge = `{"id":"ch_1","amount":100}`
	for status, want := range map[int]job.Result{201: job.ResultSucceeded, 402: job.ResultRejected, 409: job.ResultUnknown, 500: job.ResultUnknown} {
		o := kept(t, connectortest.Say(connectortest.Answer(status, charge, "Request-Id: req_1", "X-Other: x")), long)
		a := o.Answer
		if o.Result != want || a == nil || a.Status != status || a.Body != charge || a.Cut ||
			len(a.Headers) != 1 || a.Headers[0] != (job.AnswerHeader{Name: "Request-Id", Value: "req_1"}) {
			t.Errorf("%d: %s, %+v", status, o.Result, a)
		}
	}
}

// TestKeptOfHostileAnswers: whatever a target answers, what is kept is bounded, is text,
// and has no secret in it.
func TestKeptOfHostileAnswers(t *testing.T) {
	padding := strings.Repeat("x", 90)
	for name, tt := range map[string]struct {
		script connectortest.Script
		limit  time.Duration
		result job.Result
		want   string
		cut    bool
		omits  job.BodyOmission
	}{
		"the secret across the cap": {
			connectortest.Say(connectortest.Answer(200, padding+bearer+" "+bearer)), long, job.ResultSucceeded, padding + "[redacted]", true, 0,
		},
		"larger than any body": {
			connectortest.Say(connectortest.Answer(200, strings.Repeat("y", transport.MaxBody+1))), long, job.ResultSucceeded, strings.Repeat("y", 100), true, 0,
		},
		"a secret, and then silence": {
			connectortest.Script{Do: func(c *connectortest.Conn) {
				c.Write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc " + bearer[:12])
				c.AwaitPeerGone()
			}}, 300 * time.Millisecond, job.ResultUnknown, "", true, 0,
		},
		"no UTF-8": {
			connectortest.Say(connectortest.Answer(200, "caf\xe9 \xff\xfe")), long, job.ResultSucceeded, "", false, job.BodyBinary,
		},
		"compressed": {
			connectortest.Say(connectortest.Answer(200, "\x1f\x8b", "Content-Encoding: gzip")), long, job.ResultSucceeded, "", false, job.BodyEncoded,
		},
		"a header with the secret": {
			connectortest.Say(connectortest.Answer(200, "ok", "Request-Id: "+bearer)), long, job.ResultSucceeded, "ok", false, 0,
		},
	} {
		o := kept(t, tt.script, tt.limit)
		if a := o.Answer; o.Result != tt.result || a == nil || a.Body != tt.want || a.Cut != tt.cut || a.Omission != tt.omits {
			t.Errorf("%s: %s, %+v", name, o.Result, a)
			continue
		}
		if got := string(o.Answer.Encode()); strings.Contains(got, bearer[:8]) || len(got) > 1000 {
			t.Errorf("%s: %s", name, strconv.Quote(got))
		}
	}
}

func TestNoAnswerIsKept(t *testing.T) {
	if o := kept(t, connectortest.Script{Do: (*connectortest.Conn).Reset}, long); o.Answer != nil {
		t.Errorf("of a reset: %+v", o.Answer)
	}
	p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(200, "ok")))
	b := &bench{c: httpapi.New(httpapi.Config{Sender: p.Sender()}), class: job.Keyed}
	b.prepare(t, &fireoncev1.HttpRequest{Url: p.URL() + "/x"})
	if o := b.send(t, long); o.Answer != nil {
		t.Errorf("without keep_answer: %+v", o.Answer)
	}
}
