package httpapi_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fireonce/fireonce/clients/go/connectionsv1"
	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/connectortest"
	"github.com/fireonce/fireonce/internal/connector/httpapi"
	"github.com/fireonce/fireonce/internal/job"
)

const (
	post = fireoncev1.HttpMethod_HTTP_METHOD_POST
	get  = fireoncev1.HttpMethod_HTTP_METHOD_GET
)

// prepareWith checks a request as a submit does.
func prepareWith(t *testing.T, c connector.Connector, s *connectionsv1.HttpSettings, r *fireoncev1.HttpRequest) (connector.Prepared, error) {
	t.Helper()
	return c.Prepare(connector.Request{EffectKey: effectKey, Settings: encode(t, s), PayloadKind: httpapi.PayloadKind, Payload: payloadOf(t, r)})
}

func TestPermit(t *testing.T) {
	paths := func(list ...string) *connectionsv1.HttpSettings { return &connectionsv1.HttpSettings{Paths: list} }
	at := func(path string) *fireoncev1.HttpRequest {
		return &fireoncev1.HttpRequest{Url: "https://api.example.org" + path}
	}
	for name, tt := range map[string]struct {
		settings *connectionsv1.HttpSettings
		request  *fireoncev1.HttpRequest
		field    string // of the refusal; empty: it is permitted
	}{
		"no lists":                  {paths(), at("/any/../thing"), ""},
		"the path":                  {paths("/a", "/v1/charges"), at("/v1/charges?x=1"), ""},
		"another path":              {paths("/v1/charges"), at("/v1/charges/7"), "url"},
		"no path":                   {paths("/v1/charges"), at(""), "url"},
		"the root alone":            {paths("/x"), at("/"), "url"},
		"below":                     {paths("/v1/"), at("/v1/charges/7/"), ""},
		"below, itself":             {paths("/v1/"), at("/v1/"), ""},
		"below, without its slash":  {paths("/v1/"), at("/v1"), "url"},
		"a longer name":             {paths("/v1/"), at("/v11/x"), "url"},
		"another case":              {paths("/v1/"), at("/V1/x"), "url"},
		"an escaped letter":         {paths("/v1/"), at("/v1/caf%C3%A9"), ""},
		"up":                        {paths("/v1/"), at("/v1/../admin"), "url"},
		"up, at the end":            {paths("/v1/"), at("/v1/.."), "url"},
		"here":                      {paths("/v1/"), at("/v1/./x"), "url"},
		"up, escaped":               {paths("/v1/"), at("/v1/%2e%2E/admin"), "url"},
		"up, escaped twice":         {paths("/v1/"), at("/v1/%252e%252e/admin"), "url"},
		"up, escaped often":         {paths("/v1/"), at("/v1/%25252525252e%2525252e/admin"), "url"},
		"up, with a parameter":      {paths("/v1/"), at("/v1/..;a=b/admin"), "url"},
		"a hidden slash":            {paths("/v1/"), at("/v1/x%2f..%2fadmin"), "url"},
		"a hidden backslash":        {paths("/v1/"), at("/v1/..%5cadmin"), "url"},
		"beyond ASCII":              {paths("/größe/"), at("/gr%C3%B6%C3%9Fe/ü"), ""},
		"beyond ASCII, encoded":     {paths("/gr%C3%B6%C3%9Fe/"), at("/größe/ü"), ""},
		"brackets and braces":       {paths("/v1/[a]/{b}"), at("/v1/[a]/%7Bb%7D"), ""},
		"another, beyond ASCII":     {paths("/größe/"), at("/grösse/ü"), "url"},
		"up, beyond ASCII":          {paths("/größe/"), at("/größe/../x"), "url"},
		"a hidden slash, in braces": {paths("/v1/"), at("/v1/{x}%2f..%2fadmin"), "url"},
		"an empty part":             {paths("/v1/"), at("/v1//admin"), "url"},
		"a method":                  {&connectionsv1.HttpSettings{Methods: []fireoncev1.HttpMethod{get, post}}, at("/"), ""},
		"another method":            {&connectionsv1.HttpSettings{Methods: []fireoncev1.HttpMethod{get}}, at("/"), "method"},
		"a pointer": {
			&connectionsv1.HttpSettings{IdJsonPointers: []string{"/id"}}, &fireoncev1.HttpRequest{Url: "https://api.example.org/", IdJsonPointer: "/id"}, "",
		},
		"another pointer": {
			&connectionsv1.HttpSettings{IdJsonPointers: []string{"/id"}}, &fireoncev1.HttpRequest{Url: "https://api.example.org/", IdJsonPointer: "/iban"}, "id_json_pointer",
		},
		"no pointers": {&connectionsv1.HttpSettings{}, &fireoncev1.HttpRequest{Url: "https://api.example.org/", IdJsonPointer: "/id"}, "id_json_pointer"},
	} {
		_, err := prepareWith(t, httpapi.New(httpapi.Config{}), tt.settings, tt.request)
		var input *connector.InputError
		switch {
		case tt.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.field != "" && (!errors.As(err, &input) || input.Reason != connector.BadPayload || input.Field != "payload.http_request."+tt.field):
			t.Errorf("%s: %v, want a refusal of %s", name, err, tt.field)
		}
	}
}

func TestPermitSettings(t *testing.T) {
	no := connectionsv1.ReceiverDedupes_RECEIVER_DEDUPES_NO
	for field, s := range map[string]*connectionsv1.HttpSettings{
		"paths":               {Paths: make([]string, 51)},
		"paths[0]":            {Paths: []string{"v1"}},
		"paths[1]":            {Paths: []string{"/", "/a?b"}},
		"paths[2]":            {Paths: []string{"/", "/a", "/a/../b"}},
		"methods[0]":          {Methods: []fireoncev1.HttpMethod{0}},
		"methods[1]":          {Methods: []fireoncev1.HttpMethod{get, 99}},
		"id_json_pointers[0]": {IdJsonPointers: []string{"id"}},
		"id_json_pointers":    {IdJsonPointers: make([]string, 21)},
	} {
		s.ReceiverDedupes = no
		_, err := httpapi.New(httpapi.Config{}).Check(encode(t, s), connector.Credential{})
		var input *connector.InputError
		if !errors.As(err, &input) || input.Reason != connector.BadSettings || input.Field != "settings.http."+field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestPermitBeforeSending: what was scheduled before the owner limited the connection
// is not sent.
func TestPermitBeforeSending(t *testing.T) {
	p := connectortest.NewPlatform(t, false)
	c := httpapi.New(httpapi.Config{Sender: p.Sender()})
	prepared, err := prepareWith(t, c, &connectionsv1.HttpSettings{IdJsonPointers: []string{"/id"}}, &fireoncev1.HttpRequest{Url: p.URL() + "/admin", IdJsonPointer: "/id"})
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*connectionsv1.HttpSettings{
		"paths":    {Paths: []string{"/v1/"}, IdJsonPointers: []string{"/id"}},
		"methods":  {Methods: []fireoncev1.HttpMethod{get}, IdJsonPointers: []string{"/id"}},
		"pointers": {},
		"origins":  {Origins: []string{"https://api.example.org"}, IdJsonPointers: []string{"/id"}},
	} {
		o := connector.Opening{Class: job.Keyed, Settings: encode(t, s), Prepared: prepared}
		_, err := c.Open(t.Context(), o)
		var r *connector.Refusal
		if !errors.As(err, &r) || r.Kind != job.FailPermanent || !strings.Contains(r.Msg, "no longer allows") {
			t.Errorf("%s: %v", name, err)
		}
		if c.OpenIdle(o) != nil {
			t.Errorf("%s: an idle connection was taken for it", name)
		}
	}
	if p.Accepted() != 0 {
		t.Errorf("%d connections", p.Accepted())
	}
}

// TestQuotes: a target may repeat the credential in a form that no filter expects, so
// the target's text is quoted only if no secret was sent, or if the owner allows it.
func TestQuotes(t *testing.T) {
	const said = "terces-reraeb is B E A R E R - S E C R E T is &#98;earer-secret, card declined"
	cred := credentialOf(t, &connectionsv1.Credential{Kind: &connectionsv1.Credential_BearerToken{BearerToken: &connectionsv1.BearerToken{Token: "bearer-secret"}}})
	for name, tt := range map[string]struct {
		cred  connector.Credential
		quote bool
		want  bool
	}{
		"nothing secret":     {connector.Credential{}, false, true},
		"a credential":       {cred, false, false},
		"as its owner wants": {cred, true, true},
	} {
		for _, status := range []int{402, 500, 409, 307} {
			p := connectortest.NewPlatform(t, false, connectortest.Say(connectortest.Answer(status, said)))
			b := &bench{c: httpapi.New(httpapi.Config{Sender: p.Sender()}), class: job.Keyed, cred: tt.cred}
			b.prepare(t, &fireoncev1.HttpRequest{Url: p.URL() + "/x"})
			b.settings = encode(t, &connectionsv1.HttpSettings{Origins: []string{p.URL()}, QuoteAnswers: tt.quote})
			o := b.send(t, 30*time.Second)
			if strings.Contains(o.Message, "card declined") != tt.want || strings.Contains(o.Message, "terces") != tt.want ||
				strings.Contains(o.Message, "quote_answers") == tt.want {
				t.Errorf("%s, %d: %q", name, status, o.Message)
			}
		}
	}
}
