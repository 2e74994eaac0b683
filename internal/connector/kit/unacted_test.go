package kit_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/kit"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func headerMark(status int32, name, value string) *connectionsv1.UnactedAnswer {
	return &connectionsv1.UnactedAnswer{Status: status, Mark: &connectionsv1.UnactedAnswer_Header{Header: &connectionsv1.AnswerMark{Name: name, Value: value}}}
}

func bodyMark(status int32, text string) *connectionsv1.UnactedAnswer {
	return &connectionsv1.UnactedAnswer{Status: status, Mark: &connectionsv1.UnactedAnswer_BodyContains{BodyContains: text}}
}

func TestUnactedIsChecked(t *testing.T) {
	for _, tt := range []struct {
		stated *connectionsv1.UnactedAnswer
		field  string
	}{
		{headerMark(502, "x-refused-by", "edge"), ""},
		{bodyMark(503, "no healthy upstream"), ""},
		{headerMark(504, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{headerMark(524, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{headerMark(408, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{headerMark(409, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{headerMark(200, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{headerMark(302, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{headerMark(600, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{headerMark(0, "X-Refused-By", "edge"), "settings.webhook.unacted[0].status"},
		{&connectionsv1.UnactedAnswer{Status: 503}, "settings.webhook.unacted[0].mark"},
		{headerMark(503, "", "edge"), "settings.webhook.unacted[0].header.name"},
		{headerMark(503, "a b", "edge"), "settings.webhook.unacted[0].header.name"},
		{headerMark(503, "X-Refused-By", ""), "settings.webhook.unacted[0].header.value"},
		{headerMark(503, "X-Refused-By", " edge"), "settings.webhook.unacted[0].header.value"},
		{bodyMark(503, "short"), "settings.webhook.unacted[0].body_contains"},
	} {
		_, err := kit.ParseUnacted("settings.webhook", []*connectionsv1.UnactedAnswer{tt.stated})
		var in *connector.InputError
		if errors.As(err, &in); in == nil && (err != nil || tt.field != "") || in != nil && in.Field != tt.field {
			t.Errorf("%v: %v, want a refusal of %q", tt.stated, err, tt.field)
		}
	}
	if _, err := kit.ParseUnacted("settings.http", make([]*connectionsv1.UnactedAnswer, 11)); err == nil {
		t.Error("eleven are allowed")
	}
}

// TestUnactedClosesWhatItProves checks which answers are refusals by the owner's statement.
// Every other one stays unknown, as without the statement.
func TestUnactedClosesWhatItProves(t *testing.T) {
	unacted, err := kit.ParseUnacted("settings.webhook", []*connectionsv1.UnactedAnswer{
		headerMark(502, "x-refused-by", "edge"), bodyMark(503, "no healthy upstream"),
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := func() transport.Response {
		return transport.Response{
			Written: 100, Sent: true, Status: 502, Complete: true, At: time.Now(),
			Header: http.Header{"X-Refused-By": {"edge"}, "Retry-After": {"7"}},
		}
	}
	for _, tt := range []struct {
		name string
		edit func(*transport.Response)
		want bool
	}{
		{"as stated", func(*transport.Response) {}, true},
		{"without the mark", func(a *transport.Response) { a.Header.Del("X-Refused-By") }, false},
		{"with another value", func(a *transport.Response) { a.Header.Set("X-Refused-By", "edge2") }, false},
		{"with two values", func(a *transport.Response) { a.Header.Add("X-Refused-By", "edge") }, false},
		{"with another status", func(a *transport.Response) { a.Status = 500 }, false},
		{"with the mark of another status", func(a *transport.Response) { a.Status = 503 }, false},
		{"broken off", func(a *transport.Response) { a.Complete = false }, false},
		{"longer than it was read", func(a *transport.Response) { a.TooLong, a.Cut = true, true }, false},
		{"a timeout of the proxy", func(a *transport.Response) { a.Status = 504 }, false},
		{"by its body", func(a *transport.Response) {
			a.Status, a.Header, a.Excerpt = 503, http.Header{}, []byte("<h1>no healthy upstream</h1>")
		}, true},
		{"by a body that is cut before it", func(a *transport.Response) {
			a.Status, a.Header, a.Excerpt = 503, http.Header{}, append(make([]byte, 1990), "no healthy upstream"...)
		}, false},
	} {
		a := refused()
		tt.edit(&a)
		o := transport.ClassifyNamed(a, kit.ReceiverName, nil, true)
		before := o
		unacted.Judge(&o, a)
		closed := o.Result == job.ResultRejected && o.Kind == job.FailTransient
		if closed != tt.want || !tt.want && (o.Result != before.Result || o.Kind != before.Kind || o.Message != before.Message) {
			t.Errorf("%s: %s %s, %q", tt.name, o.Result, o.Kind, o.Message)
		}
		if tt.name == "as stated" && o.RetryAfter != 7*time.Second {
			t.Errorf("the proxy asks to wait for 7 s: %v", o.RetryAfter)
		}
	}
	for _, status := range []int{200, 404, 429} {
		a := refused()
		a.Status = status
		o := transport.ClassifyNamed(a, kit.ReceiverName, nil, false)
		before := o
		unacted.Judge(&o, a)
		if o.Result != before.Result || o.Kind != before.Kind {
			t.Errorf("%d: %s, was %s", status, o.Result, before.Result)
		}
	}
}
