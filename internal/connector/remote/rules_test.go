package remote_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/connector/remote/remotetest"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func TestNew(t *testing.T) {
	for name, c := range map[string]struct {
		remote.Config
		ok bool
	}{
		"loopback":     {remote.Config{Name: "acme", URL: "http://127.0.0.1:9000"}, true},
		"loopback 6":   {remote.Config{Name: "acme", URL: "http://[::1]:9000/base/"}, true},
		"https":        {remote.Config{Name: "acme-2_b", URL: "https://connectors.example"}, true},
		"http":         {remote.Config{Name: "acme", URL: "http://10.0.0.7:9000"}, false},
		"a name":       {remote.Config{Name: "acme", URL: "http://localhost:9000"}, false}, // it may resolve elsewhere
		"allowed http": {remote.Config{Name: "acme", URL: "http://connector:9000", AllowHTTP: true}, true},
		"query":        {remote.Config{Name: "acme", URL: "https://connectors.example?a=b"}, false},
		"no URL":       {remote.Config{Name: "acme"}, false},
		"no name":      {remote.Config{URL: "https://connectors.example"}, false},
		"upper case":   {remote.Config{Name: "Acme", URL: "https://connectors.example"}, false},
		"built in":     {remote.Config{Name: "webhook", URL: "https://connectors.example"}, false},
		"to be":        {remote.Config{Name: "tiktok", URL: "https://connectors.example"}, false},
		"custom":       {remote.Config{Name: "custom", URL: "https://connectors.example"}, false},
		"bad token":    {remote.Config{Name: "acme", URL: "https://connectors.example", Token: "sec ret"}, false},
	} {
		if _, err := remote.New(c.Config); (err == nil) != c.ok || err != nil && strings.Contains(err.Error(), "sec ret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// send makes one attempt, and returns it as the engine would see it.
func send(t *testing.T, c *remote.Connector, class job.Class, save func(string) error) job.Outcome {
	t.Helper()
	prepared, err := c.Prepare(requestOf(t, "https://x.example"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.Open(t.Context(), connector.Opening{
		Job: job.ID{1}, Connection: job.ID{2}, Settings: settingsOf(t, "https://x.example"), Class: class,
		Credential: credential(t), Prepared: prepared, Fresh: class != job.Keyed,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	now := time.Now()
	return session.Publish(connector.Commit{
		Attempt: 2, EffectKey: effectKey, SendBy: now.Add(10 * time.Second), AnswerBy: now.Add(30 * time.Second),
		MaySend: func() error { return nil }, SaveHandle: save,
	})
}

func refusal(kind connectorv1.Refusal_Kind, after time.Duration) *connectorv1.Refusal {
	r := &connectorv1.Refusal{Kind: kind, Message: "no, and not with " + secret, HttpStatus: 418}
	if after != 0 {
		r.RetryAfter = durationpb.New(after)
	}
	return r
}

// TestResults: what the service's word on an attempt is worth.
func TestResults(t *testing.T) {
	type answer = connectorv1.PublishResponse
	rejected := func(kind connectorv1.Refusal_Kind, after time.Duration) *answer {
		return &answer{Result: &connectorv1.PublishResponse_Rejected{Rejected: refusal(kind, after)}}
	}
	accepted := &answer{Result: &connectorv1.PublishResponse_Accepted{Accepted: &connectorv1.Accepted{}}}
	for name, c := range map[string]struct {
		class  job.Class
		answer *answer
		err    error
		result job.Result
		kind   job.FailureKind
		wait   time.Duration
		id     string
		status int
	}{
		"published":                     {job.Keyed, remotetest.Published("e1"), nil, job.ResultSucceeded, 0, 0, "e1", 0},
		"published, nameless":           {job.Keyed, remotetest.Published(""), nil, job.ResultSucceeded, 0, 0, "", 0},
		"published, nameless, lookedat": {job.Observable, remotetest.Published(""), nil, job.ResultUnknown, job.FailAmbiguous, 0, "", 200},
		"published, long name":          {job.Keyed, remotetest.Published(strings.Repeat("a", 513)), nil, job.ResultSucceeded, 0, 0, "", 0},
		"published, a secret's name":    {job.Keyed, remotetest.Published("e1 " + secret), nil, job.ResultSucceeded, 0, 0, "", 0},
		"published, our token's name":   {job.Keyed, remotetest.Published(operators), nil, job.ResultSucceeded, 0, 0, "", 0},
		"accepted, but no handle":       {job.Keyed, accepted, nil, job.ResultUnknown, job.FailAmbiguous, 0, "", 200},
		"auth":                          {job.Opaque, rejected(connectorv1.Refusal_KIND_AUTH, 0), nil, job.ResultRejected, job.FailAuth, 0, "", 418},
		"permanent":                     {job.Opaque, rejected(connectorv1.Refusal_KIND_PERMANENT, 0), nil, job.ResultRejected, job.FailPermanent, 0, "", 418},
		"transient":                     {job.Opaque, rejected(connectorv1.Refusal_KIND_TRANSIENT, 0), nil, job.ResultRejected, job.FailTransient, 0, "", 418},
		"limited":                       {job.Opaque, rejected(connectorv1.Refusal_KIND_RATE_LIMITED, time.Minute), nil, job.ResultRejected, job.FailRateLimited, time.Minute, "", 418},
		"limited, unsaid":               {job.Opaque, rejected(connectorv1.Refusal_KIND_RATE_LIMITED, 0), nil, job.ResultRejected, job.FailRateLimited, 30 * time.Second, "", 418},
		"limited for years":             {job.Opaque, rejected(connectorv1.Refusal_KIND_RATE_LIMITED, 1e6*time.Hour), nil, job.ResultRejected, job.FailRateLimited, 24 * time.Hour, "", 418},
		"refused, kind unset":           {job.Opaque, rejected(0, 0), nil, job.ResultUnknown, job.FailAmbiguous, 0, "", 200},
		"refused, a later kind":         {job.Opaque, rejected(99, 0), nil, job.ResultUnknown, job.FailAmbiguous, 0, "", 200},
		"not sent":                      {job.Opaque, &answer{Result: &connectorv1.PublishResponse_NotSent{NotSent: &connectorv1.NotSent{Message: "no address for " + secret}}}, nil, job.ResultNotSent, job.FailTransient, 0, "", 0},
		"unknown": {job.Opaque, &answer{Result: &connectorv1.PublishResponse_Unknown{Unknown: &connectorv1.Unknown{
			Message: "the connection broke, " + secret, RetryAfter: durationpb.New(time.Minute), HttpStatus: 502,
		}}}, nil, job.ResultUnknown, job.FailAmbiguous, time.Minute, "", 502},
		"nothing":          {job.Opaque, &answer{}, nil, job.ResultUnknown, job.FailAmbiguous, 0, "", 200},
		"INVALID_ARGUMENT": {job.Opaque, nil, connect.NewError(connect.CodeInvalidArgument, errors.New("bad "+secret)), job.ResultUnknown, job.FailAmbiguous, 0, "", 400},
		"UNAUTHENTICATED":  {job.Opaque, nil, connect.NewError(connect.CodeUnauthenticated, errors.New("who? "+operators)), job.ResultUnknown, job.FailAmbiguous, 0, "", 401},
		"UNIMPLEMENTED":    {job.Opaque, nil, connect.NewError(connect.CodeUnimplemented, nil), job.ResultUnknown, job.FailAmbiguous, 0, "", 501},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{class: c.class, publish: func(r *connectorv1.PublishRequest) (*answer, error) {
				checkRequest(t, r, c.class)
				return c.answer, c.err
			}}
			o := send(t, s.start(t), c.class, nil)
			if o.Result != c.result || o.Kind != c.kind || o.RetryAfter != c.wait || o.ExternalID != c.id || o.HTTPStatus != c.status {
				t.Errorf("%+v", o)
			}
			if o.Attempt != 2 || o.CredentialVersion != 3 || (o.BytesWritten == 0) != (o.Result == job.ResultNotSent) {
				t.Errorf("attempt %d, credential %d, %d bytes", o.Attempt, o.CredentialVersion, o.BytesWritten)
			}
			if o.Message == "" || strings.Contains(o.Message, secret) || strings.Contains(o.Message, operators) {
				t.Errorf("message %q", o.Message)
			}
			if got := now(s, &s.header).Get("Authorization"); got != "Bearer "+operators {
				t.Errorf("the call says %q", got)
			}
		})
	}
}

// TestAnswerIsKept: the platform's answer, as the service reports it, is kept with
// every result but not_sent, within limits and without secrets.
func TestAnswerIsKept(t *testing.T) {
	type answer = connectorv1.PublishResponse
	told := &connectorv1.Answer{HttpStatus: 418, Body: "<short> & stout, " + secret + strings.Repeat("\n", 20<<10)}
	for i := range 30 {
		told.Headers = append(told.Headers, &connectorv1.AnswerHeader{Name: fmt.Sprint("x-", i), Value: secret + strings.Repeat("v", 2<<10)})
	}
	told.Headers = slices.Insert(told.Headers, 0, &connectorv1.AnswerHeader{Name: "set-cookie", Value: "a=b"}, &connectorv1.AnswerHeader{Name: "no name", Value: "v"})
	unknown := &connectorv1.PublishResponse_Unknown{Unknown: &connectorv1.Unknown{Message: "the connection broke"}}
	for name, result := range map[string]*answer{
		"published": remotetest.Published("e1"),
		"rejected":  {Result: &connectorv1.PublishResponse_Rejected{Rejected: refusal(connectorv1.Refusal_KIND_PERMANENT, 0)}},
		"unknown":   {Result: unknown},
		"nothing":   {},
	} {
		result.Answer = told
		s := &service{class: job.Opaque, publish: func(*connectorv1.PublishRequest) (*answer, error) { return result, nil }}
		got := send(t, s.start(t), job.Opaque, nil).Answer
		if got == nil || got.Status != 418 || len(got.Headers) != 20 || got.Headers[0].Name != "X-0" || len(got.Headers[0].Value) > 1<<10+8 {
			t.Errorf("%s: kept %.300v", name, got)
			continue
		}
		if !strings.HasPrefix(got.Body, "<short> & stout, [redacted]") || len(got.Body) != 16<<10 || !got.Cut || strings.Contains(fmt.Sprint(got), secret) {
			t.Errorf("%s: kept %d bytes, cut %t: %.100q", name, len(got.Body), got.Cut, got.Body)
		}
	}
	for name, result := range map[string]*answer{
		"not sent": {Answer: told, Result: &connectorv1.PublishResponse_NotSent{NotSent: &connectorv1.NotSent{}}},
		"untold":   remotetest.Published("e1"),
	} {
		s := &service{class: job.Opaque, publish: func(*connectorv1.PublishRequest) (*answer, error) { return result, nil }}
		if got := send(t, s.start(t), job.Opaque, nil).Answer; got != nil {
			t.Errorf("%s: kept %v", name, got)
		}
	}
	binary := remotetest.Published("e1")
	binary.Answer = &connectorv1.Answer{Body: "a\x00b"}
	s := &service{class: job.Opaque, publish: func(*connectorv1.PublishRequest) (*answer, error) { return binary, nil }}
	if got := send(t, s.start(t), job.Opaque, nil).Answer; got == nil || got.Body != "" || got.Omission != job.BodyBinary {
		t.Errorf("a body that is no text: %v", got)
	}
}

// TestNothingIsNamedAfterASecret: no object, page or account is named after a secret, and
// a page is one that a browser can be sent to.
func TestNothingIsNamedAfterASecret(t *testing.T) {
	s := &service{class: job.Observable}
	c := s.start(t)
	prepared, err := c.Prepare(requestOf(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	o := connector.Opening{Class: job.Observable, Credential: credential(t)}
	look := connector.Look{First: job.Attempt{Frozen: prepared.Frozen, Watermark: `{"mark":"7"}`, EffectKey: effectKey}}
	for _, tt := range []struct {
		id, url string
		verdict job.Verdict
		shown   string
	}{
		{"e1", "https://x.example/e1", job.SawPresent, "https://x.example/e1"},
		{"e1", "https://x.example/e1?by=" + secret, job.SawPresent, ""},
		{"e1", "https://x.example/e1?by=" + operators, job.SawPresent, ""},
		{"e1", "javascript:alert(1)", job.SawPresent, ""},
		{secret, "", job.SawInconclusive, ""},
		{"by " + operators, "", job.SawInconclusive, ""},
	} {
		s.set(func() {
			s.seen = &connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Seen{Seen: &connectorv1.Seen{
				Complete: true, Candidates: []*connectorv1.Candidate{{ExternalId: tt.id, ExternalUrl: tt.url, Sure: true}},
			}}}
			s.test = &connectorv1.TestResponse{Result: &connectorv1.TestResponse_Tested{Tested: &connectorv1.Tested{AccountIdentity: tt.id}}}
			s.publish = func(*connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
				return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Published{
					Published: &connectorv1.Published{ExternalId: "e1", ExternalUrl: tt.url},
				}}, nil
			}
		})
		if got := c.Observe(t.Context(), o, look); got.Verdict != tt.verdict || got.ExternalURL != tt.shown {
			t.Errorf("%+v: seen as %+v", tt, got)
		}
		if got := send(t, c, job.Keyed, nil); got.ExternalID != "e1" || got.ExternalURL != tt.shown {
			t.Errorf("%+v: sent as %+v", tt, got)
		}
		if got, err := c.Test(t.Context(), o); err != nil || (got.Identity == "") != (tt.verdict == job.SawInconclusive) {
			t.Errorf("%+v: %+v, %v", tt, got, err)
		}
	}
}

// checkRequest: everything that an attempt needs is in the one call.
func checkRequest(t *testing.T, r *connectorv1.PublishRequest, class job.Class) {
	t.Helper()
	if r.GetEffectKey() != effectKey || r.GetAttempt() != 2 || r.GetEffectClass() != wireClass[class] ||
		r.GetJobId() != (job.ID{1}).String() || r.GetAccount().GetConnectionId() != (job.ID{2}).String() ||
		r.GetAccount().GetCredential().GetBearerToken().GetToken() != secret || r.GetAccount().GetSettings().GetValues()["base_url"] == "" ||
		string(r.GetContent().GetPayload().GetCustom().GetData()) != "Grüße" {
		t.Errorf("the call has %v", r)
	}
	send, answer := r.GetSendWithin().AsDuration(), r.GetAnswerWithin().AsDuration()
	if send <= 5*time.Second || send > 10*time.Second || answer <= 20*time.Second || answer > 27*time.Second {
		t.Errorf("send within %v, answer within %v", send, answer)
	}
}

// TestHandle: what is staged is stored before it is published, and only then is it
// published.
func TestHandle(t *testing.T) {
	staged := func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
		return &connectorv1.StageResponse{Result: &connectorv1.StageResponse_Staged{Staged: &connectorv1.Staged{Handle: "h1"}}}, nil
	}
	accept := func(r *connectorv1.PublishRequest) (*connectorv1.PublishResponse, error) {
		if r.GetHandle() != "h1" {
			t.Errorf("published handle %q", r.GetHandle())
		}
		return &connectorv1.PublishResponse{Result: &connectorv1.PublishResponse_Accepted{Accepted: &connectorv1.Accepted{}}}, nil
	}
	refuse := func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
		return &connectorv1.StageResponse{Result: &connectorv1.StageResponse_Refused{Refused: refusal(connectorv1.Refusal_KIND_AUTH, 0)}}, nil
	}
	fail := func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
		return nil, errors.New("it broke")
	}
	empty := func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
		return &connectorv1.StageResponse{}, nil
	}
	zero := func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
		return &connectorv1.StageResponse{Result: &connectorv1.StageResponse_Staged{Staged: &connectorv1.Staged{Handle: "h\x001"}}}, nil
	}
	telling := func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error) {
		return &connectorv1.StageResponse{Result: &connectorv1.StageResponse_Staged{Staged: &connectorv1.Staged{Handle: "h1 for " + secret}}}, nil
	}
	for name, c := range map[string]struct {
		stage  func(*connectorv1.StageRequest) (*connectorv1.StageResponse, error)
		saved  error
		result job.Result
		kind   job.FailureKind
		calls  []string
	}{
		"accepted":       {staged, nil, job.ResultAccepted, 0, []string{"Stage", "save", "Publish"}},
		"not stored":     {staged, errors.New("no store"), job.ResultNotSent, job.FailTransient, []string{"Stage", "save"}},
		"refused":        {refuse, nil, job.ResultRejected, job.FailAuth, []string{"Stage"}},
		"an RPC error":   {fail, nil, job.ResultNotSent, job.FailTransient, []string{"Stage"}},
		"without handle": {empty, nil, job.ResultNotSent, job.FailTransient, []string{"Stage"}},
		"with a secret":  {telling, nil, job.ResultNotSent, job.FailTransient, []string{"Stage"}},
		"with a zero":    {zero, nil, job.ResultNotSent, job.FailTransient, []string{"Stage"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{class: job.Handle, stage: c.stage, publish: accept}
			o := send(t, s.start(t), job.Handle, func(handle string) error {
				s.called("save")
				if handle != "h1" {
					t.Errorf("stored %q", handle)
				}
				return c.saved
			})
			if o.Result != c.result || o.Kind != c.kind || (o.Handle == "h1") != (o.Result == job.ResultAccepted) || o.Message == "" {
				t.Errorf("%+v", o)
			}
			got := slices.DeleteFunc(s.log(), func(call string) bool { return !slices.Contains([]string{"Stage", "save", "Publish"}, call) })
			if !slices.Equal(got, c.calls) {
				t.Errorf("calls %q, want %q", got, c.calls)
			}
		})
	}
}

// TestHandleLeave: without leave nothing is staged.
func TestHandleLeave(t *testing.T) {
	s := &service{class: job.Handle}
	c := s.start(t)
	prepared, err := c.Prepare(requestOf(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	session, err := c.Open(t.Context(), connector.Opening{Class: job.Handle, Prepared: prepared})
	if err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Minute)
	o := session.Publish(connector.Commit{Attempt: 1, SendBy: soon, AnswerBy: soon, MaySend: func() error { return errors.New("the clocks disagree") }})
	if o.Result != job.ResultNotSent || slices.Contains(s.log(), "Stage") {
		t.Errorf("%+v after the calls %q", o, s.log())
	}
}

// TestUnsure: what only could be the effect is a person's to decide.
func TestUnsure(t *testing.T) {
	s := &service{class: job.Observable}
	c := s.start(t)
	prepared, err := c.Prepare(requestOf(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	look := connector.Look{First: job.Attempt{Frozen: prepared.Frozen, Watermark: `{"mark":"7"}`, EffectKey: effectKey}}
	for _, sure := range []bool{true, false} {
		seen := remotetest.Seen(true, "e1")
		seen.GetSeen().GetCandidates()[0].Sure = sure
		s.set(func() { s.seen = seen })
		o := c.Observe(t.Context(), connector.Opening{Class: job.Observable}, look)
		if sure && o.Verdict != job.SawPresent || !sure && (o.Verdict != job.SawCandidates || !strings.Contains(o.Detail, "e1")) {
			t.Errorf("sure %v: %+v", sure, o)
		}
	}
}

// TestPoll: only a word on the handle itself, that it came to nothing, lets a job be
// sent again.
func TestPoll(t *testing.T) {
	type answer = connectorv1.PollResponse
	rejected := func(kind connectorv1.Refusal_Kind, after time.Duration) *answer {
		return &answer{Result: &connectorv1.PollResponse_Rejected{Rejected: refusal(kind, after)}}
	}
	refused := func(kind connectorv1.Refusal_Kind, after time.Duration) *answer {
		return &answer{Result: &connectorv1.PollResponse_Refused{Refused: refusal(kind, after)}}
	}
	for name, c := range map[string]struct {
		answer *answer
		err    error
		result job.Result
		kind   job.FailureKind
		wait   time.Duration
	}{
		"published":       {&answer{Result: &connectorv1.PollResponse_Published{Published: &connectorv1.Published{ExternalId: "e1"}}}, nil, job.ResultSucceeded, 0, 0},
		"pending":         {&answer{Result: &connectorv1.PollResponse_Pending{Pending: &connectorv1.Pending{}}}, nil, job.ResultAccepted, 0, 0},
		"rejected":        {rejected(connectorv1.Refusal_KIND_PERMANENT, 0), nil, job.ResultRejected, job.FailPermanent, 0},
		"for now":         {rejected(connectorv1.Refusal_KIND_TRANSIENT, 0), nil, job.ResultRejected, job.FailTransient, 0},
		"a later kind":    {rejected(99, 0), nil, job.ResultUnknown, job.FailAmbiguous, 0},
		"its token ended": {rejected(connectorv1.Refusal_KIND_AUTH, 0), nil, job.ResultUnknown, job.FailAuth, 0},
		"it asks to wait": {rejected(connectorv1.Refusal_KIND_RATE_LIMITED, time.Minute), nil, job.ResultUnknown, job.FailAmbiguous, time.Minute},
		"refused":         {refused(connectorv1.Refusal_KIND_PERMANENT, 0), nil, job.ResultUnknown, job.FailAmbiguous, 0},
		"refused, auth":   {refused(connectorv1.Refusal_KIND_AUTH, 0), nil, job.ResultUnknown, job.FailAuth, 0},
		"refused, wait":   {refused(connectorv1.Refusal_KIND_RATE_LIMITED, time.Minute), nil, job.ResultUnknown, job.FailAmbiguous, time.Minute},
		"refused, later":  {refused(99, 0), nil, job.ResultUnknown, job.FailAmbiguous, 0},
		"unread":          {&answer{Result: &connectorv1.PollResponse_Unread{Unread: &connectorv1.Unread{}}}, nil, job.ResultUnknown, job.FailAmbiguous, 0},
		"nothing":         {&answer{}, nil, job.ResultUnknown, job.FailAmbiguous, 0},
		"an RPC error":    {nil, errors.New("broken"), job.ResultUnknown, job.FailAmbiguous, 0},
	} {
		s := &service{class: job.Handle, poll: func(r *connectorv1.PollRequest) (*answer, error) {
			if r.GetHandle() != "h1" || r.GetAccount().GetCredential() == nil {
				t.Errorf("polled with %v", r)
			}
			return c.answer, c.err
		}}
		o := s.start(t).Poll(t.Context(), connector.Opening{Settings: settingsOf(t, "x"), Credential: credential(t)}, "h1")
		if o.Result != c.result || o.Kind != c.kind || o.RetryAfter != c.wait || o.Message == "" || strings.Contains(o.Message, secret) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// TestObserveRefused: a platform that refuses the question has said nothing of the
// effect, whatever it calls that.
func TestObserveRefused(t *testing.T) {
	s := &service{class: job.Observable}
	c := s.start(t)
	prepared, err := c.Prepare(requestOf(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	look := connector.Look{First: job.Attempt{Frozen: prepared.Frozen, Watermark: `{"mark":"7"}`, EffectKey: effectKey}}
	for kind := range connectorv1.Refusal_Kind_name {
		s.set(func() {
			s.seen = &connectorv1.ObserveResponse{Result: &connectorv1.ObserveResponse_Refused{Refused: refusal(connectorv1.Refusal_Kind(kind), 0)}}
		})
		o := c.Observe(t.Context(), connector.Opening{Class: job.Observable, Credential: credential(t)}, look)
		if o.Verdict != job.SawInconclusive || o.Detail == "" || strings.Contains(o.Detail, secret) {
			t.Errorf("kind %d: %+v", kind, o)
		}
	}
}

// TestObserveHandle: what was never staged was never published.
func TestObserveHandle(t *testing.T) {
	c := dial(t, "http://127.0.0.1:1", loopback(t))
	if o := c.Observe(t.Context(), connector.Opening{Class: job.Handle}, connector.Look{}); o.Verdict != job.SawAbsent {
		t.Errorf("%+v", o)
	}
}

// TestKeep: a service that comes late is asked until it is there, and is reported once.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Denied immediately, without a socket.
		c := dial(t, "http://127.0.0.1:1", transport.NewSender(transport.Config{}))
		ctx, stop := context.WithCancel(t.Context())
		told := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Keep(ctx, time.Second, func(err error) {
				if told++; err == nil {
					t.Error("reached")
				}
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		<-done
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}

// FuzzStored: bytes from a database never panic, and are opened only if they are a
// request.
func FuzzStored(f *testing.F) {
	p, err := (&service{class: job.Keyed}).start(f).Prepare(requestOf(f, "x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.Frozen, `{"account":"acme:ada","mark":"7"}`)
	f.Add([]byte{1}, "null")
	c := dial(f, "http://127.0.0.1:1", transport.NewSender(transport.Config{}))
	f.Fuzz(func(t *testing.T, frozen []byte, mark string) {
		_, err := c.Open(t.Context(), connector.Opening{Prepared: connector.Prepared{Frozen: frozen}})
		var r *connector.Refusal
		if !errors.As(err, &r) || r.Kind != job.FailPermanent && r.Kind != job.FailEgressDenied {
			t.Errorf("%x: %v", frozen, err)
		}
		o := c.Observe(t.Context(), connector.Opening{Class: job.Observable}, connector.Look{First: job.Attempt{Frozen: frozen, Watermark: mark}})
		if o.Verdict != job.SawInconclusive || o.Detail == "" {
			t.Errorf("%x, %q: %+v", frozen, mark, o)
		}
		_ = c.AccountOf(mark)
	})
}
