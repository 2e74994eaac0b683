package remote_test

import (
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/fireonce/fireonce/clients/go/connectorv1"
	"github.com/fireonce/fireonce/clients/go/connectorv1/connectorv1connect"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/remote"
	"github.com/fireonce/fireonce/internal/job"
)

func TestCheckAnswers(t *testing.T) {
	checked := func(x *connectorv1.Traits) *connectorv1.CheckResponse {
		return &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{Traits: x, AccountIdentity: "ada"}}}
	}
	keyed := func(d time.Duration) *connectorv1.Traits {
		return &connectorv1.Traits{EffectClass: wireClass[job.Keyed], KeyWindow: durationpb.New(d)}
	}
	seenWith := func(lag *durationpb.Duration, negatives int32, spacing *durationpb.Duration) *connectorv1.Traits {
		return &connectorv1.Traits{EffectClass: wireClass[job.Observable], ReadLag: lag, Negatives: negatives, Spacing: spacing}
	}
	observable := func(lag time.Duration, negatives int, spacing time.Duration) job.Traits {
		return job.Traits{Class: job.Observable, ReadLag: lag, Negatives: negatives, Spacing: spacing}
	}
	for name, c := range map[string]struct {
		answer *connectorv1.CheckResponse
		want   job.Traits // zero: refused, and held
	}{
		"KEYED":                {checked(keyed(time.Hour)), job.Traits{Class: job.Keyed, KeyWindow: time.Hour}},
		"KEYED, seconds":       {checked(keyed(59 * time.Second)), job.Traits{}},
		"KEYED, months":        {checked(keyed(31 * 24 * time.Hour)), job.Traits{}},
		"KEYED, unsaid":        {checked(&connectorv1.Traits{EffectClass: wireClass[job.Keyed]}), job.Traits{}},
		"OPAQUE":               {checked(&connectorv1.Traits{EffectClass: wireClass[job.Opaque]}), job.Traits{Class: job.Opaque}},
		"HANDLE":               {checked(&connectorv1.Traits{EffectClass: wireClass[job.Handle]}), job.Traits{Class: job.Handle}},
		"OBSERVABLE, unsaid":   {checked(seenWith(nil, 0, nil)), observable(time.Minute, 2, 5*time.Minute)},
		"OBSERVABLE, at once":  {checked(seenWith(durationpb.New(0), 0, nil)), observable(0, 1, 0)},
		"OBSERVABLE, long lag": {checked(seenWith(durationpb.New(time.Hour), 3, nil)), observable(time.Hour, 3, 15*time.Minute)},
		"OBSERVABLE, own":      {checked(seenWith(durationpb.New(time.Second), 4, durationpb.New(time.Hour))), observable(time.Second, 4, time.Hour)},
		"lag too long":         {checked(seenWith(durationpb.New(time.Hour+1), 0, nil)), job.Traits{}},
		"negative lag":         {checked(seenWith(durationpb.New(-1), 0, nil)), job.Traits{}},
		"too many negatives":   {checked(seenWith(nil, 11, nil)), job.Traits{}},
		"fewer than none":      {checked(seenWith(nil, -1, nil)), job.Traits{}},
		"spacing too long":     {checked(seenWith(nil, 0, durationpb.New(time.Hour+1))), job.Traits{}},
		"no class":             {checked(nil), job.Traits{}},
		"a later class":        {checked(&connectorv1.Traits{EffectClass: 99}), job.Traits{}},
		"nothing":              {&connectorv1.CheckResponse{}, job.Traits{}},
	} {
		s := &service{class: job.Keyed, check: c.answer}
		conn := s.start(t)
		got, err := conn.Check(nil, credential(t))
		if c.want == (job.Traits{}) {
			checkHeld(t, name, err)
			_, err = conn.Traits(nil)
			checkHeld(t, name, err)
			continue
		}
		traits, err2 := conn.Traits(nil)
		if err != nil || err2 != nil || got.Traits != c.want || traits != c.want || got.Identity != "acme:ada" {
			t.Errorf("%s: %+v, %v, %+v, %v", name, got, err, traits, err2)
		}
		if n := len(s.log()); n != 2 { // Describe and Check: the traits are known
			t.Errorf("%s: calls %q", name, s.log())
		}
	}
}

// TestTraitsOfTwo: what one account's target promises is not taken for another one's
// with the same settings.
func TestTraitsOfTwo(t *testing.T) {
	for name, c := range map[string]struct{ one, other, want *connectorv1.Traits }{
		"keyed": {
			&connectorv1.Traits{EffectClass: wireClass[job.Keyed], KeyWindow: durationpb.New(time.Hour)},
			&connectorv1.Traits{EffectClass: wireClass[job.Keyed], KeyWindow: durationpb.New(24 * time.Hour)},
			&connectorv1.Traits{EffectClass: wireClass[job.Keyed], KeyWindow: durationpb.New(time.Hour)},
		},
		"looked at": {
			&connectorv1.Traits{EffectClass: wireClass[job.Observable], ReadLag: durationpb.New(time.Minute), Negatives: 1, Spacing: durationpb.New(time.Hour)},
			&connectorv1.Traits{EffectClass: wireClass[job.Observable], ReadLag: durationpb.New(time.Second), Negatives: 3, Spacing: durationpb.New(0)},
			&connectorv1.Traits{EffectClass: wireClass[job.Observable], ReadLag: durationpb.New(time.Minute), Negatives: 3, Spacing: durationpb.New(time.Hour)},
		},
		"another class": { // for jobs of the one before, the engine has times of its own
			&connectorv1.Traits{EffectClass: wireClass[job.Observable], ReadLag: durationpb.New(time.Minute)},
			&connectorv1.Traits{EffectClass: wireClass[job.Keyed], KeyWindow: durationpb.New(time.Hour)},
			&connectorv1.Traits{EffectClass: wireClass[job.Keyed], KeyWindow: durationpb.New(time.Hour)},
		},
	} {
		s := &service{class: job.Keyed}
		conn := s.start(t)
		check := func(traits *connectorv1.Traits) job.Traits {
			s.set(func() {
				s.check = &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Checked{Checked: &connectorv1.Checked{Traits: traits}}}
			})
			got, err := conn.Check(nil, credential(t))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return got.Traits
		}
		check(c.one)
		check(c.other)
		got, err := conn.Traits(nil)
		if want := check(c.want); err != nil || got != want {
			t.Errorf("%s: %+v, want %+v, %v", name, got, want, err)
		}
	}
}

func checkHeld(t *testing.T, name string, err error) {
	t.Helper()
	var r *connector.Refusal
	if !errors.As(err, &r) || r.Kind != job.FailHeld || r.RetryAfter != remote.DefaultWait || r.Msg == "" {
		t.Errorf("%s: %v, want a Refusal of kind HELD", name, err)
	}
}

// TestInvalid: the service's words on a user's input come through, less secrets.
func TestInvalid(t *testing.T) {
	for kind, want := range map[connectorv1.InvalidInput_Kind][2]connector.InputReason{ // in Check, in Prepare
		connectorv1.InvalidInput_KIND_UNSPECIFIED:  {connector.BadSettings, connector.BadPayload},
		connectorv1.InvalidInput_KIND_SETTINGS:     {connector.BadSettings, connector.BadSettings},
		connectorv1.InvalidInput_KIND_CREDENTIAL:   {connector.BadCredential, connector.BadCredential},
		connectorv1.InvalidInput_KIND_PAYLOAD:      {connector.BadPayload, connector.BadPayload},
		connectorv1.InvalidInput_KIND_PAYLOAD_KIND: {connector.PayloadMismatch, connector.PayloadMismatch},
	} {
		in := &connectorv1.InvalidInput{Kind: kind, Field: "a.b", Message: "too\nlong: " + secret}
		s := &service{
			class: job.Keyed,
			check: &connectorv1.CheckResponse{Result: &connectorv1.CheckResponse_Invalid{Invalid: in}},
			prepare: func(*connectorv1.PrepareRequest) *connectorv1.PrepareResponse {
				return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Invalid{Invalid: in}}
			},
		}
		c := s.start(t)
		_, err := c.Check(nil, credential(t))
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != want[0] || err.Error() != "a.b: too long: [redacted]" {
			t.Errorf("%s: %v", kind, err)
		}
		r := requestOf(t, "x")
		r.Credential = func() (connector.Credential, error) { return credential(t), nil }
		_, err = c.Prepare(r)
		if !errors.As(err, &input) || input.Reason != want[1] || err.Error() != "a.b: too long: [redacted]" {
			t.Errorf("%s: %v", kind, err)
		}
		for name, open := range map[string]func() (connector.Credential, error){
			"no credential": nil, "a broken seal": func() (connector.Credential, error) { return connector.Credential{}, errors.New("broken") },
		} {
			r.Credential = open
			_, err = c.Prepare(r)
			if !errors.As(err, &input) || input.Reason != want[1] || strings.Contains(err.Error(), "too") || input.Field != "" {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
}

// TestPrepare: what is frozen, and the gate of what is looked at.
func TestPrepare(t *testing.T) {
	keyedService, observableService := &service{class: job.Keyed}, &service{class: job.Observable}
	makes := func(made *connectorv1.Prepared) {
		for _, s := range []*service{keyedService, observableService} {
			s.set(func() {
				s.prepare = func(*connectorv1.PrepareRequest) *connectorv1.PrepareResponse {
					return &connectorv1.PrepareResponse{Result: &connectorv1.PrepareResponse_Prepared{Prepared: made}}
				}
			})
		}
	}
	makes(&connectorv1.Prepared{Frozen: []byte("own")})
	keyed, observable := keyedService.start(t), observableService.start(t)
	r := connector.Request{EffectKey: effectKey, PayloadKind: "social_post", ReplyTo: "e0", Payload: encode(t, &fireoncev1.Payload{
		Kind: &fireoncev1.Payload_SocialPost{SocialPost: &fireoncev1.SocialPost{Text: "hi"}},
	})}
	// Jobs that are armed outlive an upgrade.
	const frozen = "01" + "077061796c6f6164" + "060a040a026869" + "087265706c795f746f" + "026530" + "0666726f7a656e" + "036f776e"
	a, err := keyed.Prepare(r)
	if err != nil || hex.EncodeToString(a.Frozen) != frozen || a.HoldKey != "account" || a.Gate != nil {
		t.Errorf("%x, %q, gate %x, %v", a.Frozen, a.HoldKey, a.Gate, err)
	}
	b, err := observable.Prepare(r)
	if err != nil || hex.EncodeToString(b.Frozen) != frozen || len(b.Gate) != 32 {
		t.Errorf("%x, gate %x, %v", b.Frozen, b.Gate, err)
	}
	makes(&connectorv1.Prepared{Frozen: []byte("own"), Fingerprint: []byte("same")})
	first, err := observable.Prepare(r)
	r.ReplyTo = ""
	second, err2 := observable.Prepare(r)
	if err != nil || err2 != nil || string(first.Gate) != string(second.Gate) || string(first.Gate) == string(b.Gate) {
		t.Errorf("gates %x and %x, %v, %v", first.Gate, second.Gate, err, err2)
	}
	for name, big := range map[string]*connectorv1.Prepared{"frozen": {Frozen: make([]byte, 256<<10+1)}, "fingerprint": {Fingerprint: make([]byte, 65)}} {
		makes(big)
		if _, err := keyed.Prepare(r); err == nil {
			t.Errorf("%s is too long and was taken", name)
		}
	}
}

// TestAway: the service does not listen. Jobs wait, and can be scheduled; no call waits
// again for an answer that another call did not get.
func TestAway(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	c := dial(t, server.URL, loopback(t))
	if d := c.Describe(); d.Name != "acme" || !d.Replies || d.Promise == "" {
		t.Errorf("described as %+v", d)
	}
	_, err := c.Check(nil, connector.Credential{})
	checkHeld(t, "Check", err)
	p, err := c.Prepare(requestOf(t, "x"))
	checkHeld(t, "Prepare", err)
	if p.HoldKey != "account" || p.Frozen != nil {
		t.Errorf("prepared %+v", p)
	}
	_, err = c.Traits(nil)
	checkHeld(t, "Traits", err)
	_, err = c.Test(t.Context(), connector.Opening{})
	var r *connector.Refusal
	if !errors.As(err, &r) || r.Kind != job.FailTransient {
		t.Errorf("Test: %v", err)
	}
}

// TestSilence: who lets questions wait until their time is over, several times in a
// row, is left alone for a while: each costs the sender that asks its whole time.
func TestSilence(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	var questions atomic.Int32
	over := make(chan struct{})
	_, handler := connectorv1connect.NewConnectorServiceHandler(&service{class: job.Keyed})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		questions.Add(1)
		if silent.Load() {
			<-over
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	c, err := remote.New(remote.Config{Name: "acme", URL: server.URL, Sender: loopback(t), Ask: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	unheard := func(n int) {
		silent.Store(true)
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				_, err := c.Check(nil, credential(t))
				checkHeld(t, "Check", err)
			})
		}
		all.Wait()
		silent.Store(false)
	}
	unheard(2)
	if _, err := c.Check(nil, credential(t)); err != nil {
		t.Fatal(err)
	}
	unheard(2)
	if _, err := c.Check(nil, credential(t)); err != nil {
		t.Fatal(err)
	}
	unheard(3)
	asked := questions.Load()
	_, err = c.Check(nil, credential(t))
	checkHeld(t, "Check", err)
	_, err = c.Prepare(requestOf(t, "x"))
	checkHeld(t, "Prepare", err)
	if n := questions.Load(); asked != 9 || n != 9 {
		t.Errorf("%d questions, then %d", asked, n)
	}
}

func TestTest(t *testing.T) {
	s := &service{class: job.Keyed, test: &connectorv1.TestResponse{Result: &connectorv1.TestResponse_Tested{
		Tested: &connectorv1.Tested{AccountIdentity: "7", Detail: "This is Ada, by " + secret},
	}}}
	c := s.start(t)
	o := connector.Opening{Credential: credential(t)}
	got, err := c.Test(t.Context(), o)
	if err != nil || got.Identity != "acme:7" || got.Detail != "This is Ada, by [redacted]" {
		t.Errorf("%+v, %v", got, err)
	}
	var r *connector.Refusal
	refused := &connectorv1.TestResponse{Result: &connectorv1.TestResponse_Refused{Refused: refusal(connectorv1.Refusal_KIND_AUTH, 0)}}
	s.set(func() { s.test = refused })
	if _, err = c.Test(t.Context(), o); !errors.As(err, &r) || r.Kind != job.FailAuth {
		t.Errorf("%v", err)
	}
	s.set(func() { s.test = nil })
	if _, err = c.Test(t.Context(), o); !errors.As(err, &r) || r.Kind != job.FailTransient || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

func TestDescribe(t *testing.T) {
	s := &service{class: job.Keyed}
	c := s.start(t)
	d := c.Describe()
	if !slices.Equal(d.Payloads, []string{"custom", "social_post"}) || !slices.Equal(d.Classes, []job.Class{job.Keyed}) || d.Promise != "One entry." {
		t.Errorf("%+v", d)
	}
	for name, bad := range map[string]*connectorv1.DescribeResponse{
		"nothing":          {},
		"no class":         {PayloadKinds: []string{"custom"}},
		"an unknown class": {PayloadKinds: []string{"custom"}, EffectClasses: []fireoncev1.EffectClass{9}},
		"an unknown kind":  {PayloadKinds: []string{"fax"}, EffectClasses: []fireoncev1.EffectClass{1}},
	} {
		s.set(func() { s.describe = bad })
		if err := c.Load(t.Context()); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if again := c.Describe(); !slices.Equal(again.Payloads, d.Payloads) {
		t.Errorf("a bad description replaced a good one: %+v", again)
	}
	r := requestOf(t, "x")
	r.PayloadKind = "webhook"
	var input *connector.InputError
	if _, err := c.Prepare(r); !errors.As(err, &input) || input.Reason != connector.PayloadMismatch {
		t.Errorf("%v", err)
	}
}
